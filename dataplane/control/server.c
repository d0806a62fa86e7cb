#include "dataplane/control/server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/control/internal.h"

static const int64_t pause_ns = 100000000;

/* Without a descriptor for it, a client stays in the socket's queue: looked at again a little later. */
static void pause_accepting(struct control_server *server)
{
    loop_remove(server->loop, &server->source);
    loop_timer_set(server->loop, &server->pause, clock_monotonic_ns() + pause_ns);
}

static void on_pause_over(struct loop_timer *timer)
{
    struct control_server *server =
        (struct control_server *)(void *)((char *)timer - offsetof(struct control_server, pause));
    if (loop_add(server->loop, &server->source, EPOLLIN, NULL) != 0)
        loop_timer_set(server->loop, timer, clock_monotonic_ns() + pause_ns);
}

static void on_connection(struct loop_source *source, uint32_t events)
{
    (void)events;
    struct control_server *server = (struct control_server *)source;
    auto_close int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            pause_accepting(server);
        return;
    }
    if (server->client_count == CONTROL_CLIENTS_MAX) {
        log_write(server->log, LOG_LEVEL_DEBUG, "control client turned away", "why",
                  "there are too many already", NULL);
        return;
    }
    struct error err = ERROR_INIT;
    struct control_client *client = NULL;
    if (control_client_new(server, take_fd(&fd), &client, &err) != 0) {
        log_write(server->log, LOG_LEVEL_DEBUG, "control client turned away", "why", err.detail, NULL);
        return;
    }
    server->clients[server->client_count++] = client;
}

int control_server_new(int listening, struct control_loop *loop, struct requests *requests,
                       const struct log *log, struct control_server **ret, struct error *err)
{
    auto_free struct control_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making the control server: out of memory");
    server->source = (struct loop_source){.ready = on_connection, .fd = listening};
    server->pause.expired = on_pause_over;
    server->loop = loop;
    server->requests = requests;
    server->log = log;
    if (loop_add(loop, &server->source, EPOLLIN, err) != 0)
        return -1;
    *ret = take_pointer(server);
    return 0;
}

unsigned control_server_clients(const struct control_server *server)
{
    return server->client_count;
}

void control_server_drop(struct control_server *server, struct control_client *client, const char *why)
{
    log_write(server->log, LOG_LEVEL_DEBUG, "control client gone", "name", client->requester.name, "pid",
              client->pid, "why", why, NULL);
    for (unsigned i = 0; i < server->client_count; i++) {
        if (server->clients[i] == client) {
            server->clients[i] = server->clients[--server->client_count];
            break;
        }
    }
    control_client_free(client);
}

void control_server_free(struct control_server *server)
{
    if (server == NULL)
        return;
    while (server->client_count > 0)
        control_client_free(server->clients[--server->client_count]);
    loop_timer_clear(server->loop, &server->pause);
    loop_remove(server->loop, &server->source);
    free(server);
}
