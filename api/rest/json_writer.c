#include "api/rest/json_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { FIRST_CAPACITY = 1024 };

static bool reserve(struct json_writer *writer, size_t more)
{
    if (writer->failed)
        return false;
    if (writer->capacity - writer->length >= more)
        return true;
    size_t capacity = writer->capacity == 0 ? FIRST_CAPACITY : writer->capacity;
    while (capacity - writer->length < more) {
        if (capacity > SIZE_MAX / 2) {
            writer->failed = true;
            return false;
        }
        capacity *= 2;
    }
    char *text = realloc(writer->text, capacity);
    if (text == NULL) {
        writer->failed = true;
        return false;
    }
    writer->text = text;
    writer->capacity = capacity;
    return true;
}

static void put(struct json_writer *writer, const char *text, size_t length)
{
    if (!reserve(writer, length))
        return;
    memcpy(writer->text + writer->length, text, length);
    writer->length += length;
}

static bool is_continuation(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* The length of the UTF-8 sequence at `at`, or 0 when it is not valid (overlong, surrogate, cut off). The
 * terminating zero is no continuation byte, so nothing is read beyond it. */
static size_t utf8_sequence(const unsigned char *at)
{
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        return is_continuation(at[1]) ? 2 : 0;
    if (at[0] >= 0xe0 && at[0] <= 0xef) {
        if (!is_continuation(at[1]) || !is_continuation(at[2]) || (at[0] == 0xe0 && at[1] < 0xa0) ||
            (at[0] == 0xed && at[1] > 0x9f))
            return 0;
        return 3;
    }
    if (at[0] >= 0xf0 && at[0] <= 0xf4) {
        if (!is_continuation(at[1]) || !is_continuation(at[2]) || !is_continuation(at[3]) ||
            (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
            return 0;
        return 4;
    }
    return 0;
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_quoted(struct json_writer *writer, const char *value)
{
    put(writer, "\"", 1);
    const unsigned char *at = (const unsigned char *)value;
    while (*at != '\0') {
        const unsigned char *start = at;
        while (is_plain(*at))
            at++;
        put(writer, (const char *)start, (size_t)(at - start));
        if (*at == '\0')
            break;
        if (*at < 0x80) {
            char escape[8];
            int length = *at == '"' || *at == '\\' ? snprintf(escape, sizeof escape, "\\%c", *at)
                                                   : snprintf(escape, sizeof escape, "\\u%04x", *at);
            put(writer, escape, (size_t)length);
            at++;
            continue;
        }
        size_t sequence = utf8_sequence(at);
        if (sequence == 0) {
            put(writer, "\\ufffd", 6);
            at++;
        } else {
            put(writer, (const char *)at, sequence);
            at += sequence;
        }
    }
    put(writer, "\"", 1);
}

/* The comma, when something stands before it, and the name. */
static void put_name(struct json_writer *writer, const char *name)
{
    if (writer->length > 0) {
        char last = writer->text[writer->length - 1];
        if (last != '{' && last != '[')
            put(writer, ",", 1);
    }
    if (name != NULL) {
        put_quoted(writer, name);
        put(writer, ":", 1);
    }
}

void json_begin_object(struct json_writer *writer, const char *name)
{
    put_name(writer, name);
    put(writer, "{", 1);
}

void json_end_object(struct json_writer *writer)
{
    put(writer, "}", 1);
}

void json_begin_array(struct json_writer *writer, const char *name)
{
    put_name(writer, name);
    put(writer, "[", 1);
}

void json_end_array(struct json_writer *writer)
{
    put(writer, "]", 1);
}

void json_put_raw(struct json_writer *writer, const char *name, const char *json)
{
    put_name(writer, name);
    put(writer, json, strlen(json));
}

void json_put_string(struct json_writer *writer, const char *name, const char *value)
{
    if (value == NULL) {
        json_put_null(writer, name);
        return;
    }
    put_name(writer, name);
    put_quoted(writer, value);
}

void json_put_integer(struct json_writer *writer, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    json_put_raw(writer, name, text);
}

void json_put_unsigned(struct json_writer *writer, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    json_put_raw(writer, name, text);
}

void json_put_bool(struct json_writer *writer, const char *name, bool value)
{
    json_put_raw(writer, name, value ? "true" : "false");
}

void json_put_null(struct json_writer *writer, const char *name)
{
    json_put_raw(writer, name, "null");
}

void json_put_time(struct json_writer *writer, const char *name, int64_t real_ms)
{
    char text[TIMESTAMP_SIZE];
    clock_format(real_ms, text);
    json_put_string(writer, name, text);
}

int json_writer_finish(struct json_writer *writer, char **ret, size_t *length, struct error *err)
{
    if (writer->failed) {
        json_writer_clear(writer);
        return error_set(err, REASON_RESOURCE_LIMIT, "no memory for the answer");
    }
    *ret = writer->text;
    *length = writer->length;
    *writer = JSON_WRITER_INIT;
    return 0;
}

void json_writer_clear(struct json_writer *writer)
{
    free(writer->text);
    *writer = JSON_WRITER_INIT;
}
