#include "daemon/links/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
    PACKET_MAX = 256 * 1024, /* a page of links is below 64 KiB */
    REQUEST_MAX = 8 * 1024
};

int client_connect(struct client *client, const char *path, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (length < 0 || (size_t)length >= sizeof address.sun_path)
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE,
                         "the path of the dataplane's socket is too long: %s", path);
    auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, errno, "cannot make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        const bool absent = errno == ENOENT || errno == ECONNREFUSED;
        (void)error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, errno, "cannot connect to %s", path);
        return absent ? 0 : -1;
    }
    uint8_t *packet = malloc(PACKET_MAX);
    if (packet == NULL)
        return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, ENOMEM, "cannot connect to %s", path);
    *client = (struct client){.fd = take_fd(&fd), .packet = packet};
    return 1;
}

void client_close(struct client *client)
{
    cleanup_close(&client->fd);
    free(client->packet);
    *client = CLIENT_INIT;
}

static int await(const struct client *client, short events, int64_t deadline_ns, struct error *err)
{
    for (;;) {
        const int64_t left_ms = (deadline_ns - clock_monotonic_ns() + 999999) / 1000000;
        struct pollfd poller = {.fd = client->fd, .events = events};
        const int ready = left_ms > 0 ? poll(&poller, 1, (int)left_ms) : 0;
        if (ready > 0)
            return 0;
        if (ready == 0)
            return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane does not answer in time");
        if (errno != EINTR)
            return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, errno, "cannot wait for the dataplane");
    }
}

union control_buffer {
    struct cmsghdr alignment;
    char bytes[CMSG_SPACE(CLIENT_DESCRIPTORS_MAX * sizeof(int))];
};

static int send_packet(const struct client *client, const uint8_t *packet, size_t size,
                       const int *descriptors, size_t descriptor_count, int64_t deadline_ns,
                       struct error *err)
{
    union control_buffer control = {.bytes = {0}};
    struct iovec piece = {.iov_base = (void *)(uintptr_t)packet, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (descriptor_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(descriptor_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptor_count * sizeof(int));
        memcpy(CMSG_DATA(header), descriptors, descriptor_count * sizeof(int));
    }
    while (sendmsg(client->fd, &message, MSG_NOSIGNAL) < 0) {
        if (errno == EAGAIN) {
            if (await(client, POLLOUT, deadline_ns, err) != 0)
                return -1;
        } else if (errno != EINTR) {
            return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, errno, "cannot ask the dataplane");
        }
    }
    return 0;
}

/* Keeps the first descriptor and closes the others. */
static void take_descriptors(struct msghdr *message, int *received)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            if (received != NULL && *received < 0)
                *received = fd;
            else
                cleanup_close(&fd);
        }
    }
}

/* The number of bytes. */
static ssize_t receive_packet(const struct client *client, int64_t deadline_ns, int *received,
                              struct error *err)
{
    for (;;) {
        union control_buffer control;
        struct iovec piece = {.iov_base = client->packet, .iov_len = PACKET_MAX};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        const ssize_t got = recvmsg(client->fd, &message, MSG_CMSG_CLOEXEC);
        if (got > 0) {
            take_descriptors(&message, received);
            if ((message.msg_flags & MSG_TRUNC) != 0)
                return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane's answer is too long");
            return got;
        }
        if (got == 0)
            return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane has closed the connection");
        if (errno == EAGAIN) {
            if (await(client, POLLIN, deadline_ns, err) != 0)
                return -1;
        } else if (errno != EINTR) {
            return error_set_errno(err, REASON_DATAPLANE_UNAVAILABLE, errno, "cannot hear the dataplane");
        }
    }
}

int client_call(struct client *client, control_request *request, const int *descriptors,
                size_t descriptor_count, int64_t deadline_ns, control_response **ret, int *received,
                struct error *err)
{
    uint8_t packet[REQUEST_MAX];
    request->id = ++client->last_id;
    const size_t size = chan__control__v1__request__get_packed_size(request);
    if (size > sizeof packet || descriptor_count > CLIENT_DESCRIPTORS_MAX)
        return error_set(err, REASON_INTERNAL, "a request of %zu bytes to the dataplane is too long", size);
    (void)chan__control__v1__request__pack(request, packet);
    auto_close int descriptor = -1;
    if (send_packet(client, packet, size, descriptors, descriptor_count, deadline_ns, err) != 0)
        return -1;
    const ssize_t got = receive_packet(client, deadline_ns, &descriptor, err);
    if (got < 0)
        return -1;
    control_response *response = chan__control__v1__response__unpack(NULL, (size_t)got, client->packet);
    if (response == NULL || response->id != request->id) {
        client_response_free(response);
        return error_set(err, REASON_DATAPLANE_UNAVAILABLE, "the dataplane's answer cannot be understood");
    }
    if (received != NULL)
        *received = take_fd(&descriptor);
    *ret = response;
    return 0;
}

void client_response_free(control_response *response)
{
    if (response != NULL)
        chan__control__v1__response__free_unpacked(response, NULL);
}
