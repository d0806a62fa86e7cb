/* The thread that keeps a dataplane, and keeps it as the store wants it.
 *
 * It connects to a dataplane that listens, or starts one when links are wanted and none does; compares what
 * it has with the store (reconcile.c); and finishes what is half done (delete.c). It is woken by the end of
 * the connection, by the end of a dataplane that it has started, by callers that wait for one, and, while
 * there are links, once a second. Without links and without a dataplane it sleeps for good.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/links/internal.h"

enum {
    PROTOCOL_VERSION = 1,
    HELLO_MS = 2000,
    STARTING_MS = 10,   /* between looks whether the one that was started listens */
    STARTED_MS = 10000, /* so long it may take until it does */
    GRACE_MS = 300,     /* for whoever else runs one to start it again */
    AGAIN_MS = 50,      /* what was busy is tried again */
    TICK_MS = 1000,
    RECONCILE_MS = 30000 /* so often all is compared, whatever happened */
};

static const int64_t ms_ns = 1000000;

void keeper_wake(struct links *links)
{
    (void)eventfd_write(links->wake_fd, 1);
}

static bool is_stopping(const struct links *links)
{
    return atomic_load(&links->stopping);
}

/* ---- the connection ---- */

/* Why there is no connection, and that nothing more can be done about it now. */
static void give_up_for_now(struct links *links, const struct error *why)
{
    (void)pthread_mutex_lock(&links->lock);
    set_reason(links, why->detail);
    links->attempts++;
    (void)pthread_cond_broadcast(&links->change);
    (void)pthread_mutex_unlock(&links->lock);
    if (!links->failing)
        log_write(links->config.log, LOG_LEVEL_WARNING, "there is no dataplane", "detail", why->detail, NULL);
    links->failing = true;
}

static void drop(struct links *links)
{
    (void)pthread_mutex_lock(&links->lock);
    if (links->connected)
        set_reason(links, "the dataplane has closed the connection");
    links->connected = links->report.connected = links->report.started_here = false;
    links->report.pid = 0;
    (void)shutdown(links->client.fd, SHUT_RDWR); /* a call that is under way ends */
    while (links->calling)
        (void)pthread_cond_wait(&links->change, &links->lock);
    client_close(&links->client);
    statistics_unmap(&links->statistics);
    log_write(links->config.log, LOG_LEVEL_WARNING, "the dataplane is gone", "detail", links->report.reason,
              NULL);
    (void)pthread_mutex_unlock(&links->lock);
    metrics_set(links->config.metrics, METRIC_DATAPLANE_UP, 0);
    links->lost_ns = clock_monotonic_ns();
    links->reconciled = false;
}

static int hello(struct client *client, control_response **ret, int *memory, struct error *err)
{
    Chan__Control__V1__Hello call;
    chan__control__v1__hello__init(&call);
    control_request request;
    chan__control__v1__request__init(&request);
    char name[] = "chand " CHAN_VERSION;
    call.version = PROTOCOL_VERSION;
    call.client = name;
    request.call_case = CHAN__CONTROL__V1__REQUEST__CALL_HELLO;
    request.hello = &call;
    auto_response control_response *response = NULL;
    if (client_call(client, &request, NULL, 0, clock_monotonic_ns() + HELLO_MS * ms_ns, &response, memory,
                    err) != 0)
        return -1;
    if (response->code != CHAN__CONTROL__V1__CODE__OK ||
        response->reply_case != CHAN__CONTROL__V1__RESPONSE__REPLY_HELLO) {
        (void)links_refused(response, err);
        return -1;
    }
    if (response->hello->version != PROTOCOL_VERSION)
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE,
                         "the dataplane speaks version %u of the control protocol, and chand %d",
                         response->hello->version, PROTOCOL_VERSION);
    *ret = take_pointer(response);
    return 0;
}

