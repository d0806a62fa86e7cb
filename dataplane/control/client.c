/* One client of the control socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "dataplane/control/internal.h"

/* ---- answers ---- */

/* 1: sent, 0: the socket is full, -1: the client is gone. */
static int send_answer(int fd, const struct response_packet *answer)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec piece = {.iov_base = answer->bytes, .iov_len = answer->size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (answer->descriptor >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &answer->descriptor, sizeof(int));
    }
    if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        return 1;
    return errno == EAGAIN ? 0 : -1;
}

/* Sends what waits, as far as the socket takes it; an error says why the client is of no use any more. */
static int flush(struct control_client *client, struct error *err)
{
    while (client->waiting > 0) {
        struct response_packet *answer = &client->answers[client->first];
        const int sent = send_answer(client->source.fd, answer);
        if (sent < 0)
            return error_set_errno(err, REASON_SOCKET_FAILED, errno, "it cannot be answered");
        if (sent == 0)
            break;
        const bool disconnect = answer->disconnect;
        free(answer->bytes);
        client->first = (client->first + 1) % CONTROL_ANSWERS_MAX;
        client->waiting--;
        if (disconnect)
            return error_set(err, REASON_INVALID_REQUEST, "it does not speak the protocol");
    }
    const bool stuck = client->waiting > 0;
    if (stuck == client->stuck)
        return 0;
    client->stuck = stuck;
    return loop_change(client->server->loop, &client->source, stuck ? EPOLLIN | EPOLLOUT : EPOLLIN, err);
}

/* ---- requests ---- */

/* Keeps at most CONTROL_DESCRIPTORS_MAX descriptors; the room in `control` is for no more, so that the kernel
 * drops what is beyond. */
static void take_descriptors(struct msghdr *message, struct request_packet *packet)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            if (packet->descriptor_count < CONTROL_DESCRIPTORS_MAX)
                packet->descriptors[packet->descriptor_count++] = fd;
            else
                cleanup_close(&fd);
        }
    }
}

/* 1: a packet came, 0: none, -1: the client is gone. */
static int receive(struct control_client *client, struct request_packet *packet)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(CONTROL_DESCRIPTORS_MAX * sizeof(int))];
    } control;
    struct control_server *server = client->server;
    struct iovec piece = {.iov_base = server->packet, .iov_len = sizeof server->packet};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    const ssize_t size = recvmsg(client->source.fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    *packet = (struct request_packet){
        .bytes = server->packet, .size = (size_t)size, .truncated = (message.msg_flags & MSG_TRUNC) != 0};
    take_descriptors(&message, packet);
    /* An empty packet looks the same as the end of the connection, and is no request either. */
    if (size == 0) {
        for (unsigned i = 0; i < packet->descriptor_count; i++)
            cleanup_close(&packet->descriptors[i]);
        return -1;
    }
    return 1;
}

static int answer_one(struct control_client *client, struct error *err)
{
    struct request_packet packet;
    const int received = receive(client, &packet);
    if (received < 0)
        return error_set(err, REASON_NONE, "it left");
    if (received == 0)
        return 0;
    struct control_server *server = client->server;
    const bool greeted = client->requester.greeted;
    struct response_packet response = {.descriptor = -1};
    if (requests_answer(server->requests, &client->requester, &packet, &response, err) != 0)
        return -1;
    if (!greeted && client->requester.greeted)
        log_write(server->log, LOG_LEVEL_INFO, "control client", "name", client->requester.name, "pid",
                  client->pid, "uid", client->uid, NULL);
    if (client->waiting == CONTROL_ANSWERS_MAX) {
        free(response.bytes);
        return error_set(err, REASON_RESOURCE_LIMIT, "it does not read its answers");
    }
    client->answers[(client->first + client->waiting++) % CONTROL_ANSWERS_MAX] = response;
    return flush(client, err);
}

static void on_ready(struct loop_source *source, uint32_t events)
{
    struct control_client *client = (struct control_client *)source;
    struct error err = ERROR_INIT;
    if (((events & EPOLLOUT) != 0 && flush(client, &err) != 0) ||
        ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && answer_one(client, &err) != 0))
        control_server_drop(client->server, client, err.detail);
}

/* ---- coming and going ---- */

int control_client_new(struct control_server *server, int fd, struct control_client **ret, struct error *err)
{
    auto_close int connection = fd;
    auto_free struct control_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "out of memory");
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "asking who connects");
    (void)snprintf(client->pid, sizeof client->pid, "%d", (int)peer.pid);
    (void)snprintf(client->uid, sizeof client->uid, "%u", (unsigned)peer.uid);
    client->server = server;
    client->source = (struct loop_source){.ready = on_ready, .fd = connection};
    if (loop_add(server->loop, &client->source, EPOLLIN, err) != 0)
        return -1;
    (void)take_fd(&connection);
    *ret = take_pointer(client);
    return 0;
}

void control_client_free(struct control_client *client)
{
    loop_remove(client->server->loop, &client->source);
    cleanup_close(&client->source.fd);
    for (; client->waiting > 0; client->waiting--) {
        free(client->answers[client->first].bytes);
        client->first = (client->first + 1) % CONTROL_ANSWERS_MAX;
    }
    free(client);
}
