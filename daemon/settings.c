#include "daemon/settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum kind { KIND_TEXT, KIND_NUMBER };

struct description {
    enum kind kind;
    const char *key;
    const char *help;
    const char *text_default;
    uint64_t number_default, minimum, maximum;
    const char *unit;
};

static const struct description table[SETTING_COUNT] = {
#define TEXT(name, word, default_value, help_text)                                                           \
    [SETTING_##name] = {.kind = KIND_TEXT, .key = word, .help = help_text, .text_default = default_value},
#define NUMBER(name, word, default_value, low, high, unit_word, help_text)                                   \
    [SETTING_##name] = {.kind = KIND_NUMBER,                                                                 \
                        .key = word,                                                                         \
                        .help = help_text,                                                                   \
                        .number_default = default_value,                                                     \
                        .minimum = low,                                                                      \
                        .maximum = high,                                                                     \
                        .unit = unit_word},
#include "daemon/settings.def"
#undef TEXT
#undef NUMBER
};

enum { LINE_MAX_BYTES = 8192, VALUE_MAX_BYTES = 4095 };

static int set_text(struct settings *settings, enum setting setting, const char *value, struct error *err)
{
    char *copy = strdup(value);
    if (copy == NULL)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot hold the settings");
    free(settings->values[setting].text);
    settings->values[setting].text = copy;
    return 0;
}

int settings_init(struct settings *settings, struct error *err)
{
    *settings = (struct settings){.values = {{.text = NULL}}};
    for (int i = 0; i < SETTING_COUNT; i++) {
        settings->values[i].number = table[i].number_default;
        if (table[i].text_default != NULL &&
            set_text(settings, (enum setting)i, table[i].text_default, err) != 0)
            return -1;
    }
    return 0;
}

void settings_clear(struct settings *settings)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        free(settings->values[i].text);
        settings->values[i].text = NULL;
    }
}

const char *settings_text(const struct settings *settings, enum setting setting)
{
    return settings->values[setting].text;
}

uint64_t settings_number(const struct settings *settings, enum setting setting)
{
    return settings->values[setting].number;
}

/* ---- keys ---- */

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* How many characters must be put in, taken out or changed to make b of a (Levenshtein). */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LENGTH_MAX = 63 };
    size_t row[LENGTH_MAX + 1];
    size_t length = strlen(b);
    if (length > LENGTH_MAX || strlen(a) > LENGTH_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t above = row[j];
            row[j] = smallest(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1));
            diagonal = above;
        }
    }
    return row[length];
}

int settings_find(const char *key, enum setting *ret, struct error *err)
{
    const char *nearest = table[0].key;
    size_t least = SIZE_MAX;
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (strcmp(table[i].key, key) == 0) {
            *ret = (enum setting)i;
            return 0;
        }
        size_t distance = edit_distance(key, table[i].key);
        if (distance < least) {
            least = distance;
            nearest = table[i].key;
        }
    }
    return error_set(err, REASON_INVALID_FIELD, "there is no setting \"%.64s\"; the nearest is \"%s\"", key,
                     nearest);
}

/* ---- values ---- */

/* The factor of a suffix, 0 when it is none. */
static uint64_t suffix_factor(const char *suffix)
{
    static const char letters[] = "KMGT";
    if (suffix[0] == '\0')
        return 1;
    const char *at = strchr(letters, toupper((unsigned char)suffix[0]));
    if (at == NULL || suffix[1] != '\0')
        return 0;
    return UINT64_C(1024) << (10 * (at - letters));
}

