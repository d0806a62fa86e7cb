/* Links: checked, made, read, listed and deleted. What belongs to one outside of the store (directories,
 * sockets, the dataplane's link) is daemon/links' to make and to remove.
 *
 * One unit of the store records the intent (state creating), with every check that needs the store; then the
 * sockets and the dataplane's link are made; then a second unit says that the link is ready. A crash in
 * between is undone at the next start. Directories that no row explains and links that only the dataplane
 * knows go then too, so the intent need not be on disk before them. All of it under the link's lock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "daemon/operations/internal.h"

struct link_creation {
    struct operations *operations;
    const struct caller *caller;
    const char *who;
    struct link_row wanted; /* what the request asks for */
    struct link_row row;    /* as written, or the one that exists */
    bool exists;
};

/* ---- fields ---- */

enum { FIELD_SIZE = 40, MTU_MIN = 68, MTU_MAX = 65535 };

static void field_of(unsigned end, const char *name, char out[FIELD_SIZE])
{
    (void)snprintf(out, FIELD_SIZE, "ends[%u].%s", end, name);
}

static void check_socket_path(const struct link_end_spec *spec, const char *field, struct link_end_row *ret,
                              struct error *fields)
{
    if (ret->role == LINK_ROLE_SERVER) {
        if (spec->socket_path != NULL)
            (void)error_field(fields, REASON_INVALID_FIELD, field,
                              "is for the role client; a server's socket is named by the daemon");
        return;
    }
    const size_t length = spec->socket_path != NULL ? strlen(spec->socket_path) : 0;
    if (length == 0)
        (void)error_field(fields, REASON_INVALID_FIELD, field, "is required with the role client");
    else if (spec->socket_path[0] != '/')
        (void)error_field(fields, REASON_INVALID_FIELD, field, "must be an absolute path");
    else if (length >= sizeof ret->socket_path)
        (void)error_field(fields, REASON_INVALID_FIELD, field,
                          "has %zu bytes; a unix socket's path has at most %zu", length,
                          sizeof ret->socket_path - 1);
    else
        memcpy(ret->socket_path, spec->socket_path, length + 1);
}

static void check_end(unsigned end, const struct link_end_spec *spec, struct link_end_row *ret,
                      struct error *fields)
{
    static const char vhost_user[] = "vhost-user";
    char field[FIELD_SIZE];
    struct error id_fault = ERROR_INIT;
    memcpy(ret->type, vhost_user, sizeof vhost_user);
    field_of(end, "type", field);
    if (spec->type != NULL && strcmp(spec->type, vhost_user) != 0)
        (void)error_field(fields, REASON_INVALID_FIELD, field, "must be \"%s\"", vhost_user);
    field_of(end, "sandboxID", field);
    if (spec->sandbox_id != NULL && check_id(spec->sandbox_id, "sandboxID", &id_fault) != 0)
        (void)error_field(fields, REASON_INVALID_FIELD, field, "%s", id_fault.detail);
    else if (spec->sandbox_id != NULL)
        memcpy(ret->sandbox_id, spec->sandbox_id, strlen(spec->sandbox_id) + 1);
    field_of(end, "role", field);
    if (spec->role != NULL && strcmp(spec->role, link_role_word(LINK_ROLE_CLIENT)) == 0)
        ret->role = LINK_ROLE_CLIENT;
    else if (spec->role != NULL && strcmp(spec->role, link_role_word(LINK_ROLE_SERVER)) != 0)
        (void)error_field(fields, REASON_INVALID_FIELD, field, "must be \"server\" or \"client\"");
    field_of(end, "socketPath", field);
    check_socket_path(spec, field, ret, fields);
    field_of(end, "mtu", field);
    if (spec->has_mtu && (spec->mtu < MTU_MIN || spec->mtu > MTU_MAX))
        (void)error_field(fields, REASON_INVALID_FIELD, field, "must be %d to %d", MTU_MIN, MTU_MAX);
    else if (spec->has_mtu)
        ret->mtu = (uint32_t)spec->mtu;
}

