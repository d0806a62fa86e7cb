/* One link, outside of the store: sockets and the dataplane's link are made and taken. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "daemon/links/internal.h"
#include "daemon/links/sockets.h"

static int fault_check(const char *name, struct error *err)
{
    const int fault = fault_point(name);
    return fault == 0 ? 0 : error_set_errno(err, REASON_INTERNAL, fault, "the step %s failed", name);
}

int links_socket_path(const struct links *links, const char *id, unsigned end,
                      char path[LINK_SOCKET_PATH_SIZE], struct error *err)
{
    const int length = snprintf(path, LINK_SOCKET_PATH_SIZE, "%s/%s/%s/%u/%s", links->runtime_directory,
                                LINKS_DIRECTORY_NAME, id, end & 1, LINK_SOCKET_NAME);
    if (length >= 0 && length < LINK_SOCKET_PATH_SIZE)
        return 0;
    const int room = LINK_SOCKET_PATH_SIZE - 1 - (length - (int)strlen(id));
    return error_set(err, REASON_INVALID_ID,
                     "linkID is not allowed: with %s the path of its socket would have %d bytes, and a unix "
                     "socket's has at most %d; it may have %d characters on this host",
                     id, length, LINK_SOCKET_PATH_SIZE - 1, room > 0 ? room : 0);
}

void link_end_path(const struct links *links, const struct link_row *row, unsigned end,
                   char path[LINK_SOCKET_PATH_SIZE])
{
    if (row->ends[end].role == LINK_ROLE_CLIENT)
        (void)snprintf(path, LINK_SOCKET_PATH_SIZE, "%s", row->ends[end].socket_path);
    else if (links_socket_path(links, row->id, end, path, NULL) != 0)
        path[0] = '\0'; /* the runtime directory is another one now */
}

/* Who may enter: the sandbox's user, else who made the link. chand itself where it may not give files away.
 */
static int find_owners(struct links *links, const struct link_row *row, struct end_owner owners[2],
                       struct error *err)
{
    const struct end_owner ours = {.uid = geteuid(), .gid = getegid()};
    auto_view struct store_view *view = NULL;
    if (store_read_begin(links->config.store, &view, err) != 0)
        return -1;
    for (unsigned end = 0; end < 2; end++) {
        struct sandbox_row sandbox;
        owners[end] = (struct end_owner){.uid = row->uid, .gid = row->gid};
        const char *id = row->ends[end].sandbox_id;
        const int found = id[0] != '\0' ? store_sandbox_get(view, id, &sandbox, err) : 0;
        if (found < 0)
            return -1;
        if (found > 0)
            owners[end] = (struct end_owner){.uid = sandbox.uid, .gid = sandbox.gid};
        if (ours.uid != 0)
            owners[end] = ours;
    }
    return 0;
}

bool link_is_as_wanted(const struct links *links, const struct link_row *row,
                       const control_link_status *status)
{
    if (status->n_ends != 2)
        return false;
    for (unsigned end = 0; end < 2; end++) {
        const control_end_status *there = status->ends[end];
        const struct link_end_row *wanted = &row->ends[end];
        char path[LINK_SOCKET_PATH_SIZE];
        link_end_path(links, row, end, path);
        const bool is_client = there->role == CHAN__CONTROL__V1__ROLE__CLIENT;
        if (strcmp(there->type, wanted->type) != 0 || is_client != (wanted->role == LINK_ROLE_CLIENT) ||
            strcmp(there->socket_path, path) != 0 || there->mtu != wanted->mtu)
            return false;
    }
    return sockets_present(links->directory_fd, row);
}

int link_take(struct links *links, const char *id, int64_t deadline_ns, struct error *err)
{
    Chan__Control__V1__DeleteLink call;
    chan__control__v1__delete_link__init(&call);
    control_request request;
    chan__control__v1__request__init(&request);
    call.id = (char *)(uintptr_t)id;
    request.call_case = CHAN__CONTROL__V1__REQUEST__CALL_DELETE_LINK;
    request.delete_link = &call;
    auto_response control_response *response = NULL;
    if (links_call(links, &request, NULL, 0, deadline_ns, &response, err) != 0)
        return -1;
    if (response->code == CHAN__CONTROL__V1__CODE__OK ||
        response->code == CHAN__CONTROL__V1__CODE__LINK_NOT_FOUND)
        return 0;
    return links_refused(response, err);
}