static int set_number(struct settings *settings, enum setting setting, const char *value, struct error *err)
{
    const struct description *about = &table[setting];
    bool takes_suffix = strcmp(about->unit, "bytes") == 0;
    char *end = NULL;
    errno = 0;
    /* strtoull takes signs and leading blanks; a digit first rules them out. */
    unsigned long long number = isdigit((unsigned char)value[0]) ? strtoull(value, &end, 10) : 0;
    uint64_t factor = end == NULL ? 0 : suffix_factor(end);
    if (factor == 0 || (factor > 1 && !takes_suffix))
        return error_set(err, REASON_INVALID_FIELD, "%s: \"%.64s\" is not a number of %s%s", about->key,
                         value, about->unit, takes_suffix ? " (K, M, G and T may follow it)" : "");
    bool too_large = errno == ERANGE || number > UINT64_MAX / factor;
    number *= factor;
    if (too_large || number < about->minimum || number > about->maximum)
        return error_set(err, REASON_INVALID_FIELD, "%s: %.64s is out of range: %llu to %llu %s", about->key,
                         value, (unsigned long long)about->minimum, (unsigned long long)about->maximum,
                         about->unit);
    settings->values[setting].number = number;
    return 0;
}

int settings_set(struct settings *settings, enum setting setting, const char *value, struct error *err)
{
    if (value[0] == '\0')
        return error_set(err, REASON_INVALID_FIELD, "%s: it has no value", table[setting].key);
    if (strlen(value) > VALUE_MAX_BYTES)
        return error_set(err, REASON_INVALID_FIELD, "%s: the value is longer than %d bytes",
                         table[setting].key, VALUE_MAX_BYTES);
    return table[setting].kind == KIND_TEXT ? set_text(settings, setting, value, err)
                                            : set_number(settings, setting, value, err);
}

/* ---- the file ---- */

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

/* One line; line_of remembers where each key stood. */
static int load_line(struct settings *settings, char *line, size_t number, size_t line_of[SETTING_COUNT],
                     struct error *err)
{
    char *text = trim(line);
    if (text[0] == '\0' || text[0] == '#')
        return 0;
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return error_set(err, REASON_INVALID_FIELD, "expected \"key = value\"");
    *equals = '\0';
    const char *key = trim(text);
    enum setting setting = SETTING_COUNT;
    if (settings_find(key, &setting, err) != 0)
        return -1;
    if (line_of[setting] != 0)
        return error_set(err, REASON_INVALID_FIELD, "%s stands in line %zu already", key, line_of[setting]);
    line_of[setting] = number;
    return settings_set(settings, setting, trim(equals + 1), err);
}

int settings_load(struct settings *settings, const char *path, struct error *err)
{
    auto_fclose FILE *file = fopen(path, "re");
    if (file == NULL)
        return error_set_errno(err, REASON_INVALID_FIELD, errno, "cannot open the configuration file %s",
                               path);
    char line[LINE_MAX_BYTES];
    size_t line_of[SETTING_COUNT] = {0};
    for (size_t number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        if (strchr(line, '\n') == NULL && strlen(line) == sizeof line - 1)
            return error_set(err, REASON_INVALID_FIELD, "%s:%zu: the line is longer than %d bytes", path,
                             number, LINE_MAX_BYTES - 2);
        if (load_line(settings, line, number, line_of, err) != 0)
            return error_wrap(err, "%s:%zu: ", path, number);
    }
    if (ferror(file))
        return error_set_errno(err, REASON_INVALID_FIELD, errno, "cannot read the configuration file %s",
                               path);
    return 0;
}

/* ---- for people ---- */

void settings_print(const struct settings *settings, FILE *out)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        const struct setting_value *value = &settings->values[i];
        if (table[i].kind == KIND_NUMBER)
            (void)fprintf(out, "%s = %llu\n", table[i].key, (unsigned long long)value->number);
        else if (value->text != NULL)
            (void)fprintf(out, "%s = %s\n", table[i].key, value->text);
        else
            (void)fprintf(out, "# %s is not set\n", table[i].key);
    }
}

void settings_help(FILE *out)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        const struct description *about = &table[i];
        if (about->kind == KIND_NUMBER)
            (void)fprintf(out, "  --%s N\n        %s (%s, %llu to %llu, default %llu)\n", about->key,
                          about->help, about->unit, (unsigned long long)about->minimum,
                          (unsigned long long)about->maximum, (unsigned long long)about->number_default);
        else if (about->text_default != NULL)
            (void)fprintf(out, "  --%s TEXT\n        %s (default %s)\n", about->key, about->help,
                          about->text_default);
        else
            (void)fprintf(out, "  --%s TEXT\n        %s (not set by default)\n", about->key, about->help);
    }
}
