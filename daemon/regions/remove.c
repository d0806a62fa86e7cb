/* Which file is ours, and its removal. Nothing here opens a file or follows a link.
 *
 * Linux cannot unlink "this inode": between the look and the unlink somebody who may replace names in the
 * directory (its owner, or the file's own owner in a sticky one) could put another file there. Such a one
 * could as well unlink that file himself, so he gains nothing by it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/regions/internal.h"

/* Inode numbers are used again; the birth time tells the old file from the new one, and where the file system
 * has no birth times only a file of this boot can be told. */
static bool is_same_file(const struct regions *regions, const struct region_identity *identity,
                         const struct statx *status)
{
    if (!S_ISREG(status->stx_mode) || identity->inode == 0 || status->stx_ino != identity->inode ||
        file_device(status) != identity->device)
        return false;
    int64_t birth_ns = file_birth_ns(status);
    if (birth_ns != 0 && identity->birth_ns != 0)
        return birth_ns == identity->birth_ns;
    return strcmp(identity->boot_id, regions->boot_id) == 0;
}

static int remove_name(const struct regions *regions, const char *name, struct error *err)
{
    if (unlinkat(regions->directory_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    return file_error(err, errno, "cannot remove %s/%s", regions->directory, name);
}

int region_unstage(struct regions *regions, const struct region_row *row, struct error *err)
{
    char staging[STAGING_NAME_SIZE];
    staging_name(row, staging);
    return remove_name(regions, staging, err);
}

int region_examine(struct regions *regions, const struct region_row *row, enum region_condition *ret,
                   struct error *err)
{
    struct statx status;
    int failed = file_status(regions->directory_fd, row->name, &status);
    if (failed == -ENOENT) {
        *ret = REGION_IS_MISSING;
        return 0;
    }
    if (failed < 0)
        return file_error(err, -failed, "cannot examine %s/%s", regions->directory, row->name);
    if (!is_same_file(regions, &row->identity, &status))
        *ret = REGION_IS_FOREIGN;
    else if (status.stx_size != row->settings.size_bytes)
        *ret = REGION_IS_WRONG_SIZE;
    else
        *ret = REGION_IS_OURS;
    return 0;
}

int region_remove(struct regions *regions, const struct region_row *row, bool *left_foreign,
                  struct error *err)
{
    enum region_condition condition;
    if (region_examine(regions, row, &condition, err) < 0)
        return -1;
    switch (condition) {
    case REGION_IS_OURS:
    case REGION_IS_WRONG_SIZE:
        if (remove_name(regions, row->name, err) < 0)
            return -1;
        break;
    case REGION_IS_MISSING:
    case REGION_IS_FOREIGN:
        break;
    }
    /* A staging name that could not be removed when the region was made. */
    if (region_unstage(regions, row, err) < 0)
        return -1;
    *left_foreign = condition == REGION_IS_FOREIGN;
    return 0;
}

int region_remove_unfinished(struct regions *regions, const struct region_row *row, struct error *err)
{
    char staging[STAGING_NAME_SIZE];
    staging_name(row, staging);
    struct statx staged;
    struct statx named;
    int failed = file_status(regions->directory_fd, staging, &staged);
    if (failed == -ENOENT)
        return 0; /* never made, or removed already: what has the final name is not ours */
    if (failed < 0)
        return file_error(err, -failed, "cannot examine %s/%s", regions->directory, staging);
    failed = file_status(regions->directory_fd, row->name, &named);
    if (failed < 0 && failed != -ENOENT)
        return file_error(err, -failed, "cannot examine %s/%s", regions->directory, row->name);
    /* The final name first: as long as the staging name stands, a crash can be continued here. */
    if (failed == 0 && named.stx_ino == staged.stx_ino && file_device(&named) == file_device(&staged) &&
        remove_name(regions, row->name, err) < 0)
        return -1;
    return remove_name(regions, staging, err);
}
