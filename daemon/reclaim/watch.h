/* Watches of owner processes: a table of the sandboxes that a process owns, with one pidfd a process in an
 * epoll set. It only makes things quick. What is decided is decided by the store's row and by proof; a watch
 * that is missing, for want of descriptors or memory, only means that a pass of the collector has to look.
 */
#ifndef CHAN_DAEMON_RECLAIM_WATCH_H
#define CHAN_DAEMON_RECLAIM_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "store/rows.h"

struct watch_table;

/* Descriptors are added to epoll_fd with the descriptor as data, and are never more than pidfds_max. */
int watch_table_new(int epoll_fd, size_t pidfds_max, struct watch_table **ret, struct error *err);
void watch_table_free(struct watch_table *table); /* NULL is fine */

/* Any thread may call the rest. */

/* Enters a sandbox and its owner, a process of this boot, in place of what is known of that sandbox. Once
 * more is fine: it tries again to get a descriptor. */
void watch_add(struct watch_table *table, const char *sandbox_id, const struct owner_row *owner);
void watch_remove(struct watch_table *table, const char *sandbox_id);

/* Would watch_add of a sandbox that is running get further than what is there? */
bool watch_is_wanted(struct watch_table *table, const char *sandbox_id);

enum watch_condition {
    WATCH_NONE,  /* nothing is known about the process */
    WATCH_ALIVE, /* its pidfd says so */
    WATCH_ENDED  /* proved: the pidfd said so, or there was no such process any more when it was to be watched
                  */
};
enum watch_condition watch_look(struct watch_table *table, const struct owner_row *owner);

/* What epoll said about a descriptor: if the process has ended, closes it and hands out the ids of its
 * sandboxes, *ids to be freed. Returns their number; 0 also when out of memory, the owner being marked as
 * ended all the same. */
size_t watch_take_ended(struct watch_table *table, int pidfd, char (**ids)[ID_SIZE]);

/* Whether the owner was reported to be in doubt: 1, 0, or -1 when the sandbox is not in the table. */
int watch_doubt(struct watch_table *table, const char *sandbox_id);
void watch_set_doubt(struct watch_table *table, const char *sandbox_id, bool in_doubt);

/* Owners with a pidfd, and owners in doubt. */
void watch_count(struct watch_table *table, size_t *watched, size_t *in_doubt);

#endif
