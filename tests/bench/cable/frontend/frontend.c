#include "tests/bench/cable/frontend/frontend.h"

#include <linux/virtio_config.h>
#include <linux/virtio_net.h>

enum { LINE = 64 };

static bool has(const struct frontend_settings *settings, unsigned feature)
{
    return (settings->features >> feature & 1) != 0;
}

static unsigned pieces_of(const struct buffers *buffers)
{
    unsigned count = 0;
    while (count < RING_PIECES_MAX - 1 && buffers->cuts[count] != 0)
        count++;
    return count + 1;
}

static struct ring_shape shape_of(const struct frontend_settings *settings, const struct buffers *buffers,
                                  bool device_writes)
{
    return (struct ring_shape){.size = settings->queue_size,
                               .pieces = pieces_of(buffers),
                               .packed = has(settings, VIRTIO_F_RING_PACKED),
                               .indirect = settings->indirect,
                               .in_order = has(settings, VIRTIO_F_IN_ORDER),
                               .event_idx = has(settings, VIRTIO_RING_F_EVENT_IDX),
                               .device_writes = device_writes};
}

static size_t stride_of(const struct buffers *buffers)
{
    return ((size_t)buffers->length + LINE - 1) & ~(size_t)(LINE - 1);
}

static void describe(struct ring *ring, struct guest *guest, uint16_t chain, uint64_t address,
                     uint32_t length, const uint32_t *cuts)
{
    struct ring_piece pieces[RING_PIECES_MAX];
    unsigned count = 0;
    for (; count + 1 < ring->shape.pieces && cuts[count] != 0 && cuts[count] < length; count++) {
        pieces[count] = (struct ring_piece){.address = address, .length = cuts[count]};
        address += cuts[count];
        length -= cuts[count];
    }
    pieces[count++] = (struct ring_piece){.address = address, .length = length};
    ring_describe(ring, guest, chain, pieces, count);
}

void frontend_describe(struct frontend *frontend, uint16_t chain, uint32_t length, const uint32_t *cuts)
{
    describe(&frontend->transmit, &frontend->guest, chain,
             GUEST_ADDRESS + frontend->transmit_at + chain * frontend->transmit_stride, length, cuts);
}

static void describe_all(struct frontend *frontend, const struct frontend_settings *settings)
{
    for (uint16_t chain = 0; chain < frontend->transmit.chains; chain++)
        frontend_describe(frontend, chain, settings->transmit.length, settings->transmit.cuts);
    for (uint16_t chain = 0; chain < frontend->receive.chains; chain++) {
        describe(&frontend->receive, &frontend->guest, chain,
                 GUEST_ADDRESS + frontend->receive_at + chain * frontend->receive_stride,
                 settings->receive.length, settings->receive.cuts);
        ring_give(&frontend->receive, chain);
    }
    ring_publish(&frontend->receive);
}

static int make_memory(struct frontend *frontend, const struct frontend_settings *settings, struct error *err)
{
    const struct ring_shape receive = shape_of(settings, &settings->receive, true);
    const struct ring_shape transmit = shape_of(settings, &settings->transmit, false);
    const size_t rings =
        (size_t)settings->queue_size * (64 + sizeof(struct vring_desc) * 2 * RING_PIECES_MAX);
    frontend->receive_stride = stride_of(&settings->receive);
    frontend->transmit_stride = stride_of(&settings->transmit);
    const size_t buffers = settings->queue_size * (frontend->receive_stride + frontend->transmit_stride);
    if (guest_open(&frontend->guest, (size_t)65536 + rings + buffers, settings->huge_pages, err) != 0 ||
        ring_open(&frontend->receive, &frontend->guest, &receive, err) != 0 ||
        ring_open(&frontend->transmit, &frontend->guest, &transmit, err) != 0)
        return -1;
    frontend->receive_at =
        guest_take(&frontend->guest, frontend->receive.chains * frontend->receive_stride, LINE);
    frontend->transmit_at =
        guest_take(&frontend->guest, frontend->transmit.chains * frontend->transmit_stride, LINE);
    if (frontend->receive_at == SIZE_MAX || frontend->transmit_at == SIZE_MAX)
        return error_set(err, REASON_RESOURCE_LIMIT, "the guest's memory is too small for its buffers");
    return 0;
}

int frontend_open(struct frontend *frontend, const struct frontend_settings *settings, struct error *err)
{
    *frontend = (struct frontend){
        .guest.fd = -1,
        .connection.fd = -1,
        .receive = {.kick_fd = -1, .call_fd = -1},
        .transmit = {.kick_fd = -1, .call_fd = -1},
        .features = settings->features,
    };
    struct ring *const rings[2] = {&frontend->receive, &frontend->transmit};
    if (make_memory(frontend, settings, err) == 0) {
        describe_all(frontend, settings);
        if (connection_open(&frontend->connection, settings->path, err) == 0 &&
            connection_begin(&frontend->connection, &frontend->guest, settings->features, err) == 0 &&
            connection_start(&frontend->connection, rings, 2, err) == 0) {
            ring_kick(&frontend->receive);
            return 0;
        }
    }
    frontend_close(frontend);
    return -1;
}

void frontend_close(struct frontend *frontend)
{
    connection_close(&frontend->connection);
    ring_close(&frontend->receive);
    ring_close(&frontend->transmit);
    guest_close(&frontend->guest);
}
