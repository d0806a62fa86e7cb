/* Links and the state of their ends, as the control protocol describes them. */
#ifndef CHAN_DATAPLANE_CONTROL_LISTING_H
#define CHAN_DATAPLANE_CONTROL_LISTING_H

#include "api/proto/control.pb-c.h"
#include "dataplane/control/link_table.h"

enum { LISTING_PAGE_MAX = 64 };

struct listing;

int listing_new(struct listing **ret, struct error *err);
void listing_free(struct listing *listing); /* NULL is fine */

/* The page that is asked for. It is valid until the next call, and as long as the table does not change. */
Chan__Control__V1__ListLinksReply *listing_fill(struct listing *listing, const struct link_table *table,
                                                const Chan__Control__V1__ListLinks *request);

#endif
