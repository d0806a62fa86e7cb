/* Requests to the dataplane, from any thread. */
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "daemon/links/internal.h"

static const int64_t ms_ns = 1000000;

int64_t call_deadline_ns(void)
{
    return clock_monotonic_ns() + LINKS_CALL_MS * ms_ns;
}

void set_reason(struct links *links, const char *reason)
{
    (void)snprintf(links->report.reason, sizeof links->report.reason, "%.*s", LINK_REASON_SIZE - 1, reason);
}

bool links_wait(struct links *links, int64_t deadline_ns)
{
    const struct timespec deadline = {.tv_sec = deadline_ns / 1000000000,
                                      .tv_nsec = deadline_ns % 1000000000};
    return pthread_cond_timedwait(&links->change, &links->lock, &deadline) == 0;
}

/* Takes the connection for one call. */
static int begin(struct links *links, int64_t deadline_ns, struct error *err)
{
    int result = 0;
    (void)pthread_mutex_lock(&links->lock);
    while (links->calling && result == 0)
        if (!links_wait(links, deadline_ns))
            result = error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane does not answer in time");
    if (result == 0 && !links->connected)
        result = error_set(err, REASON_DATAPLANE_UNAVAILABLE, "%s", links->report.reason);
    if (result == 0)
        links->calling = true;
    (void)pthread_mutex_unlock(&links->lock);
    return result;
}

/* failure: why the connection is of no more use, or NULL. The thread sees its end and makes another one. */
static void end(struct links *links, const struct error *failure)
{
    (void)pthread_mutex_lock(&links->lock);
    links->calling = false;
    if (failure != NULL && links->connected) {
        links->connected = false;
        set_reason(links, failure->detail);
        (void)shutdown(links->client.fd, SHUT_RDWR);
    }
    (void)pthread_cond_broadcast(&links->change);
    (void)pthread_mutex_unlock(&links->lock);
}

int links_call(struct links *links, control_request *request, const int *descriptors, size_t descriptor_count,
               int64_t deadline_ns, control_response **ret, struct error *err)
{
    struct error failure = ERROR_INIT;
    if (begin(links, deadline_ns, err) != 0)
        return -1;
    const int result =
        client_call(&links->client, request, descriptors, descriptor_count, deadline_ns, ret, NULL, &failure);
    end(links, result != 0 ? &failure : NULL);
    if (result != 0 && err != NULL)
        *err = failure;
    return result;
}

int links_await(struct links *links, int64_t deadline_ns, struct error *err)
{
    (void)pthread_mutex_lock(&links->lock);
    const uint64_t attempts = links->attempts;
    bool in_time = true;
    links->waiting++;
    if (!links->connected)
        keeper_wake(links);
    while (!links->connected && links->running && links->attempts == attempts && in_time)
        in_time = links_wait(links, deadline_ns);
    links->waiting--;
    const int result = links->connected ? 0
                                        : error_set(err, REASON_DATAPLANE_UNAVAILABLE,
                                                    "there is no dataplane: %s", links->report.reason);
    (void)pthread_mutex_unlock(&links->lock);
    return result;
}

int links_refused(const control_response *response, struct error *err)
{
    enum reason reason = REASON_INTERNAL;
    switch (response->code) {
    case CHAN__CONTROL__V1__CODE__SOCKET_FAILED:
        reason = REASON_SOCKET_FAILED;
        break;
    case CHAN__CONTROL__V1__CODE__RESOURCES:
    case CHAN__CONTROL__V1__CODE__LIMIT_REACHED:
        reason = REASON_RESOURCE_LIMIT;
        break;
    case CHAN__CONTROL__V1__CODE__LINK_EXISTS:
        reason = REASON_LINK_EXISTS;
        break;
    case CHAN__CONTROL__V1__CODE__LINK_NOT_FOUND:
        reason = REASON_LINK_NOT_FOUND;
        break;
    case CHAN__CONTROL__V1__CODE__VERSION_MISMATCH:
        reason = REASON_DATAPLANE_UNAVAILABLE;
        break;
    default:
        break;
    }
    return error_set(err, reason, "the dataplane says: %s", response->detail);
}

int links_list(struct links *links, const char *after_id, const char *only_id, int64_t deadline_ns,
               control_response **ret, struct error *err)
{
    Chan__Control__V1__ListLinks list;
    chan__control__v1__list_links__init(&list);
    control_request request;
    chan__control__v1__request__init(&request);
    list.limit = DATAPLANE_LIST_PAGE;
    /* protobuf-c has no const strings; these are only read. */
    if (after_id != NULL)
        list.after_id = (char *)(uintptr_t)after_id;
    if (only_id != NULL)
        list.only_id = (char *)(uintptr_t)only_id;
    request.call_case = CHAN__CONTROL__V1__REQUEST__CALL_LIST_LINKS;
    request.list_links = &list;
    control_response *response = NULL;
    if (links_call(links, &request, NULL, 0, deadline_ns, &response, err) != 0)
        return -1;
    if (response->code != CHAN__CONTROL__V1__CODE__OK ||
        response->reply_case != CHAN__CONTROL__V1__RESPONSE__REPLY_LIST_LINKS) {
        (void)links_refused(response, err);
        client_response_free(response);
        return -1;
    }
    *ret = response;
    return 0;
}
