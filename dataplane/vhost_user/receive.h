/* Messages off a socket that never blocks: header, payload and descriptors, in whatever pieces they come. */
#ifndef CHAN_DATAPLANE_VHOST_USER_RECEIVE_H
#define CHAN_DATAPLANE_VHOST_USER_RECEIVE_H

#include <stddef.h>

#include "base/error.h"
#include "dataplane/vhost_user/messages.h"

struct receiver {
    struct message message;
    size_t received; /* bytes of header and payload */
};

enum receive_result {
    RECEIVE_MORE,    /* the rest of the message has not come yet */
    RECEIVE_MESSAGE, /* receiver->message is whole; call receiver_done when it was handled */
    RECEIVE_CLOSED,  /* the other side is gone */
    RECEIVE_ERROR    /* err says what; the connection is of no further use */
};

/* Reads what is there, to the end of one message at most. */
enum receive_result receiver_read(struct receiver *receiver, int fd, struct error *err);
/* Closes the message's descriptors that nobody took. */
void message_close_descriptors(struct message *message);
/* Does that, and makes ready for the next message. Also at the end of
 * a connection, and for a receiver that is all zeros. */
void receiver_done(struct receiver *receiver);

#endif
