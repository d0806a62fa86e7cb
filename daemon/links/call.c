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

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

void set_reason(struct links *links, const char *reason)
{
    (void)snprintf(links->report.reason, sizeof links->report.reason, "%.*s", LINK_REASON_SIZE - 1, reason);
}

int links_call(struct links *links, control_request *request, const int *descriptors, size_t descriptor_count,
               int64_t deadline_ns, control_response **ret, struct error *err)
{
    const struct timespec deadline = timespec_of(deadline_ns);
    if (pthread_mutex_clocklock(&links->lock, CLOCK_MONOTONIC, &deadline) != 0)
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane does not answer in time");
    struct error failure = ERROR_INIT;
    int result = -1;
    if (!links->connected)
        (void)error_set(&failure, REASON_DATAPLANE_UNAVAILABLE, "%s", links->report.reason);
    else
        result = client_call(&links->client, request, descriptors, descriptor_count, deadline_ns, ret, NULL,
                             &failure);
    if (links->connected && result != 0) {
        /* The thread sees its end and makes another one. */
        links->connected = false;
        set_reason(links, failure.detail);
        (void)shutdown(links->client.fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&links->lock);
    if (result != 0 && err != NULL)
        *err = failure;
    return result;
}

int links_await(struct links *links, int64_t deadline_ns, struct error *err)
{
    const struct timespec deadline = timespec_of(deadline_ns);
    if (pthread_mutex_clocklock(&links->lock, CLOCK_MONOTONIC, &deadline) != 0)
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane does not answer in time");
    const uint64_t attempts = links->attempts;
    int waited = 0;
    links->waiting++;
    if (!links->connected)
        keeper_wake(links);
    while (!links->connected && links->running && links->attempts == attempts && waited == 0)
        waited = pthread_cond_clockwait(&links->change, &links->lock, CLOCK_MONOTONIC, &deadline);
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
    Chan__Control__V1__ListLinks list = CHAN__CONTROL__V1__LIST_LINKS__INIT;
    control_request request = CHAN__CONTROL__V1__REQUEST__INIT;
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
