/* Inside a region handle. */
#ifndef CHAN_SRC_REGION_H
#define CHAN_SRC_REGION_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "chan/channel.h"
#include "chan/region.h"

/* A half of the region as mapped: the control block, and the ring twice in a row. */
struct chan_half {
    struct chan_control *control;
    unsigned char *ring;
    uint64_t ring_bytes;
};

struct chan_region {
    int fd;
    unsigned char *base;
    size_t size;
    enum chan_mapping mapping;
    enum chan_side natural_side; /* what CHAN_SIDE_AUTO means for it */
    bool read_only;
    bool has_superblock;
    struct chan_superblock superblock;
    struct chan_half halves[2]; /* host, guest; rings are NULL for raw and read-only regions */
    atomic_uint references;     /* the handle, and one per channel */
    atomic_uint sides_taken;    /* a bit per half */
    char *path;
};

/* What a backend has opened. */
struct chan_region_source {
    int fd; /* taken over, also on failure */
    const char *path;
    uint64_t size;
    enum chan_mapping mapping;
    enum chan_side natural_side;
    unsigned flags; /* enum chan_region_flags */
};

/* Maps what was opened, and looks at its superblock. */
int chan_region_create(const struct chan_region_source *source, struct chan_region **region,
                       struct chan_error *error);

void chan_region_reference(struct chan_region *region);

/* Reads the superblock as it is now. Returns as chan_superblock_check(). */
int chan_region_read_superblock(const struct chan_region *region, struct chan_superblock *out);

/* Claims the right to write a half, against other channels on this handle and against other processes of this
 * kernel. The kernel releases it when the process ends, however it ends. -EBUSY: taken. */
int chan_region_take_side(struct chan_region *region, unsigned half);
void chan_region_drop_side(struct chan_region *region, unsigned half);

/* Sets the text and returns `result`, so that it can end a function. */
int chan_error_set(struct chan_error *error, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* clang's analyzer does not see into error.c, so it is told here. (There, parentheses keep the macro away.)
 */
#ifdef __clang_analyzer__
#define chan_error_set(error, result, ...) ((void)chan_error_set(error, result, __VA_ARGS__), (result))
#endif

static inline void chan_close_fd(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}
#define chan_auto_close __attribute__((cleanup(chan_close_fd)))

#endif
