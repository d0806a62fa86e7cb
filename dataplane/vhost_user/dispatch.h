/* The handlers of the messages, one for each row of VHOST_USER_MESSAGES. The message is that of the session's
 * receiver, of a size and with a number of descriptors that its row allows; what a handler does not take of
 * the descriptors is closed afterwards. -1: the message is refused. */
#ifndef CHAN_DATAPLANE_VHOST_USER_DISPATCH_H
#define CHAN_DATAPLANE_VHOST_USER_DISPATCH_H

#include "dataplane/vhost_user/internal.h"

#define MESSAGE(id, name, handler, ...)                                                                      \
    int handle_##handler(struct vhost_user_end *end, struct message *message, struct error *err);
VHOST_USER_MESSAGES(MESSAGE)
#undef MESSAGE

#endif
