#include "tests/unit/client/server.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { REQUEST_MAX = 65536 };

struct server {
    char directory[32];
    struct sockaddr_un address;
    int listener, stop;
    const struct answer *answers;
    size_t count;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    int requests, connections;
    char request[REQUEST_MAX];
};

/* Waits for input; 0 when the server shall stop. */
static int wait_input(const struct server *server, int fd)
{
    struct pollfd polls[] = {{.fd = fd, .events = POLLIN}, {.fd = server->stop, .events = POLLIN}};
    (void)poll(polls, 2, -1);
    return polls[1].revents == 0;
}

/* Reads one request, headers and body; 0 when the connection ended or the server shall stop. */
static int read_request(struct server *server, int fd, char *request)
{
    size_t used = 0, wanted = 0;
    while (wanted == 0 || used < wanted) {
        if (!wait_input(server, fd))
            return 0;
        ssize_t got = recv(fd, request + used, REQUEST_MAX - 1 - used, 0);
        if (got <= 0)
            return 0;
        used += (size_t)got;
        request[used] = '\0';
        const char *end = strstr(request, "\r\n\r\n");
        const char *length = strstr(request, "Content-Length: ");
        if (end != NULL)
            wanted = (size_t)(end + 4 - request) +
                     (length == NULL ? 0 : (size_t)strtoul(length + strlen("Content-Length: "), NULL, 10));
    }
    return 1;
}

/* 0 when the client does not listen any more. */
static int send_all(int fd, const char *bytes)
{
    size_t left = strlen(bytes);
    while (left > 0) {
        ssize_t sent = send(fd, bytes, left, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        bytes += sent;
        left -= (size_t)sent;
    }
    return 1;
}

static void serve_connection(struct server *server, int fd, char *request)
{
    while (read_request(server, fd, request)) {
        (void)pthread_mutex_lock(&server->lock);
        size_t turn = (size_t)server->requests++;
        memcpy(server->request, request, strlen(request) + 1);
        (void)pthread_mutex_unlock(&server->lock);
        const struct answer *answer = &server->answers[turn < server->count ? turn : server->count - 1];
        if (answer->silent)
            continue;
        int open = answer->bytes == NULL || send_all(fd, answer->bytes);
        for (size_t i = 0; i < answer->repeat && open; i++)
            open = send_all(fd, answer->filler);
        if (!open || answer->close)
            return;
    }
}

static void *serve(void *context)
{
    struct server *server = context;
    char *request = malloc(REQUEST_MAX);
    while (request != NULL && wait_input(server, server->listener)) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            break;
        (void)pthread_mutex_lock(&server->lock);
        server->connections++;
        (void)pthread_mutex_unlock(&server->lock);
        serve_connection(server, fd, request);
        (void)close(fd);
    }
    free(request);
    return NULL;
}

struct server *server_start(const struct answer *answers, size_t count)
{
    struct server *server = calloc(1, sizeof *server);
    ck_assert_ptr_nonnull(server);
    (void)snprintf(server->directory, sizeof server->directory, "/tmp/chan-client-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(server->directory));
    server->address.sun_family = AF_UNIX;
    (void)snprintf(server->address.sun_path, sizeof server->address.sun_path, "%s/socket", server->directory);
    server->answers = answers;
    server->count = count;
    ck_assert_int_eq(pthread_mutex_init(&server->lock, NULL), 0);
    server->stop = eventfd(0, EFD_CLOEXEC);
    server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(server->stop, 0);
    ck_assert_int_eq(
        bind(server->listener, (const struct sockaddr *)&server->address, sizeof server->address), 0);
    ck_assert_int_eq(listen(server->listener, 8), 0);
    ck_assert_int_eq(pthread_create(&server->thread, NULL, serve, server), 0);
    return server;
}

void server_stop(struct server *server)
{
    ck_assert_int_eq(eventfd_write(server->stop, 1), 0);
    ck_assert_int_eq(pthread_join(server->thread, NULL), 0);
    (void)close(server->listener);
    (void)close(server->stop);
    (void)unlink(server->address.sun_path);
    (void)rmdir(server->directory);
    (void)pthread_mutex_destroy(&server->lock);
    free(server);
}

const char *server_path(const struct server *server)
{
    return server->address.sun_path;
}

static struct server *locked(const struct server *server)
{
    struct server *writable = (struct server *)(uintptr_t)server;
    (void)pthread_mutex_lock(&writable->lock);
    return writable;
}

const char *server_request(const struct server *server)
{
    (void)pthread_mutex_unlock(&locked(server)->lock); /* sees what the thread wrote before it answered */
    return server->request;
}

int server_requests(const struct server *server)
{
    struct server *writable = locked(server);
    int requests = writable->requests;
    (void)pthread_mutex_unlock(&writable->lock);
    return requests;
}

int server_connections(const struct server *server)
{
    struct server *writable = locked(server);
    int connections = writable->connections;
    (void)pthread_mutex_unlock(&writable->lock);
    return connections;
}
