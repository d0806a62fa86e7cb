/* A link: two ends, joined. Its worker's task moves frames from each end to the other. Control thread, except
 * where said otherwise. */
#ifndef CHAN_DATAPLANE_LINKS_LINK_H
#define CHAN_DATAPLANE_LINKS_LINK_H

#include "dataplane/ends/end.h"
#include "dataplane/workers/worker.h"

struct link;

struct link_config {
    struct worker *worker;
    struct statistics_slot *slot; /* the caller's; has the link's id in it */
    int64_t
        patience_ns; /* how long frames wait for a receiver that is out of buffers before they are dropped */
};

/* A link without ends yet, so that they can be made with its task. */
int link_new(const struct link_config *config, struct link **ret, struct error *err);
struct worker_task *link_task(struct link *link);
/* Takes the ends over and begins to move frames. On failure the ends stay the caller's. */
int link_open(struct link *link, struct end *const ends[2], struct error *err);
/* Takes it from the worker, destroys the ends and frees it. NULL is fine. */
void link_close(struct link *link);

struct end *link_end(const struct link *link, unsigned index);
void link_pause(struct link *link, bool paused);
bool link_is_paused(const struct link *link);

#endif
