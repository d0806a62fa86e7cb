#include "cli/request.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/output.h"
#include "cli/report.h"
#include "cli/values.h"

const char *request_id_argument(const struct context *context)
{
    return context->arguments.positional_count > 0 ? context->arguments.positionals[0] : "";
}

int request_usage(const struct context *context, const struct error *err)
{
    if (err->reason == REASON_INTERNAL)
        return report_local("%s", err->detail);
    return report_usage(noun_find(context->command->noun), context->command, err);
}

int request_options(const struct context *context, struct chan_call_options *ret, struct error *err)
{
    const char *revision = arguments_value(&context->arguments, "if-match");
    if (revision != NULL && parse_number("--if-match", revision, 1, INT64_MAX, &ret->if_match, err) != 0)
        return -1;
    ret->idempotency_key = arguments_value(&context->arguments, "idempotency-key");
    return 0;
}

int request_set(json_t *object, const char *key, json_t *value, struct error *err)
{
    /* jansson frees the value when it fails. */
    if (json_object_set_new(object, key, value) == 0)
        return 0;
    return error_set(err, REASON_INVALID_REQUEST, "the value of %s is not UTF-8 text, or memory ran out",
                     key);
}

char *request_dump(const json_t *body, struct error *err)
{
    char *text = json_dumps(body, JSON_COMPACT);
    if (text == NULL)
        (void)error_set_errno(err, REASON_INTERNAL, ENOMEM, "cannot write the request");
    return text;
}

int request_number(const struct context *context, const char *name, int64_t maximum, json_t *body,
                   const char *key, struct error *err)
{
    const char *text = arguments_value(&context->arguments, name);
    if (text == NULL)
        return 0;
    char option[32];
    (void)snprintf(option, sizeof option, "--%s", name);
    int64_t number = 0;
    if (parse_number(option, text, 0, maximum, &number, err) != 0)
        return -1;
    return request_set(body, key, json_integer(number), err);
}

int request_text(const struct context *context, const char *name, json_t *body, const char *key,
                 struct error *err)
{
    const char *text = arguments_value(&context->arguments, name);
    return text == NULL ? 0 : request_set(body, key, json_string(text), err);
}

int request_owner(const struct context *context, json_t *body, struct error *err)
{
    const char *pid = arguments_value(&context->arguments, "owner-pid");
    const char *lease = arguments_value(&context->arguments, "lease");
    if (pid == NULL && lease == NULL)
        return 0;
    if (pid != NULL && lease != NULL)
        return error_set(err, REASON_INVALID_REQUEST, "--owner-pid and --lease exclude each other");
    int64_t number = 0;
    if (pid != NULL ? parse_number("--owner-pid", pid, 1, INT32_MAX, &number, err) != 0
                    : parse_duration("--lease", lease, &number, err) != 0)
        return -1;
    auto_json json_t *owner = json_object();
    if (request_set(owner, pid != NULL ? "pid" : "leaseSeconds", json_integer(number), err) != 0)
        return -1;
    return request_set(body, "owner", json_incref(owner), err);
}

int request_delete_all(struct context *context, const char *kind, delete_fn delete_one)
{
    struct chan_call_options options = {0};
    struct error err = ERROR_INIT;
    if (request_options(context, &options, &err) != 0)
        return request_usage(context, &err);
    int code = EXIT_CODE_OK;
    for (size_t i = 0; i < context->arguments.positional_count; i++) {
        const char *id = context->arguments.positionals[i];
        auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
        int result = delete_one(context->client, id, &options, &reply);
        if (result == 0) {
            if (context->format == FORMAT_TABLE)
                (void)fprintf(context->out, "%s %s deleted\n", kind, id);
            continue;
        }
        int failure = report_call(context, result, &reply, "cannot delete %s %s", kind, id);
        if (code == EXIT_CODE_OK)
            code = failure;
        if (failure == EXIT_CODE_UNAVAILABLE)
            break; /* the others would only say the same */
    }
    return code;
}
