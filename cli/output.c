#include "cli/output.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "cli/report.h"
#include "cli/text.h"
#include "cli/values.h"
#include "cli/yaml.h"

const char *json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

int64_t json_number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

void json_age(const json_t *object, const char *key, int64_t now_ms, char out[48])
{
    int64_t then = parse_timestamp(json_text(object, key));
    if (then < 0)
        (void)snprintf(out, 48, "-");
    else
        format_duration((now_ms - then) / 1000, out);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static void print_detail(FILE *out, const char *key, const json_t *value, int64_t now_ms)
{
    char text[VALUE_TEXT_SIZE];
    if (json_is_string(value)) {
        const char *string = json_string_value(value);
        int64_t then = parse_timestamp(string);
        text_print(out, string[0] == '\0' ? "-" : string);
        if (then >= 0 && then <= now_ms) {
            format_duration((now_ms - then) / 1000, text);
            (void)fprintf(out, " (%s ago)", text);
        }
    } else if (json_is_integer(value)) {
        int64_t number = json_integer_value(value);
        (void)fprintf(out, "%" PRId64, number);
        if (number >= 1024 && (ends_with(key, "Bytes") || strcmp(key, "bytes") == 0)) {
            format_size(number, text);
            (void)fprintf(out, " (%s)", text);
        }
    } else if (json_is_boolean(value)) {
        (void)fputs(json_is_true(value) ? "yes" : "no", out);
    } else if (json_is_real(value)) {
        (void)fprintf(out, "%g", json_real_value(value));
    } else if (json_array_size(value) > 0) {
        text_print_shell_words(out, value);
    } else {
        (void)fputc('-', out);
    }
    (void)fputc('\n', out);
}

/* Nested ones are those that need lines of their own. */
static bool is_nested(const json_t *value)
{
    return json_object_size(value) > 0 || json_is_object(json_array_get(value, 0));
}

static void print_object(FILE *out, const json_t *object, int indent, int64_t now_ms)
{
    const char *key = NULL;
    json_t *value = NULL;
    size_t width = 0;
    /* jansson's iteration wants a pointer that is not const, and changes nothing. */
    json_t *members = (json_t *)(uintptr_t)object;
    json_object_foreach(members, key, value)
    {
        if (!is_nested(value) && text_width(key) > width)
            width = text_width(key);
    }
    json_object_foreach(members, key, value)
    {
        (void)fprintf(out, "%*s", indent, "");
        text_print(out, key);
        (void)fputc(':', out);
        if (!is_nested(value)) {
            (void)fprintf(out, "%*s", (int)(width - text_width(key) + 2), "");
            print_detail(out, key, value, now_ms);
            continue;
        }
        (void)fputc('\n', out);
        if (json_is_object(value))
            print_object(out, value, indent + 2, now_ms);
        for (size_t i = 0; i < json_array_size(value); i++)
            print_object(out, json_array_get(value, i), indent + 2, now_ms);
    }
}

void details_print(FILE *out, const json_t *object, int64_t now_ms)
{
    print_object(out, object, 0, now_ms);
}

int output_json(struct context *context, const json_t *value, const char *body)
{
    if (context->format == FORMAT_YAML) {
        yaml_print(context->out, value);
        return EXIT_CODE_OK;
    }
    if (body != NULL) {
        (void)fputs(body, context->out);
        if (!ends_with(body, "\n"))
            (void)fputc('\n', context->out);
        return EXIT_CODE_OK;
    }
    if (json_dumpf(value, context->out, JSON_COMPACT) != 0)
        return report_local("cannot write the answer as JSON: out of memory");
    (void)fputc('\n', context->out);
    return EXIT_CODE_OK;
}

int output_reply(struct context *context, const struct chan_reply *reply)
{
    if (context->format == FORMAT_JSON)
        return output_json(context, NULL, reply->body);
    auto_json json_t *value = json_loadb(reply->body, reply->body_bytes, 0, NULL);
    if (value == NULL)
        return report_local("cannot hold the answer: out of memory");
    if (context->format == FORMAT_YAML)
        return output_json(context, value, NULL);
    details_print(context->out, value, clock_real_ms());
    return EXIT_CODE_OK;
}

int output_part(struct context *context, const json_t *object, const char *path_key)
{
    if (context->format == FORMAT_PATH) {
        const char *path = json_text(object, path_key);
        if (path[0] == '\0')
            return report_local("chand's answer has no path");
        (void)fprintf(context->out, "%s\n", path);
        return EXIT_CODE_OK;
    }
    const char *key = context->format == FORMAT_QEMU_ARGS ? "qemu" : "cloudHypervisor";
    const json_t *words = json_object_get(json_object_get(object, "vmm"), key);
    if (json_array_size(words) == 0)
        return report_local("chand's answer has no arguments for this VMM");
    text_print_shell_words(context->out, words);
    (void)fputc('\n', context->out);
    return EXIT_CODE_OK;
}

int output_table(struct context *context, const struct table *table)
{
    return table_print(table, context->out) == 0 ? EXIT_CODE_OK
                                                 : report_local("cannot hold the table: out of memory");
}
