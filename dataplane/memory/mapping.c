/* One mapping of a front-end's file. */
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "dataplane/memory/internal.h"

#define XFS_MAGIC 0x58465342 /* not in linux/magic.h */

enum { HUGE_PAGE = 2 * 1024 * 1024 }; /* what transparent huge pages want to be aligned to */

/* File systems whose pages come from memory or a local disk, and which only root can mount (but for tmpfs and
 * ramfs). Elsewhere, on FUSE above all, it is a process of the front-end's choice that provides a page, or
 * does not. */
static bool is_local(const struct statfs *fs)
{
    switch ((unsigned long)fs->f_type) {
    case TMPFS_MAGIC: /* memfd, too */
    case HUGETLBFS_MAGIC:
    case RAMFS_MAGIC:
    case EXT4_SUPER_MAGIC:
    case XFS_MAGIC:
    case BTRFS_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

/* Checks that the range can be mapped from fd. *page gets the size of the file's pages. */
static int check_file(int fd, uint64_t offset, uint64_t size, uint64_t *page, struct error *err)
{
    struct stat file;
    struct statfs fs;
    if (fstat(fd, &file) != 0 || fstatfs(fd, &fs) != 0)
        return error_set_errno(err, REASON_INVALID_REQUEST, errno, "examining its file");
    if (!S_ISREG(file.st_mode))
        return error_set(err, REASON_INVALID_REQUEST, "its descriptor is no regular file");
    if (!is_local(&fs))
        return error_set(err, REASON_INVALID_REQUEST,
                         "its file is on a file system (type 0x%lx) that memory is not shared from",
                         (unsigned long)fs.f_type);
    if (size == 0)
        return error_set(err, REASON_INVALID_REQUEST, "its size is 0");
    if (offset > UINT64_MAX - size || offset + size > (uint64_t)file.st_size)
        return error_set(err, REASON_INVALID_REQUEST,
                         "its file has %lld bytes, too few for 0x%llx at offset 0x%llx",
                         (long long)file.st_size, (unsigned long long)size, (unsigned long long)offset);
    *page =
        (unsigned long)fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

static void *map_at(void *address, size_t length, int flags, int fd, uint64_t offset)
{
    return mmap(address, length, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, (off_t)offset);
}

/* Maps where the address is as far into a huge page as the offset, so that the kernel can use one entry for a
 * whole huge page. */
static void *map_congruent(size_t length, int fd, uint64_t offset)
{
    uint8_t *reserved =
        mmap(NULL, length + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
        return MAP_FAILED;
    const size_t before = (size_t)(offset - (uintptr_t)reserved) % HUGE_PAGE;
    uint8_t *start = reserved + before;
    void *mapped = map_at(start, length, MAP_FIXED, fd, offset);
    if (mapped == MAP_FAILED) {
        const int code = errno;
        (void)munmap(reserved, length + HUGE_PAGE);
        errno = code;
        return MAP_FAILED;
    }
    if (before > 0)
        (void)munmap(reserved, before);
    (void)munmap(start + length, HUGE_PAGE - before);
    (void)madvise(start, length, MADV_HUGEPAGE);
    return mapped;
}

int mapping_new(int fd, uint64_t offset, uint64_t size, struct memory_mapping **ret, struct error *err)
{
    uint64_t page = 0;
    if (check_file(fd, offset, size, &page, err) != 0)
        return -1;
    auto_free struct memory_mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "out of memory");
    /* The range lies within a file, so nothing of this overflows. */
    const uint64_t before = offset % page;
    const size_t length = (size_t)((before + size + page - 1) / page * page);
    const bool congruent = page < HUGE_PAGE && length >= HUGE_PAGE;
    void *start =
        congruent ? map_congruent(length, fd, offset - before) : map_at(NULL, length, 0, fd, offset - before);
    if (start == MAP_FAILED)
        return error_set_errno(err, errno == ENOMEM ? REASON_RESOURCE_LIMIT : REASON_INVALID_REQUEST, errno,
                               "mapping its file");
    /* A guest's memory is neither for our core dumps nor for a child. */
    (void)madvise(start, length, MADV_DONTDUMP);
    (void)madvise(start, length, MADV_DONTFORK);
    if (guard_register(start, length, &mapping->guard_entry, err) != 0) {
        (void)munmap(start, length);
        return -1;
    }
    struct stat status;
    if (fstat(fd, &status) == 0) { /* as it did in check_file */
        mapping->device = status.st_dev;
        mapping->inode = status.st_ino;
    }
    mapping->offset = offset;
    mapping->start = start;
    mapping->length = length;
    mapping->bytes = mapping->start + before;
    atomic_init(&mapping->references, 1);
    *ret = take_pointer(mapping);
    return 0;
}

bool mapping_is_of(const struct memory_mapping *mapping, int fd, uint64_t offset)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_dev == mapping->device && status.st_ino == mapping->inode &&
           offset == mapping->offset;
}

struct memory_mapping *mapping_share(struct memory_mapping *mapping)
{
    (void)atomic_fetch_add_explicit(&mapping->references, 1, memory_order_relaxed);
    return mapping;
}

void mapping_release(struct memory_mapping *mapping)
{
    if (mapping == NULL || atomic_fetch_sub_explicit(&mapping->references, 1, memory_order_acq_rel) != 1)
        return;
    guard_unregister(mapping->guard_entry);
    (void)munmap(mapping->start, mapping->length);
    free(mapping);
}
