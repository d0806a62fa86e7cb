/* Sandboxes: read, listed and deleted. Creation is in create.c, the life cycle in lifecycle.c. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/operations/internal.h"

int operations_sandbox_get(struct operations *operations, const struct caller *caller, const char *id,
                           struct sandbox_view *ret, struct error *err)
{
    (void)caller;
    if (require_ready(operations, err) != 0 || check_id(id, "sandboxID", err) != 0)
        return -1;
    auto_view struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    struct sandbox_row row;
    int found = store_sandbox_get(view, id, &row, err);
    if (found < 0)
        return -1;
    if (found == 0)
        return error_set(err, REASON_SANDBOX_NOT_FOUND, "there is no sandbox %s", id);
    sandbox_view_fill(operations, &row, ret);
    return 0;
}

int operations_sandbox_list(struct operations *operations, const struct caller *caller,
                            const struct page_request *page, struct sandbox_view **ret, size_t *count,
                            char next_token[PAGE_TOKEN_SIZE], struct error *err)
{
    (void)caller;
    size_t limit = 0;
    char after_id[ID_SIZE];
    if (require_ready(operations, err) != 0 ||
        page_begin(&operations->config.limits, page, PAGE_SANDBOXES, &limit, after_id, err) != 0)
        return -1;
    auto_view struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    struct sandbox_row *rows = NULL;
    size_t found = 0;
    /* One row more than asked for tells whether there is another page. */
    if (store_sandbox_list(view, after_id, limit + 1, &rows, &found, err) != 0)
        return -1;
    size_t shown = found < limit ? found : limit;
    struct sandbox_view *views = calloc(shown > 0 ? shown : 1, sizeof *views);
    if (views == NULL) {
        store_sandbox_list_free(rows, found);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot hold a page of %zu sandboxes",
                               shown);
    }
    for (size_t i = 0; i < shown; i++)
        sandbox_view_fill(operations, &rows[i], &views[i]);
    next_token[0] = '\0';
    if (found > limit)
        page_token_make(PAGE_SANDBOXES, rows[limit - 1].id, next_token);
    store_sandbox_list_free(rows, found);
    *ret = views;
    *count = shown;
    return 0;
}

int operations_sandbox_delete(struct operations *operations, const struct caller *caller, const char *id,
                              struct error *err)
{
    if (require_ready(operations, err) != 0 || check_id(id, "sandboxID", err) != 0)
        return -1;
    auto_sandbox_lock struct sandbox_lock lock = reclaim_lock(operations->config.reclaim, id);
    struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    struct sandbox_row row = {.revision = 0};
    int found = store_sandbox_get(view, id, &row, err);
    store_read_end(view); /* at once: a pinned snapshot keeps the WAL from being checkpointed */
    if (found < 0 || check_if_match(caller, "sandbox", id, found > 0, row.revision, err) != 0)
        return -1;
    if (found == 0)
        return 0;
    char who[WHO_SIZE];
    describe_caller(caller, who);
    struct store_actor actor = make_actor(caller, who, OPERATION_SANDBOX_DELETE, id, "ok");
    if (reclaim_remove_sandbox(operations->config.reclaim, &row, &actor, false, err) != 0)
        return -1;
    delete_links_of_sandbox(operations, caller, id);
    return 0;
}
