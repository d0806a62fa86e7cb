#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/bench/control/bench.h"

void bare_files(const char *directory, size_t bytes, size_t count, struct samples *make,
                struct samples *remove)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/bare-file", directory);
    for (size_t i = 0; i < count; i++) {
        int64_t begin = clock_monotonic_ns();
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0 || fallocate(fd, 0, 0, (off_t)bytes) < 0) {
            die("%s: %s", path, strerror(errno));
        }
        (void)close(fd);
        int64_t made = clock_monotonic_ns();
        (void)unlink(path);
        samples_add(make, made - begin);
        samples_add(remove, clock_monotonic_ns() - made);
    }
}