/* 1: made. 0: the dataplane has one of that id, and not with these sockets. -1. */
static int give(struct links *links, const struct link_row *row, const int listeners[2], int64_t deadline_ns,
                struct error *err)
{
    char paths[2][LINK_SOCKET_PATH_SIZE];
    control_end_spec specs[2];
    control_end_spec *ends[2] = {&specs[0], &specs[1]};
    int descriptors[2];
    size_t descriptor_count = 0;
    for (unsigned end = 0; end < 2; end++) {
        const struct link_end_row *wanted = &row->ends[end];
        chan__control__v1__end_spec__init(&specs[end]);
        link_end_path(links, row, end, paths[end]);
        specs[end].type = (char *)(uintptr_t)wanted->type;
        specs[end].role = wanted->role == LINK_ROLE_CLIENT ? CHAN__CONTROL__V1__ROLE__CLIENT
                                                           : CHAN__CONTROL__V1__ROLE__SERVER;
        specs[end].socket_path = paths[end];
        specs[end].has_listener = listeners[end] >= 0;
        specs[end].mtu = wanted->mtu;
        if (listeners[end] >= 0)
            descriptors[descriptor_count++] = listeners[end];
    }
    Chan__Control__V1__CreateLink call;
    chan__control__v1__create_link__init(&call);
    control_request request;
    chan__control__v1__request__init(&request);
    call.id = (char *)(uintptr_t)row->id;
    call.n_ends = 2;
    call.ends = ends;
    request.call_case = CHAN__CONTROL__V1__REQUEST__CALL_CREATE_LINK;
    request.create_link = &call;
    auto_response control_response *response = NULL;
    if (links_call(links, &request, descriptors, descriptor_count, deadline_ns, &response, err) != 0)
        return -1;
    if (response->code == CHAN__CONTROL__V1__CODE__LINK_EXISTS)
        return 0;
    if (response->code != CHAN__CONTROL__V1__CODE__OK)
        return links_refused(response, err);
    return response->reply_case == CHAN__CONTROL__V1__RESPONSE__REPLY_CREATE_LINK &&
           response->create_link->created;
}

static int apply(struct links *links, const struct link_row *row, int64_t deadline_ns, struct error *err)
{
    struct end_owner owners[2];
    auto_close int first = -1;
    auto_close int second = -1;
    int listeners[2];
    if (find_owners(links, row, owners, err) != 0 ||
        sockets_make(links->directory_fd, links->runtime_directory, row, owners, listeners, err) != 0)
        return -1;
    first = listeners[0];
    second = listeners[1];
    if (fault_check("link_create.after_sockets", err) != 0)
        return -1;
    int made = give(links, row, listeners, deadline_ns, err);
    if (made == 0) /* one that listens at sockets which are no longer there */
        made = link_take(links, row->id, deadline_ns, err) == 0
                   ? give(links, row, listeners, deadline_ns, err)
                   : -1;
    if (made < 0)
        return -1;
    if (made == 0)
        return error_set(err, REASON_INTERNAL, "the dataplane keeps an older link of that id");
    return fault_check("link_create.after_dataplane", err);
}

int link_give(struct links *links, const struct link_row *row, int64_t deadline_ns, struct error *err)
{
    if (apply(links, row, deadline_ns, err) == 0)
        return 0;
    struct error failure = ERROR_INIT; /* the first one is what is answered */
    (void)links_remove(links, row->id, &failure);
    return error_wrap(err, "making link %s: ", row->id);
}

int links_apply(struct links *links, const struct link_row *row, struct error *err)
{
    const int64_t deadline_ns = call_deadline_ns();
    (void)pthread_mutex_lock(&links->lock);
    atomic_store(&links->may_exist, true);
    (void)pthread_mutex_unlock(&links->lock);
    if (links_await(links, deadline_ns, err) != 0)
        return -1;
    return link_give(links, row, deadline_ns, err);
}

int links_remove(struct links *links, const char *id, struct error *err)
{
    struct error failure = ERROR_INIT;
    bool left = false;
    /* Without a dataplane it goes when there is one again: it then is a link that nobody wants. */
    if (link_take(links, id, call_deadline_ns(), &failure) != 0 &&
        failure.reason != REASON_DATAPLANE_UNAVAILABLE) {
        if (err != NULL)
            *err = failure;
        return -1;
    }
    if (fault_check("link_delete.after_dataplane", err) != 0 ||
        sockets_remove(links->directory_fd, id, &left, err) != 0)
        return -1;
    if (left)
        log_write(links->config.log, LOG_LEVEL_WARNING,
                  "others have put files beside a link's sockets; they stay", "linkID", id, NULL);
    return 0;
}