static int check_link(struct link_creation *creation, const char *id, const struct link_spec *spec,
                      struct error *err)
{
    struct operations *operations = creation->operations;
    struct link_row *wanted = &creation->wanted;
    struct error fields = ERROR_INIT;
    memcpy(wanted->id, id, strlen(id) + 1);
    const struct sandbox_spec by_default = {.template_id = NULL};
    check_file_owner(operations, creation->caller, &by_default, &wanted->uid, &wanted->gid, &fields);
    if (spec->end_count != 2) {
        (void)error_field(&fields, REASON_INVALID_FIELD, "ends", "must be two, not %zu", spec->end_count);
        return error_hand_over(err, &fields);
    }
    for (unsigned end = 0; end < 2; end++)
        check_end(end, &spec->ends[end], &wanted->ends[end], &fields);
    if (wanted->ends[0].socket_path[0] != '\0' &&
        strcmp(wanted->ends[0].socket_path, wanted->ends[1].socket_path) == 0)
        (void)error_field(&fields, REASON_INVALID_FIELD, "ends[1].socketPath", "is the other end's too");
    if (fields.reason != REASON_NONE)
        return error_hand_over(err, &fields);
    char path[LINK_SOCKET_PATH_SIZE];
    for (unsigned end = 0; end < 2; end++)
        if (wanted->ends[end].role == LINK_ROLE_SERVER &&
            links_socket_path(operations->config.links, id, end, path, err) != 0)
            return -1;
    return 0;
}

/* ---- the link that exists ---- */

static bool same_end(const struct link_end_row *a, const struct link_end_row *b)
{
    return strcmp(a->type, b->type) == 0 && strcmp(a->sandbox_id, b->sandbox_id) == 0 && a->role == b->role &&
           strcmp(a->socket_path, b->socket_path) == 0 && a->mtu == b->mtu;
}

/* Is there a directory that belongs to the one who asked, and not to a sandbox's user? */
static bool has_callers_directory(const struct link_row *row)
{
    for (unsigned end = 0; end < 2; end++)
        if (row->ends[end].role == LINK_ROLE_SERVER && row->ends[end].sandbox_id[0] == '\0')
            return true;
    return false;
}

static int answer_existing(const struct link_creation *creation, struct error *err)
{
    const struct link_row *row = &creation->row;
    const struct link_row *wanted = &creation->wanted;
    for (unsigned end = 0; end < 2; end++)
        if (!same_end(&row->ends[end], &wanted->ends[end]))
            return error_set(err, REASON_LINK_EXISTS, "link %s exists; its ends[%u] is another one", row->id,
                             end);
    if (has_callers_directory(row) && (row->uid != wanted->uid || row->gid != wanted->gid))
        return error_set(err, REASON_LINK_EXISTS,
                         "link %s exists; its sockets belong to uid %u and gid %u, not to %u and %u", row->id,
                         (unsigned int)row->uid, (unsigned int)row->gid, (unsigned int)wanted->uid,
                         (unsigned int)wanted->gid);
    return 0;
}

/* ---- the units ---- */

enum { DETAIL_SIZE = 2 * ID_SIZE + 32 };

/* Ids need no escapes in JSON. */
static void describe_link(const struct link_row *row, char out[DETAIL_SIZE])
{
    const char *a = row->ends[0].sandbox_id;
    const char *b = row->ends[1].sandbox_id;
    const char *quote_a = a[0] != '\0' ? "\"" : "";
    const char *quote_b = b[0] != '\0' ? "\"" : "";
    (void)snprintf(out, DETAIL_SIZE, "{\"sandboxIDs\":[%s%s%s%s%s%s%s]}", quote_a, a, quote_a,
                   a[0] != '\0' && b[0] != '\0' ? "," : "", quote_b, b, quote_b);
}