static void install(struct links *links, struct client *client, const control_response *response, int memory)
{
    const Chan__Control__V1__HelloReply *reply = response->hello;
    struct statistics statistics = {.memory = NULL};
    struct error failure = ERROR_INIT;
    if (memory < 0 || statistics_map(memory, &statistics, &failure) != 0)
        log_write(links->config.log, LOG_LEVEL_WARNING, "the dataplane's counters cannot be read", "detail",
                  failure.detail, NULL);
    char pid[16];
    (void)snprintf(pid, sizeof pid, "%u", reply->pid);
    (void)pthread_mutex_lock(&links->lock);
    struct links_report *report = &links->report;
    links->client = *client;
    links->statistics = statistics;
    report->connected = true;
    report->started_here = links->spawn.pid != 0 && reply->pid == (uint32_t)links->spawn.pid;
    report->pid = reply->pid;
    (void)snprintf(report->software, sizeof report->software, "%s", reply->software);
    report->reason[0] = '\0';
    if (links->lost_ns != 0)
        report->reconnects++;
    links->connected = true;
    (void)pthread_cond_broadcast(&links->change);
    (void)pthread_mutex_unlock(&links->lock);
    metrics_set(links->config.metrics, METRIC_DATAPLANE_UP, 1);
    metrics_add(links->config.metrics, METRIC_DATAPLANE_CONNECTIONS, 1);
    log_write(links->config.log, LOG_LEVEL_INFO, "connected to the dataplane", "software", reply->software,
              "instance", reply->instance, "pid", pid, NULL);
    links->spawn.served = true;
    links->failing = false;
}

/* As client_connect. */
static int connect_to_dataplane(struct links *links, struct error *err)
{
    struct client client = CLIENT_INIT;
    const int connected = client_connect(&client, links->socket_path, err);
    if (connected <= 0)
        return connected;
    auto_response control_response *response = NULL;
    auto_close int memory = -1;
    if (hello(&client, &response, &memory, err) != 0) {
        client_close(&client);
        return -1;
    }
    install(links, &client, response, memory);
    return 1;
}

static int start_dataplane(struct links *links, struct error *err)
{
    char log_path[sizeof links->socket_path + sizeof ".log"];
    (void)snprintf(log_path, sizeof log_path, "%s/dataplane.log", links->runtime_directory);
    const struct spawn_config config = {.program = links->program,
                                        .cpus = links->cpus,
                                        .socket_path = links->socket_path,
                                        .log_path = log_path};
    if (spawn_start(&links->spawn, &config, err) != 0)
        return -1;
    char pid[16];
    (void)snprintf(pid, sizeof pid, "%d", (int)links->spawn.pid);
    log_write(links->config.log, LOG_LEVEL_INFO, "started a dataplane", "program", links->program, "pid", pid,
              "log", log_path, NULL);
    metrics_add(links->config.metrics, METRIC_DATAPLANE_STARTS, 1);
    (void)pthread_mutex_lock(&links->lock);
    links->report.starts++;
    (void)pthread_mutex_unlock(&links->lock);
    return 0;
}

static bool is_wanted(struct links *links)
{
    (void)pthread_mutex_lock(&links->lock);
    const bool waiting = links->waiting > 0;
    (void)pthread_mutex_unlock(&links->lock);
    return waiting || atomic_load(&links->may_exist);
}

static void nothing_to_do(struct links *links)
{
    (void)pthread_mutex_lock(&links->lock);
    links->rounds++;
    (void)pthread_cond_broadcast(&links->change);
    (void)pthread_mutex_unlock(&links->lock);
}

/* Nobody listens: starts a dataplane if that is to be done now. How long to wait, in ms; -1: for a wake-up.
 */
static int start_if_wanted(struct links *links, struct error *err)
{
    const int64_t now_ns = clock_monotonic_ns();
    if (links->spawn.pid != 0) {
        if (now_ns - links->spawn.started_ns < STARTED_MS * ms_ns)
            return STARTING_MS;
        give_up_for_now(links, err);
        return TICK_MS;
    }
    if (!is_wanted(links)) {
        nothing_to_do(links);
        return -1;
    }
    if (links->program == NULL) {
        (void)error_wrap(err, "none may be started, and none runs: ");
        give_up_for_now(links, err);
        return TICK_MS;
    }
    if (links->lost_ns != 0 && links->spawn.ended[0] == '\0' && now_ns - links->lost_ns < GRACE_MS * ms_ns)
        return STARTING_MS;
    if (now_ns < links->spawn.not_before_ns) {
        (void)error_set(err, REASON_DATAPLANE_UNAVAILABLE, "%s", links->spawn.ended);
        give_up_for_now(links, err);
        return (int)((links->spawn.not_before_ns - now_ns) / ms_ns) + 1;
    }
    if (start_dataplane(links, err) != 0)
        give_up_for_now(links, err);
    return STARTING_MS;
}

