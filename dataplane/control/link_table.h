/* The links there are, in the order of their ids. Control thread. */
#ifndef CHAN_DATAPLANE_CONTROL_LINK_TABLE_H
#define CHAN_DATAPLANE_CONTROL_LINK_TABLE_H

#include "dataplane/control/end_types.h"
#include "dataplane/control/statistics_memory.h"
#include "dataplane/links/link.h"

enum { LINK_ID_MAX = 128 };

struct link_specification {
    char id[LINK_ID_MAX + 1];
    struct end_specification ends[2];
};

/* What was said of an end last; see watch.h. */
struct end_report {
    bool made;
    enum end_state state;
    char reason[END_REASON_SIZE];
};

struct link_entry {
    struct link_specification specification;
    struct link *link;
    const struct worker *worker;
    uint32_t slot; /* in the statistics memory */
    struct end_report reported[2];
};

struct link_table;

struct link_table_config {
    struct control_loop *loop;
    struct worker *const *workers;
    unsigned worker_count; /* at least one */
    struct statistics_memory *statistics;
    unsigned max_links; /* and so many slots has the statistics memory */
    int64_t patience_ns;
    end_factory make_end;
};

/* What the configuration points to stays the caller's and outlives the table. */
int link_table_new(const struct link_table_config *config, struct link_table **ret, struct error *err);
/* Closes every link. NULL is fine. */
void link_table_free(struct link_table *table);

/* Makes a link, with the worker that has the fewest. listeners: of the ends, -1 for none; taken over in every
 * case. A link of that id and the same specification is left as it is (*created is false). Otherwise
 * REASON_LINK_EXISTS, REASON_QUOTA_EXCEEDED, REASON_INVALID_REQUEST (id, path or mtu), or why an end could
 * not be made. */
int link_table_create(struct link_table *table, const struct link_specification *specification,
                      const int listeners[2], const struct link_entry **ret, bool *created,
                      struct error *err);
/* REASON_LINK_NOT_FOUND when there is none, as the next two. */
int link_table_delete(struct link_table *table, const char *id, struct error *err);
int link_table_pause(struct link_table *table, const char *id, bool paused, struct error *err);
/* `end`: 0 or 1, else REASON_INVALID_REQUEST. */
int link_table_set_offloads(struct link_table *table, const char *id, unsigned end, uint64_t offloads_off,
                            struct error *err);

unsigned link_table_count(const struct link_table *table);
/* NULL beyond the last one. */
struct link_entry *link_table_at(const struct link_table *table, unsigned index);
/* The index of the first link whose id is greater than the given one, and of the one that has it: as many
 * as there are links when there is none. */
unsigned link_table_after(const struct link_table *table, const char *id);
unsigned link_table_find(const struct link_table *table, const char *id);

#endif
