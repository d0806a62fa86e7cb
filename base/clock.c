#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

static int64_t read_clock_ns(clockid_t id)
{
    struct timespec now = {0};
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_real_ms(void)
{
    return read_clock_ns(CLOCK_REALTIME) / 1000000;
}

int64_t clock_boot_ms(void)
{
    return read_clock_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_monotonic_ns(void)
{
    return read_clock_ns(CLOCK_MONOTONIC);
}

void clock_format(int64_t real_ms, char out[TIMESTAMP_SIZE])
{
    static const int64_t last_ms = 253402300799999; /* 9999-12-31T23:59:59.999Z */
    int64_t shown_ms = real_ms < 0 ? 0 : real_ms > last_ms ? last_ms : real_ms;
    time_t seconds = (time_t)(shown_ms / 1000);
    struct tm parts = {0};
    (void)gmtime_r(&seconds, &parts);
    char date[24];
    (void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(out, TIMESTAMP_SIZE, "%s.%03dZ", date, (int)(shown_ms % 1000));
}

int clock_boot_id(char out[BOOT_ID_SIZE], struct error *err)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot open %s", path);
    char text[BOOT_ID_SIZE];
    ssize_t got = read(fd, text, sizeof text - 1);
    if (got != (ssize_t)sizeof text - 1)
        return error_set(err, REASON_INTERNAL, "%s: expected %zu characters, read %zd", path, sizeof text - 1,
                         got);
    text[sizeof text - 1] = '\0';
    memcpy(out, text, sizeof text);
    return 0;
}