/* How long to wait, in ms; 0: there is a connection. */
static int get_connection(struct links *links)
{
    struct error err = ERROR_INIT;
    const int connected = connect_to_dataplane(links, &err);
    if (connected > 0)
        return 0;
    if (connected == 0)
        return start_if_wanted(links, &err);
    give_up_for_now(links, &err);
    return TICK_MS;
}

/* ---- what is wanted ---- */

/* Are there links? Under the lock, so that one which is being made is either counted or says so itself. */
static void count(struct links *links)
{
    uint64_t counts[LINK_STATE_COUNT];
    auto_view struct store_view *view = NULL;
    (void)pthread_mutex_lock(&links->lock);
    if (store_read_begin(links->config.store, &view, NULL) == 0 && store_count_links(view, counts, NULL) == 0)
        atomic_store(&links->may_exist,
                     counts[LINK_CREATING] + counts[LINK_READY] + counts[LINK_DELETING] > 0);
    (void)pthread_mutex_unlock(&links->lock);
}

static void settle(struct links *links)
{
    struct error err = ERROR_INIT;
    if (links_settle(links, "links", &err) == 0)
        return;
    if (!links->failing)
        log_write(links->config.log, LOG_LEVEL_WARNING, "a link that is half done cannot be settled yet",
                  "detail", err.detail, NULL);
    links->failing = true;
}

/* How long to wait, in ms. */
static int reconcile(struct links *links)
{
    struct error err = ERROR_INIT;
    const int left = links_reconcile(links, &err);
    if (left < 0) {
        if (!links->failing)
            log_write(links->config.log, LOG_LEVEL_WARNING, "the links cannot be compared", "detail",
                      err.detail, NULL);
        links->failing = true;
        return TICK_MS;
    }
    links->reconciled_ns = clock_monotonic_ns();
    links->reconciled = left == 0;
    nothing_to_do(links);
    if (left > 0)
        return AGAIN_MS;
    links->failing = false;
    return TICK_MS;
}

/* ---- the loop ---- */

/* How long to wait, in ms; -1: for a wake-up. */
static int pass(struct links *links)
{
    if (spawn_reap(&links->spawn))
        log_write(links->config.log, LOG_LEVEL_WARNING, links->spawn.ended, NULL);
    (void)pthread_mutex_lock(&links->lock);
    const bool broken = links->client.fd >= 0 && !links->connected;
    const bool connected = links->connected;
    (void)pthread_mutex_unlock(&links->lock);
    if (broken)
        drop(links);
    const int wait_ms = connected ? 0 : get_connection(links);
    if (atomic_load(&links->may_exist)) {
        settle(links);
        count(links);
    }
    if (wait_ms != 0)
        return wait_ms;
    const bool due = clock_monotonic_ns() - links->reconciled_ns > RECONCILE_MS * ms_ns;
    if (!links->reconciled || due)
        return reconcile(links);
    return atomic_load(&links->may_exist) ? TICK_MS : -1;
}

static void wait_for_something(struct links *links, int wait_ms)
{
    struct pollfd pollers[] = {{.fd = links->wake_fd, .events = POLLIN},
                               {.fd = links->client.fd, .events = 0},
                               {.fd = links->spawn.pidfd, .events = POLLIN}};
    if (poll(pollers, sizeof pollers / sizeof pollers[0], wait_ms) <= 0)
        return;
    eventfd_t wakes = 0;
    if (pollers[0].revents != 0)
        (void)eventfd_read(links->wake_fd, &wakes);
    if (pollers[1].revents != 0)
        drop(links);
}

void *keeper_run(void *argument)
{
    struct links *links = argument;
    (void)pthread_setname_np(pthread_self(), "chan-links");
    while (!is_stopping(links))
        wait_for_something(links, pass(links));
    return NULL;
}
