#include "dataplane/vhost_user/reply.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

int output_continue(struct output *output, int fd, struct error *err)
{
    while (output_pending(output)) {
        const ssize_t count = send(fd, output->bytes + output->sent, output->length - output->sent,
                                   MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count >= 0)
            output->sent += (size_t)count;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        else if (errno != EINTR)
            return error_set_errno(err, REASON_INTERNAL, errno, "answering");
    }
    return 0;
}

int output_reply(struct output *output, int fd, uint32_t id, const void *payload, size_t size,
                 struct error *err)
{
    if (output_pending(output) || size > REPLY_PAYLOAD_MAX)
        return error_set(err, REASON_INTERNAL, "no room for an answer");
    const struct wire_header header = {
        .id = id, .flags = VHOST_USER_VERSION | VHOST_USER_REPLY, .size = (uint32_t)size};
    memcpy(output->bytes, &header, sizeof header);
    if (size > 0)
        memcpy(output->bytes + sizeof header, payload, size);
    output->sent = 0;
    output->length = sizeof header + size;
    return output_continue(output, fd, err);
}
