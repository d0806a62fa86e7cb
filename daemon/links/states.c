/* What the dataplane says of links: states by request, counters from its statistics memory. */
#include <stdio.h>
#include <string.h>

#include "daemon/links/internal.h"

static void copy_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text);
}

static void state_unknown(const struct links *links, const struct link_row *row, const char *reason,
                          struct link_state *ret)
{
    *ret = (struct link_state){.known = false};
    for (unsigned end = 0; end < 2; end++) {
        struct link_end_state *state = &ret->ends[end];
        copy_text(state->state, sizeof state->state, "unknown");
        copy_text(state->reason, sizeof state->reason, reason);
        link_end_path(links, row, end, state->socket_path);
    }
}

static void fill(const control_link_status *status, struct link_state *ret)
{
    if (status->n_ends != 2)
        return;
    ret->known = true;
    ret->paused = status->paused;
    ret->worker_cpu = status->worker_cpu;
    for (unsigned end = 0; end < 2; end++) {
        const control_end_status *there = status->ends[end];
        struct link_end_state *state = &ret->ends[end];
        copy_text(state->state, sizeof state->state, there->state);
        copy_text(state->reason, sizeof state->reason, there->reason);
        state->features = there->features;
        state->protocol_features = there->protocol_features;
        state->queue_pairs = there->queue_pairs;
        state->peer_pid = there->peer_pid;
        state->connections = there->connections;
        state->faults = there->faults;
    }
}

static void read_counters(struct links *links, const control_link_status *status, struct link_state *ret)
{
    struct link_counters counters[2];
    (void)pthread_mutex_lock(&links->lock);
    const bool known = statistics_read(&links->statistics, status->slot, status->id, counters);
    (void)pthread_mutex_unlock(&links->lock);
    for (unsigned end = 0; end < 2 && known; end++)
        ret->ends[end].sent = counters[end];
}

/* Fills in the rows that a page of the dataplane's list tells of, and answers how many rows it covers: those
 * up to the page's last id. Both are in the order of their ids. */
static size_t merge(struct links *links, const Chan__Control__V1__ListLinksReply *page,
                    const struct link_row *rows, size_t count, struct link_state *ret)
{
    size_t row = 0;
    for (size_t i = 0; i < page->n_links && row < count; i++) {
        const control_link_status *status = page->links[i];
        while (row < count && strcmp(rows[row].id, status->id) < 0)
            row++;
        if (row < count && strcmp(rows[row].id, status->id) == 0) {
            fill(status, &ret[row]);
            read_counters(links, status, &ret[row]);
            row++;
        }
    }
    return page->more ? row : count;
}

void links_states(struct links *links, const struct link_row *rows, size_t count, struct link_state *ret)
{
    const int64_t deadline_ns = call_deadline_ns();
    struct error failure = ERROR_INIT;
    char reason[LINK_REASON_SIZE] = "the dataplane does not have this link";
    for (size_t i = 0; i < count; i++)
        state_unknown(links, &rows[i], reason, &ret[i]);
    /* A page begins after an id, so the first row is asked for by name; so are rows that lie far apart. */
    size_t done = 0;
    bool dense = false;
    while (done < count) {
        auto_response control_response *response = NULL;
        const char *after_id = dense ? rows[done - 1].id : NULL;
        if (links_list(links, after_id, dense ? NULL : rows[done].id, deadline_ns, &response, &failure) != 0)
            break;
        const size_t covered =
            merge(links, response->list_links, &rows[done], dense ? count - done : 1, &ret[done]);
        done += dense ? covered : 1;
        dense = !dense || covered > 1;
    }
    (void)snprintf(reason, sizeof reason, "%.*s", LINK_REASON_SIZE - 1, failure.detail);
    for (size_t i = done; i < count; i++)
        state_unknown(links, &rows[i], reason, &ret[i]);
}

void links_state(struct links *links, const struct link_row *row, struct link_state *ret)
{
    links_states(links, row, 1, ret);
}
