/* How a region's file comes into being; the steps are told in regions.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "chan/layout.h"
#include "daemon/regions/internal.h"

static int check_fault(const char *point, struct error *err)
{
    int fault = fault_point(point);
    return fault == 0 ? 0 : file_error(err, fault, "the step up to %s failed", point);
}

static int set_owner(int fd, const struct region_row *row, struct error *err)
{
    /* The mode first: once the file is another user's, only CAP_FOWNER could set it. */
    if (fchmod(fd, S_IRUSR | S_IWUSR) < 0)
        return file_error(err, errno, "cannot set the mode of the region's file");
    struct stat status;
    if (fstat(fd, &status) < 0)
        return file_error(err, errno, "cannot examine the region's file");
    if (status.st_uid == row->uid && status.st_gid == row->gid)
        return 0;
    if (fchown(fd, row->uid, row->gid) == 0)
        return 0;
    if (errno == EPERM || errno == EINVAL) /* EINVAL: an id that this user namespace does not have */
        return error_set_errno(err, REASON_UID_NOT_PERMITTED, errno,
                               "cannot give the region's file to uid %ju gid %ju", (uintmax_t)row->uid,
                               (uintmax_t)row->gid);
    return file_error(err, errno, "cannot give the region's file to uid %ju gid %ju", (uintmax_t)row->uid,
                      (uintmax_t)row->gid);
}

/* Sets the size and takes the storage in one step; on tmpfs and disks alike the bytes read as zero. */
static int reserve(const struct regions *regions, int fd, const struct region_row *row, struct error *err)
{
    uint64_t size = row->settings.size_bytes;
    int failed;
    do
        failed = fallocate(fd, 0, 0, (off_t)size) < 0 ? errno : 0;
    while (failed == EINTR);
    switch (failed) {
    case 0:
        return 0;
    case EOPNOTSUPP:
    case ENOSYS:
        return error_set_errno(
            err, REASON_INTERNAL, failed,
            "the file system of %s cannot reserve storage (fallocate); regions need one that can, "
            "such as tmpfs, hugetlbfs, ext4 or xfs",
            regions->directory);
    case EFBIG:
        return error_set_errno(
            err, REASON_RESOURCE_LIMIT, failed,
            "%ju bytes are more than a file in %s may have (its file system, or RLIMIT_FSIZE)",
            (uintmax_t)size, regions->directory);
    default:
        return file_error(err, failed, "cannot reserve %ju bytes in %s", (uintmax_t)size, regions->directory);
    }
}

/* By pwrite and not by a mapping: the owner could already truncate the file, and a mapping would die of it.
 */
static int write_superblock(int fd, const struct region_row *row, struct error *err)
{
    uint64_t nonce = 0;
    while (nonce == 0)
        if (getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
            return error_set_errno(err, REASON_INTERNAL, errno, "no random numbers");
    struct chan_superblock superblock;
    if (chan_superblock_make(&superblock, row->settings.size_bytes, nonce, row->epoch) < 0)
        return error_set(err, REASON_INTERNAL,
                         "a region of %ju bytes and epoch %ju cannot have the layout chan",
                         (uintmax_t)row->settings.size_bytes, (uintmax_t)row->epoch);
    ssize_t written = pwrite(fd, &superblock, sizeof superblock, 0);
    if (written < 0)
        return file_error(err, errno, "cannot write the superblock");
    if (written != (ssize_t)sizeof superblock)
        return error_set(err, REASON_INTERNAL, "the superblock was written only in part");
    return 0;
}

static int read_identity(const struct regions *regions, int fd, struct region_identity *ret,
                         struct error *err)
{
    struct statx status;
    int failed = file_status(fd, "", &status);
    if (failed < 0)
        return file_error(err, -failed, "cannot examine the region's file");
    ret->device = file_device(&status);
    ret->inode = status.stx_ino;
    ret->birth_ns = file_birth_ns(&status);
    memcpy(ret->boot_id, regions->boot_id, sizeof ret->boot_id);
    return 0;
}

/* Gives the finished file its name. linkat replaces nothing and follows nothing: whatever has the name stays.
 */
static int publish(const struct regions *regions, const struct region_row *row, const char *staging,
                   struct error *err)
{
    if (linkat(regions->directory_fd, staging, regions->directory_fd, row->name, 0) == 0)
        return 0;
    switch (errno) {
    case EEXIST:
        return error_set(err, REASON_FILE_EXISTS, "%s/%s exists and is not ours", regions->directory,
                         row->name);
    case EPERM:
        if (row->uid != geteuid())
            return error_set_errno(
                err, REASON_UID_NOT_PERMITTED, EPERM,
                "cannot name a file of uid %ju: with fs.protected_hardlinks the daemon needs "
                "CAP_FOWNER to make files for other users",
                (uintmax_t)row->uid);
        return error_set_errno(err, REASON_INTERNAL, EPERM, "the file system of %s has no hard links",
                               regions->directory);
    default:
        return file_error(err, errno, "cannot name the region's file %s/%s", regions->directory, row->name);
    }
}

static int make_file(const struct regions *regions, int fd, struct region_row *row, const char *staging,
                     struct error *err)
{
    if (check_fault("region.after_open", err) < 0)
        return -1;
    if (set_owner(fd, row, err) < 0 || check_fault("region.after_owner", err) < 0)
        return -1;
    if (reserve(regions, fd, row, err) < 0 || check_fault("region.after_allocate", err) < 0)
        return -1;
    if (row->settings.layout == REGION_LAYOUT_CHAN && write_superblock(fd, row, err) < 0)
        return -1;
    if (check_fault("region.after_superblock", err) < 0)
        return -1;
    struct region_identity identity;
    if (read_identity(regions, fd, &identity, err) < 0)
        return -1;
    if (publish(regions, row, staging, err) < 0 || check_fault("region.after_link", err) < 0)
        return -1;
    row->identity = identity;
    return 0;
}

/* Who is given the path must find the file there. */
static int check_directory(const struct regions *regions, struct error *err)
{
    struct stat opened;
    struct stat named;
    if (fstat(regions->directory_fd, &opened) < 0)
        return file_error(err, errno, "cannot examine %s", regions->directory);
    bool found = stat(regions->directory, &named) == 0;
    if (found && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
        return 0;
    if (!found && errno == EACCES) /* the path is for others */
        return 0;
    return error_set(err, REASON_INTERNAL,
                     "%s is not the directory any more that it was at the start: it was moved or removed, or "
                     "something is mounted over it; start chand again",
                     regions->directory);
}

int region_create(struct regions *regions, struct region_row *row, struct error *err)
{
    if (check_directory(regions, err) < 0)
        return -1;
    char staging[STAGING_NAME_SIZE];
    staging_name(row, staging);
    auto_close int fd = openat(regions->directory_fd, staging,
                               O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0)
        return file_error(err, errno, "cannot make a file in %s", regions->directory);
    if (make_file(regions, fd, row, staging, err) == 0)
        return 0;
    struct error left = ERROR_INIT;
    if (region_remove_unfinished(regions, row, &left) < 0)
        return error_wrap(err, "%s; and before that: ", left.detail);
    return -1;
}
