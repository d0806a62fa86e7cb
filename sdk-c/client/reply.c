/* Answers: what chand said, taken apart. */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sdk-c/client/internal.h"

static void empty(struct chan_reply *reply)
{
    free(reply->body);
    memset(reply, 0, sizeof *reply);
}

void chan_reply_clear(struct chan_reply *reply)
{
    if (reply != NULL)
        empty(reply);
}

int reply_fail(struct chan_reply *reply, int result, const char *format, ...)
{
    char detail[sizeof reply->detail] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    empty(reply); /* only now: an argument may be a part of the reply */
    memcpy(reply->detail, detail, sizeof detail);
    return result;
}

/* Copies what fits and never ends within a character of UTF-8. */
static void copy_text(char *out, size_t size, const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    if (length >= size) {
        length = size - 1;
        while (length > 0 && ((unsigned char)text[length] & 0xc0u) == 0x80u)
            length--;
    }
    if (length > 0)
        memcpy(out, text, length);
    out[length] = '\0';
}

static void read_fields(struct chan_reply *reply, const json_t *errors)
{
    size_t count = json_array_size(errors);
    for (size_t i = 0; i < count && reply->field_count < CHAN_REPLY_FIELDS_MAX; i++) {
        const json_t *entry = json_array_get(errors, i);
        const char *field = json_string_value(json_object_get(entry, "field"));
        if (field == NULL)
            continue;
        struct chan_reply_field *out = &reply->fields[reply->field_count++];
        copy_text(out->field, sizeof out->field, field);
        copy_text(out->detail, sizeof out->detail, json_string_value(json_object_get(entry, "detail")));
    }
}

static void read_problem(struct chan_reply *reply, const json_t *problem)
{
    copy_text(reply->reason, sizeof reply->reason, json_string_value(json_object_get(problem, "reason")));
    copy_text(reply->title, sizeof reply->title, json_string_value(json_object_get(problem, "title")));
    copy_text(reply->detail, sizeof reply->detail, json_string_value(json_object_get(problem, "detail")));
    const char *request_id = json_string_value(json_object_get(problem, "requestID"));
    if (request_id != NULL)
        copy_text(reply->request_id, sizeof reply->request_id, request_id);
    read_fields(reply, json_object_get(problem, "errors"));
}

/* "application/json", also with parameters after it. */
static bool is_type(const char *content_type, const char *type)
{
    size_t length = strlen(type);
    if (content_type == NULL || strncasecmp(content_type, type, length) != 0)
        return false;
    return content_type[length] == '\0' || content_type[length] == ';' || content_type[length] == ' ';
}

static int judge_refusal(struct chan_reply *reply)
{
    json_t *problem = json_loadb(reply->body, reply->body_bytes, 0, NULL);
    if (problem != NULL)
        read_problem(reply, problem);
    json_decref(problem);
    if (reply->detail[0] == '\0' && reply->title[0] != '\0')
        copy_text(reply->detail, sizeof reply->detail, reply->title);
    else if (reply->detail[0] == '\0')
        (void)snprintf(reply->detail, sizeof reply->detail, "the daemon answered with HTTP status %d",
                       reply->status);
    return -EREMOTEIO;
}

static int judge_success(struct chan_reply *reply, const char *content_type, bool expect_object)
{
    bool is_json = is_type(content_type, "application/json");
    if (reply->status == 204 || (!expect_object && !is_json))
        return 0;
    json_error_t error;
    json_t *json =
        json_loadb(reply->body, reply->body_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (json == NULL && json_error_code(&error) == json_error_out_of_memory)
        return reply_fail(reply, -ENOMEM, "out of memory");
    if (json == NULL)
        return reply_fail(reply, -EPROTO,
                          "the answer (HTTP status %d, %zu bytes) is not valid JSON: %s at byte %d",
                          reply->status, reply->body_bytes, error.text, error.position);
    bool is_object = json_is_object(json);
    json_decref(json);
    if (expect_object && !is_object)
        return reply_fail(reply, -EPROTO, "the answer (HTTP status %d) is JSON, but not an object",
                          reply->status);
    return 0;
}

int reply_judge(struct chan_reply *reply, int status, const char *content_type, const char *request_id,
                char *body, size_t body_bytes, bool expect_object)
{
    reply->status = status;
    reply->body = body;
    reply->body_bytes = body_bytes;
    copy_text(reply->request_id, sizeof reply->request_id, request_id);
    if (status >= 400)
        return judge_refusal(reply);
    if (status < 200 || status >= 300)
        return reply_fail(reply, -EPROTO, "the answer has HTTP status %d, which chand never sends", status);
    return judge_success(reply, content_type, expect_object);
}
