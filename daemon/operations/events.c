/* Events in pages. The store never cuts a revision in two, so a page can start after any revision that
 * another ended with; every revision has an event. */
#include "daemon/operations/internal.h"

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
    if (since != EVENTS_SINCE_OLDEST && (since < 0 || since > *newest))
        return error_set(err, REASON_INVALID_PARAMETER,
                         "since is %lld, it must be 0 to %lld, the newest revision", (long long)since,
                         (long long)*newest);
    if (store_event_list(view, since, shown, ret, count, newest, err) != 0)
        return -1;
    *last = *count > 0 ? (*ret)[*count - 1].revision : *newest;
    return 0;
}
