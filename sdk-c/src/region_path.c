#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "region.h"

static const char *open_hint(int error_number)
{
    switch (error_number) {
    case ENOENT:
        return "; is the sandbox running, and was its template made with enableIvshmem?";
    case ELOOP:
        return "; symbolic links are not followed, give the file itself";
    case EACCES:
    case EPERM:
        return "; regions are readable by their owner only, run as that user or as root";
    default:
        return "";
    }
}

int chan_region_open_path(const char *path, unsigned flags, struct chan_region **region,
                          struct chan_error *error)
{
    if (path == NULL || (flags & ~(unsigned)(CHAN_REGION_READ_ONLY | CHAN_REGION_RAW)) != 0)
        return chan_error_set(error, -EINVAL, "a path and known flags are needed");

    int access_mode = (flags & CHAN_REGION_READ_ONLY) != 0 ? O_RDONLY : O_RDWR;
    /* O_NONBLOCK: somebody may have put a FIFO there, and opening must not hang. */
    int fd = open(path, access_mode | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        int number = errno;
        return chan_error_set(error, -number, "cannot open %s: %s%s", path, strerror(number),
                              open_hint(number));
    }

    struct stat status;
    int r = 0;
    if (fstat(fd, &status) < 0)
        r = chan_error_set(error, -errno, "cannot examine %s: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        r = chan_error_set(error, -EINVAL, "%s is not a regular file, so it is no region", path);
    else if (status.st_size == 0 || status.st_size % CHAN_PAGE_BYTES != 0)
        r = chan_error_set(error, -EINVAL, "%s has %lld bytes; a region has a multiple of %u", path,
                           (long long)status.st_size, CHAN_PAGE_BYTES);
    if (r < 0) {
        (void)close(fd);
        return r;
    }

    const struct chan_region_source source = {
        .fd = fd,
        .path = path,
        .size = (uint64_t)status.st_size,
        .mapping = CHAN_MAPPING_CACHED,
        .natural_side = CHAN_SIDE_HOST,
        .flags = flags,
    };
    return chan_region_create(&source, region, error);
}