static int check_sandbox_of_end(struct store_view *view, const struct link_end_row *end, struct error *err)
{
    if (end->sandbox_id[0] == '\0')
        return 0;
    struct sandbox_row sandbox;
    const int found = store_sandbox_get(view, end->sandbox_id, &sandbox, err);
    if (found < 0)
        return -1;
    if (found == 0)
        return error_set(err, REASON_SANDBOX_NOT_FOUND, "there is no sandbox %s", end->sandbox_id);
    switch (sandbox.state) {
    case SANDBOX_RUNNING:
    case SANDBOX_PAUSED:
        return 0;
    case SANDBOX_ORPHANED:
        return error_set(err, REASON_OWNER_GONE, "the owner of sandbox %s is gone (%s)", sandbox.id,
                         sandbox.reason);
    case SANDBOX_CREATING:
    case SANDBOX_DELETING:
    case SANDBOX_STATE_COUNT:
        break;
    }
    return error_set(err, REASON_SANDBOX_BUSY, "sandbox %s is %s; try again shortly", sandbox.id,
                     sandbox_state_word(sandbox.state));
}

static int write_intent(struct store_txn *txn, void *argument, struct error *err)
{
    struct link_creation *creation = argument;
    struct link_row *row = &creation->row;
    struct store_view *view = store_txn_view(txn);
    const char *id = creation->wanted.id;
    const int found = store_link_get(view, id, row, err);
    if (found < 0)
        return -1;
    creation->exists = false;
    if (check_if_match(creation->caller, "link", id, found > 0, row->revision, err) != 0)
        return -1;
    if (found > 0) {
        creation->exists = true;
        return error_set(err, REASON_LINK_EXISTS, "link %s exists", id);
    }
    *row = creation->wanted;
    row->state = LINK_CREATING;
    char detail[DETAIL_SIZE];
    describe_link(row, detail);
    if (check_sandbox_of_end(view, &row->ends[0], err) != 0 ||
        check_sandbox_of_end(view, &row->ends[1], err) != 0 || store_link_insert(txn, row, err) != 0)
        return -1;
    return store_event_add(txn, "link.creating", "link", id, detail, err);
}

static int write_ready(struct store_txn *txn, void *argument, struct error *err)
{
    struct link_creation *creation = argument;
    struct link_row *row = &creation->row;
    struct link_row now;
    const int found = store_link_get(store_txn_view(txn), row->id, &now, err);
    if (found < 0)
        return -1;
    if (found == 0 || now.state != LINK_CREATING)
        return error_set(err, REASON_SANDBOX_NOT_FOUND,
                         "a sandbox of link %s was deleted while the link was made", row->id);
    row->state = LINK_READY;
    char detail[DETAIL_SIZE];
    describe_link(row, detail);
    if (store_link_update(txn, row, err) != 0)
        return -1;
    return store_event_add(txn, "link.created", "link", row->id, detail, err);
}

/* ---- making ---- */

/* Takes the intent back, so that nothing is left. Should that fail, the links' thread does it later. */
static void give_up(struct link_creation *creation, struct error *cause)
{
    const char *reason = reason_info(cause->reason)->word;
    const struct store_actor actor =
        make_actor(creation->caller, creation->who, OPERATION_LINK_PUT, creation->row.id, reason);
    struct error failure = ERROR_INIT;
    if (fault_check("link_create.before_abort", &failure) != 0 ||
        links_undo(creation->operations->config.links, &creation->row, reason, &actor, &failure) != 0)
        error_add_consequence(cause, "what was begun will be undone later", &failure);
}

/* With the intent written. */
static int make(struct link_creation *creation, struct error *err)
{
    struct operations *operations = creation->operations;
    const struct store_actor actor =
        make_actor(creation->caller, creation->who, OPERATION_LINK_PUT, creation->row.id, "ok");
    struct error failure = ERROR_INIT;
    if (fault_check("link_create.after_intent", &failure) == 0 &&
        links_apply(operations->config.links, &creation->row, &failure) == 0 &&
        fault_check("link_create.before_ready", &failure) == 0 &&
        store_write(operations->config.store, &actor, write_ready, creation, &failure) == 0) {
        (void)fault_point("link_create.after_ready"); /* nothing is left that could fail */
        return 0;
    }
    give_up(creation, &failure);
    return error_hand_over(err, &failure);
}

