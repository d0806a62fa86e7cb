#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

int descriptors_standard(struct error *err)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        if (open("/dev/null", O_RDWR) != fd) /* the lowest number that is free */
            return error_set_errno(err, REASON_INTERNAL, errno, "cannot open /dev/null");
    }
    return 0;
}

int descriptors_limit(uint64_t *ret, struct error *err)
{
    enum { LIMIT_MIN = 256 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot read the limit of open files");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot raise the limit of open files");
    if (limit.rlim_cur < LIMIT_MIN)
        return error_set(err, REASON_RESOURCE_LIMIT,
                         "the limit of open files is %llu, at least %d are needed (ulimit -n)",
                         (unsigned long long)limit.rlim_cur, LIMIT_MIN);
    *ret = limit.rlim_cur;
    return 0;
}
