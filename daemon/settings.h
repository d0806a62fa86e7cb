/* chand's settings: one table (settings.def), read from a configuration file and from options. */
#ifndef CHAN_DAEMON_SETTINGS_H
#define CHAN_DAEMON_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"

enum setting {
#define TEXT(name, ...)   SETTING_##name,
#define NUMBER(name, ...) SETTING_##name,
#include "daemon/settings.def"
#undef TEXT
#undef NUMBER
    SETTING_COUNT
};

/* What a setting holds; only the member of its kind in the table is used. */
struct setting_value {
    char *text; /* owned; NULL when not set */
    uint64_t number;
};

struct settings {
    struct setting_value values[SETTING_COUNT];
};

/* All defaults. Release with settings_clear, also after a failure. */
int settings_init(struct settings *settings, struct error *err);
void settings_clear(struct settings *settings);

const char *settings_text(const struct settings *settings, enum setting setting);
uint64_t settings_number(const struct settings *settings, enum setting setting);

/* The setting of that key; an unknown one is refused with the nearest known key. */
int settings_find(const char *key, enum setting *ret, struct error *err);

/* Sets one from text. Numbers of bytes may end in K, M, G or T (powers of 1024); a number out of range is
 * refused with the range. */
int settings_set(struct settings *settings, enum setting setting, const char *value, struct error *err);

/* Reads a configuration file: lines "key = value", empty lines, and lines that start with #. Errors name file
 * and line. A key that stands twice is an error. */
int settings_load(struct settings *settings, const char *path, struct error *err);

/* Checks what no single value shows (sizes against each other, words, addresses); call it after all were set.
 */
int settings_check(const struct settings *settings, struct error *err);

/* What is derived from checked settings. */
enum log_level settings_log_level(const struct settings *settings);
/* The address of listen-tcp in full ("127.0.0.1:7880", "[::1]:7880"), "" when it is not set. */
enum { TCP_ADDRESS_SIZE = 64 };
int settings_tcp_address(const struct settings *settings, char out[TCP_ADDRESS_SIZE], struct error *err);

/* The effective settings as a configuration file. */
void settings_print(const struct settings *settings, FILE *out);
/* The options for --help. */
void settings_help(FILE *out);

#endif
