#include "api/rest/headers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/clock.h"
#include "daemon/operations/operations.h"

static const char white_space[] = " \t";

bool header_is_json(const char *content_type)
{
    static const char type[] = "application/json";
    static const char *const charsets[] = {"charset=utf-8", "charset=\"utf-8\""};
    if (content_type == NULL || strncasecmp(content_type, type, sizeof type - 1) != 0)
        return false;
    const char *at = content_type + sizeof type - 1;
    at += strspn(at, white_space);
    if (*at == '\0')
        return true;
    if (*at != ';')
        return false;
    at++;
    at += strspn(at, white_space);
    for (size_t i = 0; i < sizeof charsets / sizeof charsets[0]; i++) {
        size_t length = strlen(charsets[i]);
        if (strncasecmp(at, charsets[i], length) == 0)
            return at[length + strspn(at + length, white_space)] == '\0';
    }
    return false;
}

int header_if_match(const char *value, int64_t *ret, struct error *err)
{
    if (strcmp(value, "*") == 0) {
        *ret = IF_MATCH_ANY;
        return 0;
    }
    size_t digits = value[0] == '"' ? strspn(value + 1, "0123456789") : 0;
    errno = 0;
    long long revision = digits > 0 ? strtoll(value + 1, NULL, 10) : 0;
    if (revision < 1 || errno != 0 || strcmp(value + 1 + digits, "\"") != 0)
        return error_set(err, REASON_INVALID_REQUEST,
                         "If-Match must be * or one revision in double quotes, as ETag has it");
    *ret = revision;
    return 0;
}

static bool is_request_id(const char *value)
{
    size_t length = strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return length > 0 && length < REQUEST_ID_SIZE && value[length] == '\0';
}

void header_request_id(const char *value, char ret[REQUEST_ID_SIZE])
{
    if (value != NULL && is_request_id(value)) {
        memcpy(ret, value, strlen(value) + 1);
        return;
    }
    uint64_t random[2];
    /* Only before the kernel's generator is ready does this fail; the clock tells requests apart then. */
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        random[0] = (uint64_t)clock_real_ms();
        random[1] = (uint64_t)clock_monotonic_ns();
    }
    (void)snprintf(ret, REQUEST_ID_SIZE, "%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
}
