#include "cli/yaml.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "cli/text.h"

/* Readers give up on a plain "key:" whose key is longer than 1024 characters; "? key" has no such limit. */
enum { KEY_BYTES_MAX = 500 };

/* A word that readers take for a boolean or null, by YAML 1.1 or 1.2. */
static bool is_reserved(const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    return false;
}

/* Only what is beyond doubt: a letter or slash, then letters, digits and . _ / -; everything else is quoted.
 */
static bool is_plain(const char *text)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";
    if (text[0] == '\0' || (strchr(letters, text[0]) == NULL && text[0] != '/'))
        return false;
    return strspn(text, all) == strlen(text) && !is_reserved(text);
}

/* Not printable by YAML's rules, or a line break or mark that a reader might fold or drop. */
static bool needs_escape(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x2028 ||
           character == 0x2029 || character == 0xfeff || character == 0xfffe || character == 0xffff;
}

static void print_string(FILE *out, const char *text)
{
    if (is_plain(text)) {
        (void)fputs(text, out);
        return;
    }
    (void)fputc('"', out);
    for (;;) {
        const char *start = text;
        uint32_t character = text_next(&text);
        if (character == 0)
            break;
        if (character == '"' || character == '\\')
            (void)fprintf(out, "\\%c", (int)character);
        else if (character == '\n')
            (void)fputs("\\n", out);
        else if (character == '\t')
            (void)fputs("\\t", out);
        else if (needs_escape(character))
            (void)fprintf(out, "\\u%04X", (unsigned int)character);
        else
            (void)fwrite(start, 1, (size_t)(text - start), out);
    }
    (void)fputc('"', out);
}

/* JSON's 1e+20 is a string to YAML 1.1, which wants a point: 1.0e+20. */
static void print_real(FILE *out, double value)
{
    char text[64];
    (void)snprintf(text, sizeof text, "%.17g", value);
    size_t mantissa = strcspn(text, "e");
    bool has_point = memchr(text, '.', mantissa) != NULL;
    (void)fprintf(out, "%.*s%s%s", (int)mantissa, text, has_point ? "" : ".0", text + mantissa);
}

static void print_scalar(FILE *out, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        print_string(out, json_string_value(value));
        break;
    case JSON_INTEGER:
        (void)fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        print_real(out, json_real_value(value));
        break;
    case JSON_TRUE:
        (void)fputs("true", out);
        break;
    case JSON_FALSE:
        (void)fputs("false", out);
        break;
    case JSON_OBJECT:
        (void)fputs("{}", out); /* an empty one */
        break;
    case JSON_ARRAY:
        (void)fputs("[]", out);
        break;
    case JSON_NULL:
    default:
        (void)fputs("null", out);
        break;
    }
}

static bool is_block(const json_t *value)
{
    return json_object_size(value) > 0 || json_array_size(value) > 0;
}

static void print_block(FILE *out, const json_t *value, int indent, bool on_line);

/* What stands behind "key:": a scalar on the same line, or a block on the lines below. */
static void print_value(FILE *out, const json_t *value, int indent)
{
    if (is_block(value)) {
        (void)fputc('\n', out);
        print_block(out, value, indent, false);
        return;
    }
    (void)fputc(' ', out);
    print_scalar(out, value);
    (void)fputc('\n', out);
}

static void print_key(FILE *out, const char *key, int indent)
{
    bool is_long = strlen(key) > KEY_BYTES_MAX;
    if (is_long)
        (void)fputs("? ", out);
    print_string(out, key);
    if (is_long)
        (void)fprintf(out, "\n%*s", indent, "");
    (void)fputc(':', out);
}

/* A non-empty object or array. on_line: the first line's indentation is written already (behind a "- "). */
static void print_block(FILE *out, const json_t *value, int indent, bool on_line)
{
    const char *key = NULL;
    json_t *member = NULL;
    size_t count = json_array_size(value);
    for (size_t i = 0; i < count; i++) {
        const json_t *element = json_array_get(value, i);
        (void)fprintf(out, "%*s-", on_line && i == 0 ? 0 : indent, "");
        if (is_block(element)) {
            (void)fputc(' ', out);
            print_block(out, element, indent + 2, true);
        } else {
            print_value(out, element, indent);
        }
    }
    /* jansson's iteration wants a pointer that is not const, and changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        (void)fprintf(out, "%*s", on_line ? 0 : indent, "");
        on_line = false;
        print_key(out, key, indent);
        print_value(out, member, indent + 2);
    }
}

void yaml_print(FILE *out, const json_t *value)
{
    if (is_block(value)) {
        print_block(out, value, 0, false);
        return;
    }
    print_scalar(out, value);
    (void)fputc('\n', out);
}
