/* The dataplane's statistics memory, mapped to be read. */
#ifndef CHAN_DAEMON_LINKS_STATISTICS_H
#define CHAN_DAEMON_LINKS_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/proto/statistics.h"
#include "base/error.h"
#include "daemon/links/links.h"

struct statistics {
    const void *memory; /* NULL: none */
    size_t size;
    const struct statistics_slot *slots;
    uint32_t slot_count;
};

/* Maps it after it was checked: the layout, and that it cannot shrink under us. The descriptor stays the
 * caller's. */
int statistics_map(int fd, struct statistics *ret, struct error *err);
void statistics_unmap(struct statistics *statistics); /* zeroed is fine */

/* Counters of both directions of a link, by the end that sends. False: the slot is not that link's. */
bool statistics_read(const struct statistics *statistics, uint32_t slot, const char *id,
                     struct link_counters ret[2]);
/* The id of a slot; false when it is free. */
bool statistics_id(const struct statistics *statistics, uint32_t slot, char id[ID_SIZE]);

#endif
