#include "dataplane/vhost_user/receive.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"

/* Takes the descriptors that came with a piece. They belong to the first byte of a header (`expected`);
 * anywhere else, or in too large a number, they are closed. */
static int take_descriptors(struct message *message, struct msghdr *piece, bool expected, struct error *err)
{
    bool surplus = false;
    for (struct cmsghdr *control = CMSG_FIRSTHDR(piece); control != NULL;
         control = CMSG_NXTHDR(piece, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
            if (expected && message->descriptor_count < VHOST_USER_DESCRIPTORS_MAX) {
                message->descriptors[message->descriptor_count++] = fd;
            } else {
                surplus = true;
                cleanup_close(&fd);
            }
        }
    }
    if ((piece->msg_flags & MSG_CTRUNC) != 0)
        return error_set(err, REASON_RESOURCE_LIMIT,
                         "descriptors of a message were lost: this process has no room for more");
    if (surplus)
        return error_set(err, REASON_INVALID_REQUEST, "descriptors came where none belong");
    return 0;
}

/* Reads up to `length` bytes. Returns how many, 0 if there are none now, -1 for an error, -2 at the end. */
static ssize_t read_piece(struct message *message, int fd, void *to, size_t length, bool header,
                          struct error *err)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(VHOST_USER_DESCRIPTORS_MAX * sizeof(int))];
    struct iovec where = {.iov_base = to, .iov_len = length};
    struct msghdr piece = {
        .msg_iov = &where, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t count = -1;
    do {
        count = recvmsg(fd, &piece, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        return errno == ECONNRESET ? -2 : error_set_errno(err, REASON_INTERNAL, errno, "reading its socket");
    }
    if (take_descriptors(message, &piece, header, err) != 0)
        return -1;
    return count == 0 ? -2 : count;
}

static int check_header(const struct wire_header *header, struct error *err)
{
    if ((header->flags & VHOST_USER_VERSION_MASK) != VHOST_USER_VERSION)
        return error_set(err, REASON_INVALID_REQUEST, "message %u is of version %u, not %d", header->id,
                         header->flags & VHOST_USER_VERSION_MASK, VHOST_USER_VERSION);
    if ((header->flags & VHOST_USER_REPLY) != 0)
        return error_set(err, REASON_INVALID_REQUEST, "message %u is an answer, which nobody asked for",
                         header->id);
    if (header->size > VHOST_USER_PAYLOAD_MAX)
        return error_set(err, REASON_INVALID_REQUEST, "message %u announces %u bytes; no message has so many",
                         header->id, header->size);
    return 0;
}

enum receive_result receiver_read(struct receiver *receiver, int fd, struct error *err)
{
    struct message *message = &receiver->message;
    const size_t header_size = sizeof message->header;
    for (;;) {
        const bool header = receiver->received < header_size;
        const size_t end = header ? header_size : header_size + message->header.size;
        if (!header && receiver->received == end)
            return RECEIVE_MESSAGE;
        uint8_t *to = header ? (uint8_t *)&message->header + receiver->received
                             : message->payload.bytes + (receiver->received - header_size);
        const ssize_t count = read_piece(message, fd, to, end - receiver->received, header, err);
        if (count <= 0)
            return count == 0 ? RECEIVE_MORE : count == -1 ? RECEIVE_ERROR : RECEIVE_CLOSED;
        receiver->received += (size_t)count;
        if (header && receiver->received == header_size && check_header(&message->header, err) != 0)
            return RECEIVE_ERROR;
    }
}

void message_close_descriptors(struct message *message)
{
    for (unsigned i = 0; i < message->descriptor_count; i++)
        cleanup_close(&message->descriptors[i]);
    message->descriptor_count = 0;
}

void receiver_done(struct receiver *receiver)
{
    message_close_descriptors(&receiver->message);
    receiver->received = 0;
}
