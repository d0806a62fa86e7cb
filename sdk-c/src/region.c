#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "copy.h"
#include "shared.h"

static int protection(const struct chan_region *region)
{
    return region->read_only ? PROT_READ : PROT_READ | PROT_WRITE;
}

/* Maps the ring twice in a row: address space first, then both windows over it. */
static int map_ring(const struct chan_region *region, uint64_t offset, struct chan_half *half)
{
    size_t bytes = half->ring_bytes;
    unsigned char *space = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED)
        return -errno;
    for (int window = 0; window < 2; window++) {
        if (mmap(space + (size_t)window * bytes, bytes, protection(region), MAP_SHARED | MAP_FIXED,
                 region->fd, (off_t)offset) == MAP_FAILED) {
            int r = -errno;
            (void)munmap(space, 2 * bytes);
            return r;
        }
    }
    half->ring = space;
    return 0;
}

static int map_halves(struct chan_region *region)
{
    const struct chan_superblock *superblock = &region->superblock;
    const uint64_t offsets[2] = {superblock->half_a_offset, superblock->half_b_offset};
    for (int i = 0; i < 2; i++) {
        struct chan_half *half = &region->halves[i];
        half->control = (struct chan_control *)(void *)(region->base + offsets[i]);
        half->ring_bytes = superblock->half_bytes - CHAN_CONTROL_BYTES;
        if (region->read_only)
            continue;
        int r = map_ring(region, offsets[i] + CHAN_CONTROL_BYTES, half);
        if (r < 0)
            return r;
    }
    return 0;
}

int chan_region_read_superblock(const struct chan_region *region, struct chan_superblock *out)
{
    if (region->size < sizeof *out)
        return -ENOMSG;
    struct chan_superblock copy;
    chan_copy_in(region->mapping, &copy, region->base, sizeof copy);
    int r = chan_superblock_check(&copy, region->size);
    if (r == 0)
        *out = copy;
    return r;
}

static int read_layout(struct chan_region *region, unsigned flags, struct chan_error *error)
{
    if ((flags & CHAN_REGION_RAW) != 0)
        return 0;
    int r = chan_region_read_superblock(region, &region->superblock);
    if (r == -ENOMSG)
        return 0;
    if (r < 0)
        return chan_error_set(error, r,
                              "%s begins with a superblock that cannot be used: %s; it can be opened raw",
                              region->path, chan_error_text(r));
    region->has_superblock = true;
    r = map_halves(region);
    if (r < 0)
        return chan_error_set(error, r, "cannot map the rings of %s: %s", region->path, strerror(-r));
    return 0;
}

static void destroy(struct chan_region *region)
{
    for (int i = 0; i < 2; i++)
        if (region->halves[i].ring != NULL)
            (void)munmap(region->halves[i].ring, 2 * region->halves[i].ring_bytes);
    if (region->base != NULL)
        (void)munmap(region->base, region->size);
    chan_close_fd(&region->fd);
    free(region->path);
    free(region);
}

int chan_region_create(const struct chan_region_source *source, struct chan_region **region,
                       struct chan_error *error)
{
    struct chan_region *made = calloc(1, sizeof *made);
    if (made == NULL) {
        chan_close_fd(&source->fd);
        return chan_error_set(error, -ENOMEM, "out of memory");
    }
    made->fd = source->fd;
    made->size = source->size;
    made->mapping = source->mapping;
    made->natural_side = source->natural_side;
    made->read_only = (source->flags & CHAN_REGION_READ_ONLY) != 0;
    atomic_init(&made->references, 1);
    atomic_init(&made->sides_taken, 0);

    int r = 0;
    made->path = strdup(source->path);
    if (made->path == NULL) {
        r = chan_error_set(error, -ENOMEM, "out of memory");
        goto fail;
    }
    void *base = mmap(NULL, made->size, protection(made), MAP_SHARED, made->fd, 0);
    if (base == MAP_FAILED) {
        r = chan_error_set(error, -errno, "cannot map %zu bytes of %s: %s", made->size, made->path,
                           strerror(errno));
        goto fail;
    }
    made->base = base;
    r = read_layout(made, source->flags, error);
    if (r < 0)
        goto fail;
    *region = made;
    return 0;

fail:
    destroy(made);
    return r;
}

void chan_region_reference(struct chan_region *region)
{
    (void)atomic_fetch_add(&region->references, 1);
}

void chan_region_close(struct chan_region *region)
{
    if (region != NULL && atomic_fetch_sub(&region->references, 1) == 1)
        destroy(region);
}

/* An open-file-description lock: it belongs to this handle, not to the process, and ends with it. */
static int lock_half(const struct chan_region *region, unsigned half, short type)
{
    const struct chan_superblock *superblock = &region->superblock;
    struct flock lock = {
        .l_type = type,
        .l_whence = SEEK_SET,
        .l_start = (off_t)(half == 0 ? superblock->half_a_offset : superblock->half_b_offset),
        .l_len = (off_t)superblock->half_bytes,
    };
    if (fcntl(region->fd, F_OFD_SETLK, &lock) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES ? -EBUSY : -errno;
}

int chan_region_take_side(struct chan_region *region, unsigned half)
{
    unsigned bit = 1u << half;
    if ((atomic_fetch_or(&region->sides_taken, bit) & bit) != 0)
        return -EBUSY;
    int r = lock_half(region, half, F_WRLCK);
    if (r < 0)
        (void)atomic_fetch_and(&region->sides_taken, ~bit);
    return r;
}

void chan_region_drop_side(struct chan_region *region, unsigned half)
{
    (void)lock_half(region, half, F_UNLCK);
    (void)atomic_fetch_and(&region->sides_taken, ~(1u << half));
}

void *chan_region_base(const struct chan_region *region)
{
    return region->base;
}

size_t chan_region_size(const struct chan_region *region)
{
    return region->size;
}

enum chan_mapping chan_region_mapping(const struct chan_region *region)
{
    return region->mapping;
}

const struct chan_superblock *chan_region_superblock(const struct chan_region *region)
{
    return region->has_superblock ? &region->superblock : NULL;
}

const char *chan_region_path(const struct chan_region *region)
{
    return region->path;
}

const char *chan_mapping_name(enum chan_mapping mapping)
{
    switch (mapping) {
    case CHAN_MAPPING_AUTO:
        return "automatic";
    case CHAN_MAPPING_CACHED:
        return "cached";
    case CHAN_MAPPING_WRITE_COMBINING:
        return "write-combining";
    case CHAN_MAPPING_UNCACHED:
        return "uncached";
    }
    return "unknown";
}
