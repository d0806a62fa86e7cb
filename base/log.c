#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

struct line {
    char text[2048];
    size_t used;
};

static void put(struct line *line, const char *text, size_t length)
{
    size_t room = sizeof line->text - 1 - line->used; /* one byte stays for the newline */
    if (length > room)
        length = room;
    memcpy(line->text + line->used, text, length);
    line->used += length;
}

static bool is_control(char character)
{
    return (unsigned char)character < ' ' || character == '\x7f';
}

static bool wants_quotes(const char *value)
{
    bool plain = value[0] != '\0' && strpbrk(value, " \"=\\") == NULL;
    for (const char *at = value; plain && *at != '\0'; at++) {
        plain = !is_control(*at);
    }
    return !plain;
}

/* Control characters are escaped, so that a value can neither forge a line nor steer a terminal. */
static void put_value(struct line *line, const char *value)
{
    if (!wants_quotes(value)) {
        put(line, value, strlen(value));
        return;
    }
    put(line, "\"", 1);
    for (const char *at = value; *at != '\0'; at++) {
        char escaped[5] = {*at, '\0'};
        if (*at == '"' || *at == '\\') {
            (void)snprintf(escaped, sizeof escaped, "\\%c", *at);
        } else if (*at == '\n') {
            (void)snprintf(escaped, sizeof escaped, "\\n");
        } else if (is_control(*at)) {
            (void)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned int)(unsigned char)*at);
        }
        put(line, escaped, strlen(escaped));
    }
    put(line, "\"", 1);
}

void log_write(const struct log *log, enum log_level level, const char *message, ...)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (log == NULL || level > log->level)
        return;
    struct line line = {.used = 0};
    char time_text[TIMESTAMP_SIZE];
    clock_format(clock_real_ms(), time_text);
    put(&line, "time=", 5);
    put(&line, time_text, strlen(time_text));
    put(&line, " level=", 7);
    put(&line, names[level], strlen(names[level]));
    put(&line, " msg=", 5);
    put_value(&line, message);
    va_list args;
    va_start(args, message);
    const char *key;
    while ((key = va_arg(args, const char *)) != NULL) {
        const char *value = va_arg(args, const char *);
        if (value == NULL)
            break;
        put(&line, " ", 1);
        put(&line, key, strlen(key));
        put(&line, "=", 1);
        put_value(&line, value);
    }
    va_end(args);
    line.text[line.used++] = '\n';
    ssize_t ignored = write(log->fd, line.text, line.used);
    (void)ignored;
}
