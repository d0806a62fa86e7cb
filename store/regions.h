/* The region rows of sandboxes. Private to store/. */
#ifndef CHAN_STORE_REGIONS_H
#define CHAN_STORE_REGIONS_H

#include "store/internal.h"

/* What region_read reads, of a table called r. */
#define REGION_COLUMNS_OF_R                                                                                  \
    "r.name, r.staging_token, r.size_bytes, r.layout, r.on_rollback, r.vectors, r.epoch, "                   \
    "r.state,"                                                                                               \
    " r.reason, r.uid, r.gid, r.device, r.inode, r.birth_ns, r.boot_id"

void region_read(struct query *query, struct region_row *row);

/* These keep the usage too. `sandbox` is the number of its row. */
int region_insert(struct connection *connection, int64_t sandbox, const struct region_row *row,
                  struct error *err);
int region_delete(struct connection *connection, const char *sandbox_id,
                  struct error *err); /* not there: fine */

int region_update(struct connection *connection, const char *sandbox_id, const struct region_row *row,
                  struct error *err);

#endif
