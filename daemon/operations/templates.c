/* Templates: what sandboxes are made from, with the opt-in and the settings of the region. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "daemon/operations/internal.h"

#define auto_template __attribute__((cleanup(template_row_clear)))

/* What a unit of change is given, and what it found. */
struct template_change {
    const struct caller *caller;
    const char *id;
    const struct template_row *wanted;
    bool found;
    struct template_row row;
};

static int check_template(const struct operations *operations, const char *id,
                          const struct template_spec *spec, struct template_row *ret, struct error *err)
{
    struct error fields = ERROR_INIT;
    *ret = (struct template_row){.enable_ivshmem =
                                     spec->enable_ivshmem ||
                                     annotations_opt_in(spec->annotations, spec->annotation_count)};
    memcpy(ret->id, id, strlen(id) + 1);
    check_region_settings(&operations->config.limits, spec, &ret->region, &fields);
    (void)annotations_encode(spec->annotations, spec->annotation_count, &ret->annotations, &fields);
    if (fields.reason == REASON_NONE)
        return 0;
    template_row_clear(ret);
    return error_hand_over(err, &fields);
}

static bool same_content(const struct template_row *a, const struct template_row *b)
{
    return a->enable_ivshmem == b->enable_ivshmem && a->region.size_bytes == b->region.size_bytes &&
           a->region.layout == b->region.layout && a->region.on_rollback == b->region.on_rollback &&
           a->region.vectors == b->region.vectors && strcmp(a->annotations, b->annotations) == 0;
}

/* Reads the template and checks If-Match. */
static int load(struct template_change *change, struct store_view *view, struct error *err)
{
    template_row_clear(&change->row);
    change->row = (struct template_row){.annotations = NULL};
    int found = store_template_get(view, change->id, &change->row, err);
    if (found < 0)
        return -1;
    change->found = found > 0;
    return check_if_match(change->caller, "template", change->id, change->found, change->row.revision, err);
}

static int write_put(struct store_txn *txn, void *argument, struct error *err)
{
    struct template_change *change = argument;
    if (load(change, store_txn_view(txn), err) != 0)
        return -1;
    if (change->found && same_content(&change->row, change->wanted))
        return 1;
    /* The store's calls set times and revision only; the annotations are lent. */
    struct template_row row = *change->wanted;
    if (store_template_put(txn, &row, err) != 0)
        return -1;
    template_row_clear(&change->row);
    change->row = row;
    change->row.annotations = strdup(row.annotations);
    if (change->row.annotations == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "no memory for template %s", change->id);
    return store_event_add(txn, change->found ? "template.updated" : "template.created", "template",
                           change->id, NULL, err);
}

int operations_template_put(struct operations *operations, const struct caller *caller, const char *id,
                            const struct template_spec *spec, struct template_row *ret, bool *created,
                            struct error *err)
{
    auto_template struct template_row wanted = {.annotations = NULL};
    if (require_ready(operations, err) != 0 || check_id(id, "templateID", err) != 0 ||
        check_template(operations, id, spec, &wanted, err) != 0)
        return -1;
    struct template_change change = {.caller = caller, .id = id, .wanted = &wanted};
    char who[WHO_SIZE];
    describe_caller(caller, who);
    struct store_actor actor = make_actor(caller, who, OPERATION_TEMPLATE_PUT, id, "ok");
    if (store_write(operations->config.store, &actor, write_put, &change, err) < 0) {
        template_row_clear(&change.row);
        return -1;
    }
    *created = !change.found;
    *ret = change.row;
    return 0;
}

int operations_template_get(struct operations *operations, const struct caller *caller, const char *id,
                            struct template_row *ret, struct error *err)
{
    (void)caller;
    if (require_ready(operations, err) != 0 || check_id(id, "templateID", err) != 0)
        return -1;
    auto_view struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    int found = store_template_get(view, id, ret, err);
    if (found == 0)
        return error_set(err, REASON_TEMPLATE_NOT_FOUND, "there is no template %s", id);
    return found > 0 ? 0 : -1;
}

static int write_delete(struct store_txn *txn, void *argument, struct error *err)
{
    struct template_change *change = argument;
    struct store_view *view = store_txn_view(txn);
    if (load(change, view, err) != 0)
        return -1;
    if (!change->found)
        return error_set(err, REASON_TEMPLATE_NOT_FOUND, "there is no template %s", change->id);
    int used = store_template_in_use(view, change->id, err);
    if (used < 0)
        return -1;
    if (used > 0)
        return error_set(err, REASON_TEMPLATE_IN_USE, "template %s has sandboxes; delete them first",
                         change->id);
    if (store_template_delete(txn, change->id, err) != 0)
        return -1;
    return store_event_add(txn, "template.deleted", "template", change->id, NULL, err);
}

int operations_template_delete(struct operations *operations, const struct caller *caller, const char *id,
                               struct error *err)
{
    if (require_ready(operations, err) != 0 || check_id(id, "templateID", err) != 0)
        return -1;
    struct template_change change = {.caller = caller, .id = id};
    char who[WHO_SIZE];
    describe_caller(caller, who);
    struct store_actor actor = make_actor(caller, who, OPERATION_TEMPLATE_DELETE, id, "ok");
    int done = store_write(operations->config.store, &actor, write_delete, &change, err);
    template_row_clear(&change.row);
    return done;
}

static size_t annotation_bytes(const struct template_row *rows, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(rows[i].annotations);
    return bytes;
}

int operations_template_list(struct operations *operations, const struct caller *caller,
                             const struct page_request *page, struct template_row **ret, size_t *count,
                             char next_token[PAGE_TOKEN_SIZE], struct error *err)
{
    (void)caller;
    size_t limit = 0;
    char after_id[ID_SIZE];
    if (require_ready(operations, err) != 0 ||
        page_begin(&operations->config.limits, page, PAGE_TEMPLATES, &limit, after_id, err) != 0)
        return -1;
    auto_view struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    /* One row more than asked for tells whether there is another page. */
    if (store_template_list(view, after_id, limit + 1, ret, count, err) != 0)
        return -1;
    next_token[0] = '\0';
    bool more = annotation_bytes(*ret, *count) >= TEMPLATE_PAGE_BYTES; /* there may be */
    if (*count > limit) {
        more = true;
        *count = limit;
        template_row_clear(&(*ret)[limit]);
    }
    if (more)
        page_token_make(PAGE_TEMPLATES, (*ret)[*count - 1].id, next_token);
    return 0;
}
