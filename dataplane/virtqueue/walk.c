/* Chains of every shape. */
#include <string.h>

#include "dataplane/virtqueue/ring.h"

/* As it was read, once. */
struct descriptor {
    uint64_t address;
    uint32_t length;
    uint16_t flags;
    uint16_t next; /* of a split ring */
};

static struct descriptor split_descriptor(uint64_t address, uint64_t word)
{
    return (struct descriptor){.address = address,
                               .length = split_length(word),
                               .flags = split_flags(word),
                               .next = split_next(word)};
}

static struct descriptor packed_descriptor(uint64_t address, uint64_t word)
{
    return (struct descriptor){
        .address = address, .length = packed_length(word), .flags = packed_flags(word)};
}

/* Empty ones are left out, but count as looked at: a guest must not keep us busy with them. */
static bool add(struct virtqueue *queue, struct ring_walk *walk, const struct descriptor *descriptor,
                bool writable)
{
    if (++walk->looked_at > walk->limit)
        return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_CHAIN_LENGTH);
    uint64_t address = descriptor->address, left = descriptor->length;
    if (left == 0)
        return true;
    if (((descriptor->flags & VRING_DESC_F_WRITE) != 0) != writable)
        return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_DIRECTION);
    while (left > 0) {
        uint64_t contiguous = 0;
        uint8_t *host = guest_translate(queue->memory, &queue->region, address, left, &contiguous);
        if (host == NULL)
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_ADDRESS);
        if (walk->piece_count == walk->limit)
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_CHAIN_LENGTH);
        walk->pieces[walk->piece_count] = (struct iovec){.iov_base = host, .iov_len = contiguous};
        if (walk->addresses != NULL)
            walk->addresses[walk->piece_count] = address;
        walk->piece_count++;
        walk->length += contiguous;
        address += contiguous;
        left -= contiguous;
    }
    return true;
}

/* An entry of a table, which may lie across regions and at any alignment. */
static bool read_entry(struct virtqueue *queue, uint64_t address, uint64_t words[2])
{
    uint8_t *to = (uint8_t *)words;
    uint64_t left = 2 * sizeof words[0];
    while (left > 0) {
        uint64_t contiguous = 0;
        const uint8_t *from = guest_translate(queue->memory, &queue->region, address, left, &contiguous);
        if (from == NULL)
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_ADDRESS);
        memcpy(to, from, contiguous);
        to += contiguous;
        address += contiguous;
        left -= contiguous;
    }
    /* From here on it is the copy, also for the compiler. */
    __asm__ volatile("" : "+m"(words[0]), "+m"(words[1]));
    return true;
}

/* The table that `table` describes. The write flag of that means nothing. */
static bool walk_table(struct virtqueue *queue, struct ring_walk *walk, const struct descriptor *table,
                       bool writable)
{
    const uint32_t count = table->length / (uint32_t)sizeof(struct vring_desc);
    if ((queue->features & FEATURE(VIRTIO_RING_F_INDIRECT_DESC)) == 0 || count == 0 ||
        table->length % sizeof(struct vring_desc) != 0 || (table->flags & VRING_DESC_F_NEXT) != 0)
        return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_INDIRECT);
    uint32_t index = 0;
    for (uint32_t read = 0;; read++) {
        if (read == count) /* more than there are: split entries that form a loop */
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_LOOP);
        uint64_t words[2];
        if (!read_entry(queue, table->address + index * sizeof(struct vring_desc), words))
            return false;
        const struct descriptor entry =
            queue->packed ? packed_descriptor(words[0], words[1]) : split_descriptor(words[0], words[1]);
        if ((entry.flags & VRING_DESC_F_INDIRECT) != 0)
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_INDIRECT);
        if (!add(queue, walk, &entry, writable))
            return false;
        if (queue->packed ? index + 1 == count : (entry.flags & VRING_DESC_F_NEXT) == 0)
            return true;
        index = queue->packed ? index + 1 : entry.next;
        if (index >= count)
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_INDIRECT);
    }
}

static bool walk_split(struct virtqueue *queue, uint16_t at, bool writable, struct ring_walk *walk)
{
    if (split_ready(queue, at, 1) == 0)
        return false;
    uint16_t index = split_head(queue, at);
    walk->id = index;
    walk->slots = 1;
    for (;;) {
        if (index >= queue->size)
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_HEAD);
        if (++walk->descriptors > queue->size)
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_LOOP);
        const uint64_t *words = virtqueue_descriptor(queue, index);
        const struct descriptor descriptor = split_descriptor(__atomic_load_n(&words[0], __ATOMIC_RELAXED),
                                                              __atomic_load_n(&words[1], __ATOMIC_RELAXED));
        if ((descriptor.flags & VRING_DESC_F_INDIRECT) != 0)
            return walk_table(queue, walk, &descriptor, writable);
        if (!add(queue, walk, &descriptor, writable))
            return false;
        if ((descriptor.flags & VRING_DESC_F_NEXT) == 0)
            return true;
        index = descriptor.next;
    }
}

static bool walk_packed(struct virtqueue *queue, struct ring_at at, bool writable, struct ring_walk *walk)
{
    uint64_t word = packed_word(queue, at.position);
    if (!packed_is_available(word, at.wrap))
        return false;
    for (;;) {
        if (++walk->descriptors > queue->size)
            return virtqueue_set_fault(queue, VIRTQUEUE_FAULT_LOOP);
        walk->slots = (uint16_t)walk->descriptors;
        walk->id = packed_id(word); /* the last one's counts */
        const uint64_t address =
            __atomic_load_n(&virtqueue_descriptor(queue, at.position)[0], __ATOMIC_RELAXED);
        const struct descriptor descriptor = packed_descriptor(address, word);
        if ((descriptor.flags & VRING_DESC_F_INDIRECT) != 0)
            return walk_table(queue, walk, &descriptor, writable);
        if (!add(queue, walk, &descriptor, writable))
            return false;
        if ((descriptor.flags & VRING_DESC_F_NEXT) == 0)
            return true;
        packed_advance(queue, &at, 1);
        /* The driver has shown the first one last, so all of the chain is there. */
        word = packed_word(queue, at.position);
    }
}

bool ring_walk(struct virtqueue *queue, struct ring_at at, bool writable, struct ring_walk *walk)
{
    walk->piece_count = walk->looked_at = walk->descriptors = 0;
    walk->length = 0;
    return queue->packed ? walk_packed(queue, at, writable, walk)
                         : walk_split(queue, at.position, writable, walk);
}

unsigned ring_count(struct virtqueue *queue, struct ring_at from, unsigned wanted)
{
    if (!queue->packed)
        return split_ready(queue, from.position, wanted);
    unsigned count = 0;
    while (count < wanted && count < queue->size &&
           packed_is_available(packed_word(queue, from.position), from.wrap)) {
        packed_advance(queue, &from, 1);
        count++;
    }
    return count;
}
