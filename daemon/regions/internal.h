/* What the sources of daemon/regions share. */
#ifndef CHAN_DAEMON_REGIONS_INTERNAL_H
#define CHAN_DAEMON_REGIONS_INTERNAL_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "daemon/regions/regions.h"

/* Immutable once open, so that any thread may use it. */
struct regions {
    char *directory;
    int directory_fd;
    char *prefix, *suffix; /* of a name, around the sandbox id */
    char boot_id[BOOT_ID_SIZE];
    bool outlive_host;
};

#define STAGING_PREFIX ".chan-"
enum { STAGING_NAME_SIZE = sizeof STAGING_PREFIX + STAGING_TOKEN_SIZE };

void staging_name(const struct region_row *row, char out[STAGING_NAME_SIZE]);

/* Sets the error of a system call that failed on a file or on the directory: no room, a limit, or internal.
 */
int file_error(struct error *err, int sys_errno, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What identity and size are read from: a file of the directory that is not followed, or (name "") an open
 * one. Returns 0 or a negative errno. */
int file_status(int fd, const char *name, struct statx *ret);

uint64_t file_device(const struct statx *status);
int64_t file_birth_ns(const struct statx *status); /* 0 where the file system has none */

#endif
