/* Makes the dataplane have what the store wants, and nothing else. What is as wanted is not touched. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/links/internal.h"

/* What is known of a link of the dataplane. */
struct there {
    char id[ID_SIZE];
    bool seen; /* a row wants it */
};

struct reconciliation {
    struct links *links;
    struct there *there; /* in the order of ids */
    size_t there_count;
    bool busy; /* something was being changed, or failed */
};

static int read_row(struct links *links, const char *id, struct link_row *row, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(links->config.store, &view, err) != 0)
        return -1;
    return store_link_get(view, id, row, err);
}

/* Something about one link that does not keep the others from being settled. */
static void report(struct reconciliation *run, const char *what, const char *id, const struct error *failure)
{
    run->busy = true;
    if (!run->links->failing)
        log_write(run->links->config.log, LOG_LEVEL_WARNING, what, "linkID", id, "reason",
                  reason_info(failure->reason)->word, "detail", failure->detail, NULL);
}

static bool is_fatal(const struct error *failure)
{
    return failure->reason == REASON_DATAPLANE_UNAVAILABLE || failure->reason == REASON_STORE_FAILED;
}

/* A row that the listing does not explain. Both are read anew under the lock. */
static int give_link(struct reconciliation *run, const char *id, struct error *err)
{
    struct links *links = run->links;
    struct link_row row;
    auto_link_lock struct link_lock lock = {.stripe = NULL};
    if (!links_try_lock(links, id, &lock)) {
        run->busy = true;
        return 0;
    }
    const int found = read_row(links, id, &row, err);
    if (found < 0)
        return -1;
    if (found == 0 || row.state != LINK_READY)
        return 0;
    auto_response control_response *response = NULL;
    if (links_list(links, NULL, id, call_deadline_ns(), &response, err) != 0)
        return -1;
    if (response->list_links->n_links == 1 && link_is_as_wanted(links, &row, response->list_links->links[0]))
        return 0;
    struct error failure = ERROR_INIT;
    if (link_give(links, &row, call_deadline_ns(), &failure) == 0)
        return 0;
    if (is_fatal(&failure)) {
        *err = failure;
        return -1;
    }
    report(run, "a link cannot be made anew yet", id, &failure);
    return 0;
}

/* A link of the dataplane that no row wants. */
static int take_link(struct reconciliation *run, const char *id, struct error *err)
{
    struct links *links = run->links;
    struct link_row row;
    auto_link_lock struct link_lock lock = {.stripe = NULL};
    if (!links_try_lock(links, id, &lock)) {
        run->busy = true;
        return 0;
    }
    const int found = read_row(links, id, &row, err);
    if (found < 0)
        return -1;
    if (found > 0 && row.state == LINK_READY)
        return 0;
    return link_take(links, id, call_deadline_ns(), err);
}

static int note(struct reconciliation *run, const control_link_status *status, struct error *err)
{
    if (strlen(status->id) >= ID_SIZE)
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane has a link whose id is too long");
    if ((run->there_count & (run->there_count - 1)) == 0) {
        const size_t room = run->there_count == 0 ? 1 : 2 * run->there_count;
        struct there *grown = realloc(run->there, room * sizeof *grown);
        if (grown == NULL)
            return error_set(err, REASON_RESOURCE_LIMIT, "no memory for %zu links", room);
        run->there = grown;
    }
    struct there *there = &run->there[run->there_count++];
    *there = (struct there){.seen = false};
    memcpy(there->id, status->id, strlen(status->id) + 1);
    struct link_row row;
    const int found = read_row(run->links, status->id, &row, err);
    there->seen = found > 0 && row.state == LINK_READY && link_is_as_wanted(run->links, &row, status);
    return found < 0 ? -1 : 0;
}

static int list_there(struct reconciliation *run, struct error *err)
{
    bool more = true;
    while (more) {
        auto_response control_response *response = NULL;
        const char *after_id = run->there_count > 0 ? run->there[run->there_count - 1].id : NULL;
        if (links_list(run->links, after_id, NULL, call_deadline_ns(), &response, err) != 0)
            return -1;
        const Chan__Control__V1__ListLinksReply *page = response->list_links;
        for (size_t i = 0; i < page->n_links; i++) {
            if (run->there_count > 0 && strcmp(page->links[i]->id, run->there[run->there_count - 1].id) <= 0)
                return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane's list is out of order");
            if (note(run, page->links[i], err) != 0)
                return -1;
        }
        more = page->more && page->n_links > 0;
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct there *)a)->id, ((const struct there *)b)->id);
}

static bool is_as_wanted(const struct reconciliation *run, const char *id)
{
    struct there key = {.seen = false};
    memcpy(key.id, id, strlen(id) + 1);
    const struct there *found =
        run->there_count > 0 ? bsearch(&key, run->there, run->there_count, sizeof key, compare) : NULL;
    return found != NULL && found->seen;
}

static int read_page(struct links *links, const char *after_id, size_t limit, struct link_row **rows,
                     size_t *count, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(links->config.store, &view, err) != 0)
        return -1;
    return store_link_list_state(view, LINK_READY, after_id, limit, rows, count, err);
}

static int give_wanted(struct reconciliation *run, struct error *err)
{
    enum { PAGE = 256 };
    char after_id[ID_SIZE] = "";
    size_t count = 0;
    do {
        struct link_row *rows = NULL;
        if (read_page(run->links, after_id, PAGE, &rows, &count, err) != 0)
            return -1;
        int result = 0;
        for (size_t i = 0; i < count && result == 0; i++)
            if (!is_as_wanted(run, rows[i].id))
                result = give_link(run, rows[i].id, err);
        if (count > 0)
            memcpy(after_id, rows[count - 1].id, sizeof after_id);
        store_link_list_free(rows, count);
        if (result != 0)
            return -1;
    } while (count == PAGE);
    return 0;
}

static int take_unwanted(struct reconciliation *run, struct error *err)
{
    for (size_t i = 0; i < run->there_count; i++) {
        struct error failure = ERROR_INIT;
        if (run->there[i].seen || take_link(run, run->there[i].id, &failure) == 0)
            continue;
        if (is_fatal(&failure)) {
            *err = failure;
            return -1;
        }
        report(run, "a link that nobody wants cannot be removed yet", run->there[i].id, &failure);
    }
    return 0;
}

int links_reconcile(struct links *links, struct error *err)
{
    struct reconciliation run = {.links = links};
    struct error failure = ERROR_INIT;
    int result = -1;
    if (list_there(&run, &failure) == 0 && take_unwanted(&run, &failure) == 0 &&
        give_wanted(&run, &failure) == 0)
        result = run.busy ? 1 : 0;
    else if (err != NULL)
        *err = failure;
    free(run.there);
    return result;
}