/* Half made or half deleted, and nobody works on it, as its lock is ours: done now. */
static int clear_away(const struct link_creation *creation, struct error *err)
{
    struct links *links = creation->operations->config.links;
    const struct link_row *row = &creation->row;
    const bool deleting = row->state == LINK_DELETING;
    const struct store_actor actor =
        make_actor(creation->caller, creation->who, deleting ? OPERATION_LINK_DELETE : OPERATION_LINK_PUT,
                   row->id, deleting ? "ok" : "interrupted");
    return deleting ? links_delete(links, row, &actor, err)
                    : links_undo(links, row, "interrupted", &actor, err);
}

/* With the lock held. */
static int put(struct link_creation *creation, bool *created, struct error *err)
{
    struct store *store = creation->operations->config.store;
    const struct store_actor intent =
        make_actor(creation->caller, creation->who, OPERATION_LINK_PUT, creation->wanted.id, "intent");
    if (fault_check("link_create.before_intent", err) != 0)
        return -1;
    for (int attempt = 0; attempt < 2; attempt++) {
        struct error failure = ERROR_INIT;
        if (store_write_intent(store, &intent, write_intent, creation, &failure) == 0) {
            *created = true;
            return make(creation, err);
        }
        if (!creation->exists)
            return error_hand_over(err, &failure);
        if (creation->row.state == LINK_READY) {
            *created = false;
            return answer_existing(creation, err);
        }
        if (clear_away(creation, err) != 0)
            return -1;
    }
    return error_set(err, REASON_LINK_BUSY, "link %s is being changed; try again shortly",
                     creation->wanted.id);
}

static void view_fill(const struct operations *operations, const struct link_row *row, struct link_view *ret)
{
    *ret = (struct link_view){.row = *row};
    links_state(operations->config.links, row, &ret->state);
}

int operations_link_put(struct operations *operations, const struct caller *caller, const char *id,
                        const struct link_spec *spec, struct link_view *ret, bool *created, struct error *err)
{
    if (require_ready(operations, err) != 0 || check_id(id, "linkID", err) != 0)
        return -1;
    char who[WHO_SIZE];
    describe_caller(caller, who);
    struct link_creation creation = {.operations = operations, .caller = caller, .who = who};
    if (check_link(&creation, id, spec, err) != 0)
        return -1;
    auto_link_lock struct link_lock lock = links_lock(operations->config.links, id);
    if (put(&creation, created, err) != 0)
        return -1;
    view_fill(operations, &creation.row, ret);
    return 0;
}

/* ---- reading ---- */

/* 1, 0 when there is none, -1. */
static int read_link(struct operations *operations, const char *id, struct link_row *row, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    return store_link_get(view, id, row, err);
}

int operations_link_get(struct operations *operations, const struct caller *caller, const char *id,
                        struct link_view *ret, struct error *err)
{
    (void)caller;
    if (require_ready(operations, err) != 0 || check_id(id, "linkID", err) != 0)
        return -1;
    struct link_row row;
    const int found = read_link(operations, id, &row, err);
    if (found == 0)
        return error_set(err, REASON_LINK_NOT_FOUND, "there is no link %s", id);
    if (found < 0)
        return -1;
    view_fill(operations, &row, ret);
    return 0;
}

static int read_page(struct operations *operations, const char *sandbox_id, const char *after_id,
                     size_t limit, struct link_row **ret, size_t *count, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    return sandbox_id != NULL ? store_link_list_by_sandbox(view, sandbox_id, after_id, limit, ret, count, err)
                              : store_link_list(view, after_id, limit, ret, count, err);
}

