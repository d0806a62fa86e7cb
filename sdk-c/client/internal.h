/* What the files of libchan-client share. */
#ifndef CHAN_CLIENT_INTERNAL_H
#define CHAN_CLIENT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "chan/client.h"

struct call {
    const char *method;
    const char *path;
    const char *body;
    const struct chan_call_options *options;
    bool expect_object; /* a 2xx answer with a body must be a JSON object */
};

/* Makes one call; see chan/client.h for the results. */
int client_perform(struct chan_client *client, const struct call *call, struct chan_reply *reply);

/* Empties the reply and says what went wrong. Returns `result`. */
int reply_fail(struct chan_reply *reply, int result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Takes status, content type and body (malloc'ed; the reply owns it from now on) of a complete answer and
 * judges it: 0, -EREMOTEIO, -EPROTO or -ENOMEM. content_type and request_id may be NULL. */
int reply_judge(struct chan_reply *reply, int status, const char *content_type, const char *request_id,
                char *body, size_t body_bytes, bool expect_object);

#endif
