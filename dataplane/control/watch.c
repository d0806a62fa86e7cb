#include "dataplane/control/watch.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static const int64_t interval_ns = 1000000000;

const char *watch_state_word(enum end_state state)
{
    switch (state) {
    case END_WAITING:
        return "waiting";
    case END_CONNECTED:
        return "connected";
    case END_RUNNING:
        return "running";
    case END_FAULTED:
        break;
    }
    return "faulted";
}

/* Returns how many lines were written: one or none. */
static unsigned report(const struct log *log, struct link_entry *entry, unsigned index)
{
    struct end_report *last = &entry->reported[index];
    const struct end *end = link_end(entry->link, index);
    struct end_status status;
    end->operations->status(end, &status);
    if (last->made && last->state == status.state && strcmp(last->reason, status.reason) == 0)
        return 0;
    last->made = true;
    last->state = status.state;
    memcpy(last->reason, status.reason, sizeof last->reason);

    char message[32];
    char number[12];
    char pid[12];
    (void)snprintf(message, sizeof message, "end %s", watch_state_word(status.state));
    (void)snprintf(number, sizeof number, "%u", index);
    (void)snprintf(pid, sizeof pid, "%u", status.peer_pid);
    const bool running = status.state == END_RUNNING;
    log_write(log, status.state == END_FAULTED ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, message, "link",
              entry->specification.id, "end", number, "socket", end->specification.socket_path,
              running ? "peer" : "why", running ? pid : status.reason, NULL);
    return 1;
}

unsigned watch_look(struct watch *watch)
{
    const unsigned count = link_table_count(watch->table);
    unsigned lines = 0;
    for (unsigned i = 0; i < count && lines + 2 <= WATCH_LINES_MAX; i++) {
        if (watch->next >= count)
            watch->next = 0;
        struct link_entry *entry = link_table_at(watch->table, watch->next++);
        lines += report(watch->log, entry, 0);
        lines += report(watch->log, entry, 1);
    }
    return lines;
}

static void expired(struct loop_timer *timer)
{
    struct watch *watch = (struct watch *)timer; /* its first member */
    (void)watch_look(watch);
    loop_timer_set(watch->loop, timer, clock_monotonic_ns() + interval_ns);
}

void watch_start(struct watch *watch, struct control_loop *loop, const struct link_table *table,
                 const struct log *log)
{
    *watch = (struct watch){.timer = {.expired = expired}, .loop = loop, .table = table, .log = log};
    expired(&watch->timer);
}

void watch_stop(struct watch *watch)
{
    if (watch->loop != NULL)
        loop_timer_clear(watch->loop, &watch->timer);
}