static int make_views(struct operations *operations, const struct link_row *rows, size_t count,
                      struct link_view **ret, struct error *err)
{
    struct link_view *views = calloc(count > 0 ? count : 1, sizeof *views);
    struct link_state *states = calloc(count > 0 ? count : 1, sizeof *states);
    if (views == NULL || states == NULL) {
        free(views);
        free(states);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot hold a page of %zu links", count);
    }
    links_states(operations->config.links, rows, count, states);
    for (size_t i = 0; i < count; i++)
        views[i] = (struct link_view){.row = rows[i], .state = states[i]};
    free(states);
    *ret = views;
    return 0;
}

int operations_link_list(struct operations *operations, const struct caller *caller,
                         const struct page_request *page, const char *sandbox_id, struct link_view **ret,
                         size_t *count, char next_token[PAGE_TOKEN_SIZE], struct error *err)
{
    (void)caller;
    size_t limit = 0;
    char after_id[ID_SIZE];
    if (require_ready(operations, err) != 0 ||
        (sandbox_id != NULL && check_id(sandbox_id, "sandboxID", err) != 0) ||
        page_begin(&operations->config.limits, page, PAGE_LINKS, &limit, after_id, err) != 0)
        return -1;
    struct link_row *rows = NULL;
    size_t found = 0;
    /* One row more than asked for tells whether there is another page. */
    if (read_page(operations, sandbox_id, after_id, limit + 1, &rows, &found, err) != 0)
        return -1;
    const size_t shown = found < limit ? found : limit;
    const int made = make_views(operations, rows, shown, ret, err);
    next_token[0] = '\0';
    if (made == 0 && found > limit)
        page_token_make(PAGE_LINKS, rows[limit - 1].id, next_token);
    store_link_list_free(rows, found);
    if (made == 0)
        *count = shown;
    return made;
}

/* ---- deleting ---- */

int operations_link_delete(struct operations *operations, const struct caller *caller, const char *id,
                           struct error *err)
{
    if (require_ready(operations, err) != 0 || check_id(id, "linkID", err) != 0)
        return -1;
    auto_link_lock struct link_lock lock = links_lock(operations->config.links, id);
    struct link_row row = {.revision = 0};
    const int found = read_link(operations, id, &row, err);
    if (found < 0 || check_if_match(caller, "link", id, found > 0, row.revision, err) != 0)
        return -1;
    if (found == 0)
        return error_set(err, REASON_LINK_NOT_FOUND, "there is no link %s", id);
    char who[WHO_SIZE];
    describe_caller(caller, who);
    const struct store_actor actor = make_actor(caller, who, OPERATION_LINK_DELETE, id, "ok");
    return links_delete(operations->config.links, &row, &actor, err);
}

/* Deletes one link that went with its sandbox, unless somebody else has done it. */
static int delete_with_sandbox(struct operations *operations, const struct caller *caller, const char *id,
                               struct error *err)
{
    auto_link_lock struct link_lock lock = links_lock(operations->config.links, id);
    struct link_row row;
    const int found = read_link(operations, id, &row, err);
    if (found <= 0 || row.state != LINK_DELETING)
        return found < 0 ? -1 : 0;
    char who[WHO_SIZE];
    describe_caller(caller, who);
    const struct store_actor actor = make_actor(caller, who, OPERATION_SANDBOX_DELETE, id, "ok");
    return links_delete(operations->config.links, &row, &actor, err);
}

void delete_links_of_sandbox(struct operations *operations, const struct caller *caller,
                             const char *sandbox_id)
{
    enum { PAGE = 64 };
    if (!links_may_exist(operations->config.links))
        return;
    char after_id[ID_SIZE] = "";
    size_t count = 0;
    do {
        struct link_row *rows = NULL;
        if (read_page(operations, sandbox_id, after_id, PAGE, &rows, &count, NULL) != 0)
            return;
        for (size_t i = 0; i < count; i++)
            (void)delete_with_sandbox(operations, caller, rows[i].id, NULL);
        if (count > 0)
            memcpy(after_id, rows[count - 1].id, sizeof after_id);
        store_link_list_free(rows, count);
    } while (count == PAGE);
}
