#include "base/proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Field numbers of proc(5). */
enum {
    FIELD_STATE = 3,
    FIELD_UTIME = 14,
    FIELD_STIME,
    FIELD_THREADS = 20,
    FIELD_START = 22,
    FIELD_VSIZE,
    FIELD_RSS
};

static int parse(const char *text, struct proc_stat *ret)
{
    /* The command may hold spaces and parentheses, so the fields are counted from the last one. */
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ' || at[2] == '\0' || at[3] != ' ')
        return -EPROTO;
    struct proc_stat stat = {.state = at[2]};
    at += 3;
    for (int field = FIELD_STATE + 1; field <= FIELD_RSS; field++) {
        char *end = NULL;
        errno = 0;
        /* Some of the fields in between are negative; strtoull takes them, and they are not used. */
        unsigned long long value = strtoull(at, &end, 10);
        if (end == at || errno != 0)
            return -EPROTO;
        at = end;
        switch (field) {
        case FIELD_UTIME:
            stat.user_ticks = value;
            break;
        case FIELD_STIME:
            stat.system_ticks = value;
            break;
        case FIELD_THREADS:
            stat.threads = value;
            break;
        case FIELD_START:
            stat.start_ticks = value;
            break;
        case FIELD_VSIZE:
            stat.virtual_bytes = value;
            break;
        case FIELD_RSS:
            stat.resident_pages = value;
            break;
        default:
            break;
        }
    }
    *ret = stat;
    return 0;
}

int proc_stat_read(pid_t pid, struct proc_stat *ret)
{
    char path[48] = "/proc/self/stat";
    if (pid != 0)
        (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char text[1024];
    ssize_t got = read(fd, text, sizeof text - 1);
    if (got < 0)
        return -errno;
    text[got] = '\0';
    return parse(text, ret);
}
