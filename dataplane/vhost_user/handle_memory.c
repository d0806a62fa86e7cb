/* The guest's memory, as a table or region by region, and the log of what is written into it. */
#include "dataplane/vhost_user/dispatch.h"

static struct guest_region_spec spec_of(const struct wire_region *region)
{
    return (struct guest_region_spec){.guest_address = region->guest_address,
                                      .size = region->size,
                                      .user_address = region->user_address,
                                      .mmap_offset = region->mmap_offset};
}

int handle_set_mem_table(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct wire_memory_table *table = &message->payload.table;
    const uint32_t count = table->count;
    if (count == 0 || count > WIRE_REGIONS_MAX ||
        message->header.size < offsetof(struct wire_memory_table, regions) + count * sizeof table->regions[0])
        return error_set(err, REASON_INVALID_REQUEST, "%u bytes do not hold %u regions", message->header.size,
                         count);
    if (count != message->descriptor_count)
        return error_set(err, REASON_INVALID_REQUEST, "%u descriptors for %u regions",
                         message->descriptor_count, count);
    struct guest_region_spec specs[WIRE_REGIONS_MAX];
    for (uint32_t i = 0; i < count; i++)
        specs[i] = spec_of(&table->regions[i]);
    struct guest_memory *memory = NULL;
    if (guest_memory_new(specs, message->descriptors, count, &memory, err) != 0)
        return -1;
    return rings_set_memory(end, memory, err);
}

int handle_get_max_mem_slots(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    return reply_number(end, GUEST_REGIONS_MAX, err);
}

int handle_add_mem_reg(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct guest_region_spec spec = spec_of(&message->payload.region.region);
    const struct guest_memory *before = end->session.memory;
    if (before != NULL && before->count >= GUEST_REGIONS_MAX)
        return error_set(err, REASON_RESOURCE_LIMIT, "there are %d regions already, which is the limit",
                         GUEST_REGIONS_MAX);
    struct guest_memory *memory = NULL;
    const int result = before == NULL
                           ? guest_memory_new(&spec, message->descriptors, 1, &memory, err)
                           : guest_memory_add(before, &spec, message->descriptors[0], &memory, err);
    return result != 0 ? -1 : rings_set_memory(end, memory, err);
}

/* A descriptor that came along is not needed. */
int handle_rem_mem_reg(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct guest_region_spec spec = spec_of(&message->payload.region.region);
    if (end->session.memory == NULL)
        return error_set(err, REASON_INVALID_REQUEST, "there is no region");
    struct guest_memory *memory = NULL;
    if (guest_memory_remove(end->session.memory, &spec, &memory, err) != 0)
        return -1;
    return rings_set_memory(end, memory, err);
}

/* The answer is the payload again, sent when no worker uses the log before. */
int handle_set_log_base(struct vhost_user_end *end, struct message *message, struct error *err)
{
    const struct wire_log where = message->payload.log;
    struct dirty_log *log = NULL;
    if (dirty_log_new(message->descriptors[0], where.size, where.offset, &log, err) != 0)
        return -1;
    rings_set_log(end, log);
    return reply(end, &where, sizeof where, err);
}

/* Somebody who waits for the log to be written to, which nobody does: front-ends read it when they want to.
 */
int handle_set_log_fd(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)end;
    (void)message;
    (void)err;
    return 0;
}

/* Addresses are never translated by the front-end: IOMMU_PLATFORM is not offered. The answer is due anyway.
 */
int handle_iotlb_msg(struct vhost_user_end *end, struct message *message, struct error *err)
{
    (void)message;
    return reply_number(end, 1, err);
}
