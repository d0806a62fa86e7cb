/* Events, in pages that never cut a revision in two. */
#include <stdlib.h>

#include "daemon/operations/internal.h"

/* No unit of change adds more events than this; a page must be able to hold those of one revision. */
enum { EVENTS_OF_A_UNIT_MAX = 16 };

int operations_event_list(struct operations *operations, const struct caller *caller, int64_t since,
                          size_t limit, struct event_row **ret, size_t *count, int64_t *last, int64_t *newest,
                          struct error *err)
{
    (void)caller;
    size_t shown = 0;
    if (require_ready(operations, err) != 0 ||
        check_limit(&operations->config.limits, limit, &shown, err) != 0)
        return -1;
    auto_view struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    *newest = store_revision(view);
    if (since < 0 || since > *newest)
        return error_set(err, REASON_INVALID_PARAMETER,
                         "since is %lld, it must be 0 to %lld, the newest revision", (long long)since,
                         (long long)*newest);
    struct event_row *rows = NULL;
    size_t found = 0;
    if (store_event_list(view, since, shown + EVENTS_OF_A_UNIT_MAX, &rows, &found, newest, err) != 0)
        return -1;
    size_t kept = found;
    if (found > shown) {
        /* The next page starts after a revision, so this one must end with one: earlier, or else after its
         * end. */
        kept = shown;
        while (kept > 0 && rows[kept - 1].revision == rows[kept].revision)
            kept--;
        if (kept == 0)
            for (kept = shown; kept < found && rows[kept].revision == rows[0].revision;)
                kept++;
        for (size_t i = kept; i < found; i++)
            event_row_clear(&rows[i]);
    }
    *ret = rows;
    *count = kept;
    *last = kept < found ? rows[kept - 1].revision : *newest;
    return 0;
}
