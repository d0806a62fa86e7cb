/* Links that go: deleted, undone, or left half done by a crash. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "daemon/links/internal.h"
#include "daemon/links/sockets.h"

struct removal {
    struct link_row row;
    const char *undone; /* why the creation came to nothing; NULL: a deletion */
};

static int fault_check(const char *name, struct error *err)
{
    const int fault = fault_point(name);
    return fault == 0 ? 0 : error_set_errno(err, REASON_INTERNAL, fault, "the step %s failed", name);
}

static int write_intent(struct store_txn *txn, void *argument, struct error *err)
{
    struct removal *removal = argument;
    removal->row.state = LINK_DELETING;
    if (store_link_update(txn, &removal->row, err) != 0)
        return -1;
    return store_event_add(txn, "link.deleting", "link", removal->row.id, NULL, err);
}

static int write_forgotten(struct store_txn *txn, void *argument, struct error *err)
{
    const struct removal *removal = argument;
    const char *id = removal->row.id;
    if (store_link_delete(txn, id, err) != 0)
        return -1;
    if (removal->undone == NULL)
        return store_event_add(txn, "link.deleted", "link", id, NULL, err);
    char detail[96];
    (void)snprintf(detail, sizeof detail, "{\"reason\":\"%s\"}", removal->undone);
    return store_event_add(txn, "link.create_failed", "link", id, detail, err);
}

int links_delete(struct links *links, const struct link_row *row, const struct store_actor *actor,
                 struct error *err)
{
    struct removal removal = {.row = *row};
    struct store_actor intent = *actor;
    intent.result = "intent";
    if (fault_check("link_delete.before_intent", err) != 0)
        return -1;
    /* Whatever a power cut leaves of a link is removed at the next start, so this need not wait for the disk.
     */
    if (row->state != LINK_DELETING &&
        store_write_intent(links->config.store, &intent, write_intent, &removal, err) != 0)
        return -1;
    if (fault_check("link_delete.after_intent", err) != 0 || links_remove(links, row->id, err) != 0 ||
        fault_check("link_delete.before_forget", err) != 0 ||
        store_write(links->config.store, actor, write_forgotten, &removal, err) != 0)
        return error_wrap(err, "deleting link %s: ", row->id);
    (void)fault_point("link_delete.after_forget"); /* nothing is left that could fail */
    return 0;
}

int links_undo(struct links *links, const struct link_row *row, const char *reason,
               const struct store_actor *actor, struct error *err)
{
    struct removal removal = {.row = *row, .undone = reason};
    if (links_remove(links, row->id, err) != 0)
        return -1;
    return store_write(links->config.store, actor, write_forgotten, &removal, err);
}

/* ---- what is half done ---- */

static int reread(struct links *links, const char *id, struct link_row *row, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(links->config.store, &view, err) != 0)
        return -1;
    return store_link_get(view, id, row, err);
}

static int settle(struct links *links, const char *who, const char *id, struct error *err)
{
    struct link_row row;
    auto_link_lock struct link_lock lock = {.stripe = NULL};
    if (!links_try_lock(links, id, &lock))
        return 0;
    const int found = reread(links, id, &row, err);
    if (found <= 0)
        return found;
    if (fault_check("link_repair.before_link", err) != 0)
        return -1;
    const struct store_actor deletion = {
        .who = who, .operation = "link.delete", .object_id = id, .result = "ok"};
    const struct store_actor undo = {
        .who = who, .operation = "link.put", .object_id = id, .result = "interrupted"};
    int result = 0;
    if (row.state == LINK_DELETING)
        result = links_delete(links, &row, &deletion, err);
    else if (row.state == LINK_CREATING)
        result = links_undo(links, &row, "interrupted", &undo, err);
    if (result == 0)
        (void)fault_point("link_repair.after_link");
    return result;
}

static int list_state(struct links *links, enum link_row_state state, const char *after_id, size_t limit,
                      struct link_row **rows, size_t *count, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(links->config.store, &view, err) != 0)
        return -1;
    return store_link_list_state(view, state, after_id, limit, rows, count, err);
}

static int settle_state(struct links *links, const char *who, enum link_row_state state, struct error *err)
{
    enum { PAGE = 256 };
    char after_id[ID_SIZE] = "";
    size_t count = 0;
    int result = 0;
    do {
        struct link_row *rows = NULL;
        if (list_state(links, state, after_id, PAGE, &rows, &count, err) != 0)
            return -1;
        for (size_t i = 0; i < count; i++)
            if (settle(links, who, rows[i].id, err) != 0)
                result = -1; /* the others are settled all the same */
        if (count > 0)
            memcpy(after_id, rows[count - 1].id, sizeof after_id);
        store_link_list_free(rows, count);
    } while (count == PAGE && !atomic_load(&links->stopping));
    return result;
}

int links_settle(struct links *links, const char *who, struct error *err)
{
    const int deleted = settle_state(links, who, LINK_DELETING, err);
    const int undone = settle_state(links, who, LINK_CREATING, err);
    return deleted != 0 || undone != 0 ? -1 : 0;
}

int links_sweep(struct links *links, struct error *err)
{
    auto_closedir DIR *listing = sockets_list(links->directory_fd, err);
    if (listing == NULL)
        return -1;
    const struct dirent *entry;
    while ((errno = 0, entry = readdir(listing)) != NULL) {
        struct link_row row;
        bool left = false;
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= ID_SIZE)
            continue;
        const int found = reread(links, entry->d_name, &row, err);
        if (found < 0 || (found == 0 && sockets_remove(links->directory_fd, entry->d_name, &left, err) != 0))
            return -1;
    }
    return 0;
}
