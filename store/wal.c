/* The WAL's file is given its full length before it is used: a commit that makes a file longer also has to
 * commit the file system's own journal, which doubles the time of its fsync. SQLite takes no notice of what
 * lies behind its frames, and finds in zeros no frame to recover. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "store/internal.h"

enum {
    WAL_FRAME_BYTES = PAGE_BYTES + 24,
    WAL_HEADER_BYTES = 32,
    SPACE_SHARE = 8, /* on a small disk the room is worth more than the speed: take at most this part of it */
    ZEROS_BYTES = 1 << 16
};

static bool has_room(int fd, off_t bytes)
{
    struct statvfs space;
    return fstatvfs(fd, &space) == 0 &&
           (uint64_t)space.f_bavail * space.f_frsize / SPACE_SHARE >= (uint64_t)bytes;
}

static bool write_zeros(int fd, off_t from, off_t to)
{
    auto_free char *zeros = calloc(1, ZEROS_BYTES);
    if (zeros == NULL)
        return false;
    while (from < to) {
        size_t part = to - from < ZEROS_BYTES ? (size_t)(to - from) : ZEROS_BYTES;
        ssize_t wrote = pwrite(fd, zeros, part, from);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        from += wrote;
    }
    return fdatasync(fd) == 0;
}

void wal_reserve(const char *database_path)
{
    auto_free char *path = NULL;
    if (asprintf(&path, "%s-wal", database_path) < 0) {
        path = NULL;
        return;
    }
    auto_close int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    const off_t wanted = WAL_HEADER_BYTES + (off_t)CHECKPOINT_PAGES * WAL_FRAME_BYTES;
    if (fd < 0 || fstat(fd, &status) < 0 || status.st_size >= wanted || !has_room(fd, wanted))
        return;
    if (!write_zeros(fd, status.st_size, wanted))
        (void)!ftruncate(fd, status.st_size); /* no harm done: it grows by itself */
}
