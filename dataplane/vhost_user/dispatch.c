/* From a message to its handler, and the acknowledgement. */
#include "dataplane/vhost_user/dispatch.h"

#include <stdio.h>

struct row {
    const char *name;
    int (*handle)(struct vhost_user_end *end, struct message *message, struct error *err);
    uint32_t size_from, size_to;
    unsigned descriptors_from, descriptors_to;
    bool answers; /* itself */
};

static const struct row rows[] = {
#define MESSAGE(id, name, handler, size_from, size_to, descriptors_from, descriptors_to, answers)            \
    [id] = {#name, handle_##handler, size_from, size_to, descriptors_from, descriptors_to, answers},
    VHOST_USER_MESSAGES(MESSAGE)
#undef MESSAGE
};

static const struct row *find_row(uint32_t id)
{
    if (id >= sizeof rows / sizeof rows[0] || rows[id].handle == NULL)
        return NULL;
    return &rows[id];
}

static int handle(struct vhost_user_end *end, const struct row *row, struct message *message,
                  struct error *err)
{
    if (row == NULL)
        return error_set(err, REASON_INVALID_REQUEST, "message %u is unknown or was not offered",
                         message->header.id);
    if (message->header.size < row->size_from || message->header.size > row->size_to)
        return error_set(err, REASON_INVALID_REQUEST, "%s has %u bytes", row->name, message->header.size);
    if (message->descriptor_count < row->descriptors_from || message->descriptor_count > row->descriptors_to)
        return error_set(err, REASON_INVALID_REQUEST, "%s came with %u descriptors", row->name,
                         message->descriptor_count);
    if (row->handle(end, message, err) != 0)
        return error_wrap(err, "%s: ", row->name);
    return 0;
}

int reply(struct vhost_user_end *end, const void *payload, size_t size, struct error *err)
{
    struct session *session = &end->session;
    return output_reply(&session->output, session->socket.fd, session->receiver.message.header.id, payload,
                        size, err);
}

int reply_number(struct vhost_user_end *end, uint64_t number, struct error *err)
{
    return reply(end, &number, sizeof number, err);
}

int dispatch(struct vhost_user_end *end, struct error *err)
{
    struct session *session = &end->session;
    struct message *message = &session->receiver.message;
    const struct row *row = find_row(message->header.id);
    const int result = handle(end, row, message, err);
    standby_choose(end);                /* before the acknowledgement: it says that the worker has switched */
    message_close_descriptors(message); /* before the answer, so that whoever has it finds them closed */
    /* Without the flag there is no other way to say no than to hang up. */
    const bool acknowledge = (message->header.flags & VHOST_USER_NEED_REPLY) != 0;
    if (row != NULL && row->answers)
        return result;
    if (!acknowledge)
        return result;
    if (result != 0)
        (void)snprintf(session->refusal, sizeof session->refusal, "%.*s", END_REASON_SIZE - 1, err->detail);
    return reply_number(end, result == 0 ? 0 : 1, err);
}
