/* The rules for settings that no single value shows. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/settings.h"

static const char *const level_words[] = {[LOG_LEVEL_ERROR] = "error",
                                          [LOG_LEVEL_WARNING] = "warning",
                                          [LOG_LEVEL_INFO] = "info",
                                          [LOG_LEVEL_DEBUG] = "debug"};
enum { LEVEL_COUNT = sizeof level_words / sizeof level_words[0] };

/* The level of that word, or -1. */
static int level_by_word(const char *word)
{
    for (int i = 0; i < LEVEL_COUNT; i++)
        if (strcmp(level_words[i], word) == 0)
            return i;
    return -1;
}

enum log_level settings_log_level(const struct settings *settings)
{
    int level = level_by_word(settings_text(settings, SETTING_LOG_LEVEL));
    return level >= 0 ? (enum log_level)level : LOG_LEVEL_INFO;
}

static int check_power_of_two(const char *key, uint64_t value, struct error *err)
{
    if ((value & (value - 1)) == 0)
        return 0;
    return error_set(err, REASON_INVALID_FIELD, "%s: %llu is not a power of two", key,
                     (unsigned long long)value);
}

/* ---- addresses ---- */

/* 1 to 65535, or 0 when it is no port. */
static unsigned int parse_port(const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length > 5 || strspn(text, "0123456789") != length)
        return 0;
    unsigned long port = strtoul(text, NULL, 10);
    return port <= 65535 ? (unsigned int)port : 0;
}

/* Splits "1.2.3.4:80" or "[::1]:80"; a port alone gives an empty host. */
static int split_address(const char *text, char host[TCP_ADDRESS_SIZE], unsigned int *port)
{
    const char *colon = strrchr(text, ':');
    host[0] = '\0';
    *port = parse_port(colon != NULL ? colon + 1 : text);
    if (*port == 0)
        return -1;
    if (colon == NULL)
        return 0;
    const char *begin = text;
    const char *end = colon;
    if (*begin == '[') {
        begin++;
        end--;
        if (end < begin || *end != ']')
            return -1;
    }
    size_t length = (size_t)(end - begin);
    if (length == 0 || length >= TCP_ADDRESS_SIZE)
        return -1;
    memcpy(host, begin, length);
    host[length] = '\0';
    return 0;
}

int settings_tcp_address(const struct settings *settings, char out[TCP_ADDRESS_SIZE], struct error *err)
{
    const char *text = settings_text(settings, SETTING_LISTEN_TCP);
    out[0] = '\0';
    if (text == NULL)
        return 0;
    char host[TCP_ADDRESS_SIZE];
    unsigned int port = 0;
    if (split_address(text, host, &port) != 0)
        return error_set(err, REASON_INVALID_FIELD,
                         "listen-tcp: \"%.64s\" is neither PORT nor ADDRESS:PORT (ports are 1 to 65535)",
                         text);
    if (host[0] == '\0')
        (void)snprintf(host, sizeof host, "127.0.0.1");
    struct in_addr four;
    struct in6_addr six;
    bool loopback = false;
    if (inet_pton(AF_INET, host, &four) == 1) {
        loopback = ntohl(four.s_addr) >> 24 == 127;
        (void)snprintf(out, TCP_ADDRESS_SIZE, "%.45s:%u", host, port);
    } else if (inet_pton(AF_INET6, host, &six) == 1 && text[0] == '[') {
        loopback = IN6_IS_ADDR_LOOPBACK(&six);
        (void)snprintf(out, TCP_ADDRESS_SIZE, "[%.45s]:%u", host, port);
    } else {
        return error_set(err, REASON_INVALID_FIELD,
                         "listen-tcp: \"%s\" is not a numeric address such as 127.0.0.1 or [::1]", host);
    }
    if (!loopback && strcmp(settings_text(settings, SETTING_ALLOW_REMOTE), "yes") != 0)
        return error_set(
            err, REASON_INVALID_FIELD,
            "listen-tcp: %s can be reached from other hosts, and there is no authentication; use a "
            "loopback address, or set allow-remote = yes if the network is trusted",
            out);
    return 0;
}

/* ---- all of them ---- */

int settings_check(const struct settings *settings, struct error *err)
{
    uint64_t default_size = settings_number(settings, SETTING_DEFAULT_REGION_SIZE);
    uint64_t max_size = settings_number(settings, SETTING_MAX_REGION_SIZE);
    const char *remote = settings_text(settings, SETTING_ALLOW_REMOTE);
    if (check_power_of_two("default-region-size", default_size, err) != 0 ||
        check_power_of_two("max-region-size", max_size, err) != 0)
        return -1;
    if (default_size > max_size)
        return error_set(err, REASON_INVALID_FIELD,
                         "default-region-size: %llu is above max-region-size, %llu",
                         (unsigned long long)default_size, (unsigned long long)max_size);
    if (level_by_word(settings_text(settings, SETTING_LOG_LEVEL)) < 0)
        return error_set(err, REASON_INVALID_FIELD,
                         "log-level: \"%.64s\" is not one of error, warning, info, debug",
                         settings_text(settings, SETTING_LOG_LEVEL));
    if (strcmp(remote, "yes") != 0 && strcmp(remote, "no") != 0)
        return error_set(err, REASON_INVALID_FIELD, "allow-remote: \"%.64s\" is neither yes nor no", remote);
    char address[TCP_ADDRESS_SIZE];
    return settings_tcp_address(settings, address, err);
}
