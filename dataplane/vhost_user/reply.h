/* Answers to a socket that never blocks. A front-end that does not read its answers is not read from either,
 * so that there is never more than one of them to keep. */
#ifndef CHAN_DATAPLANE_VHOST_USER_REPLY_H
#define CHAN_DATAPLANE_VHOST_USER_REPLY_H

#include <stddef.h>

#include "base/error.h"
#include "dataplane/vhost_user/messages.h"

enum { REPLY_PAYLOAD_MAX = 64 };

struct output {
    size_t length, sent;
    uint8_t bytes[sizeof(struct wire_header) + REPLY_PAYLOAD_MAX];
};

/* Writes the answer to a request, as much as the socket takes; nothing may be pending. A payload larger than
 * REPLY_PAYLOAD_MAX is refused. */
int output_reply(struct output *output, int fd, uint32_t id, const void *payload, size_t size,
                 struct error *err);
/* Writes on. */
int output_continue(struct output *output, int fd, struct error *err);
static inline bool output_pending(const struct output *output)
{
    return output->sent < output->length;
}

#endif
