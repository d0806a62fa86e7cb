#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "chan/channel.h"
#include "chan/region.h"
#include "tests/bench/ring/bench.h"

enum { REGION_BYTES = 1 << 20 };

struct chan_state_of_bench {
    char path[64];
    struct chan_channel *channel;
};

static void check(int result, const char *what)
{
    if (result < 0) {
        errno = -result;
        die(what);
    }
}

static void *create(size_t message_size)
{
    (void)message_size;
    struct chan_state_of_bench *state = allocate(sizeof *state);
    (void)snprintf(state->path, sizeof state->path, "/dev/shm/chan-bench-ring-%d", (int)getpid());
    int fd = open(state->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct chan_superblock superblock;
    check(chan_superblock_make(&superblock, REGION_BYTES, (uint64_t)now_ns(), 1), "superblock");
    if (fd < 0 || posix_fallocate(fd, 0, REGION_BYTES) != 0 ||
        pwrite(fd, &superblock, sizeof superblock, 0) != (ssize_t)sizeof superblock)
        die(state->path);
    (void)close(fd);
    return state;
}

static void attach(void *opaque, bool child)
{
    struct chan_state_of_bench *state = opaque;
    const struct chan_options options = {.side = child ? CHAN_SIDE_GUEST : CHAN_SIDE_HOST};
    struct chan_region *region = NULL;
    check(chan_region_open_path(state->path, 0, &region, NULL), "opening the region");
    check(chan_open(region, &options, &state->channel, NULL), "opening the channel");
    chan_region_close(region);
    check(chan_connect(state->channel, 10000), "connecting");
}

static void send_message(void *opaque, const void *message, size_t size)
{
    const struct chan_state_of_bench *state = opaque;
    check(chan_send(state->channel, message, size, -1), "chan_send");
}

static void send_more(void *opaque, const void *message, size_t size)
{
    const struct chan_state_of_bench *state = opaque;
    check(chan_send_more(state->channel, message, size, -1), "chan_send_more");
}

static void flush(void *opaque)
{
    const struct chan_state_of_bench *state = opaque;
    check(chan_flush(state->channel, -1), "chan_flush");
}

static void receive_message(void *opaque, void *buffer, size_t size)
{
    const struct chan_state_of_bench *state = opaque;
    size_t length = 0;
    check(chan_recv(state->channel, buffer, size, &length, -1), "chan_recv");
}

static void detach(void *opaque)
{
    struct chan_state_of_bench *state = opaque;
    chan_close(state->channel);
    state->channel = NULL;
}

static void destroy(void *opaque)
{
    struct chan_state_of_bench *state = opaque;
    (void)unlink(state->path);
    free(state);
}

const struct transport transport_chan = {
    .name = "libchan",
    .create = create,
    .attach = attach,
    .send = send_message,
    .receive = receive_message,
    .detach = detach,
    .destroy = destroy,
};

const struct transport transport_chan_batched = {
    .name = "libchan, batched",
    .create = create,
    .attach = attach,
    .send = send_more,
    .flush = flush,
    .receive = receive_message,
    .detach = detach,
    .destroy = destroy,
};
