/* What the kernel offers between two processes: a socket, a pipe. Each message is one write; reads are exact.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/ring/bench.h"

struct state {
    int parent_in, parent_out, child_in, child_out;
    int in, out;
};

static struct state *new_state(void)
{
    struct state *state = allocate(sizeof *state);
    return state;
}

static void *create_stream(size_t message_size)
{
    (void)message_size;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        die("socketpair");
    struct state *state = new_state();
    *state = (struct state){
        .parent_in = pair[0], .parent_out = pair[0], .child_in = pair[1], .child_out = pair[1]};
    return state;
}

static void *create_pipe(size_t message_size)
{
    (void)message_size;
    int to_child[2];
    int from_child[2];
    if (pipe(to_child) < 0 || pipe(from_child) < 0)
        die("pipe");
    struct state *state = new_state();
    *state = (struct state){.parent_in = from_child[0],
                            .parent_out = to_child[1],
                            .child_in = to_child[0],
                            .child_out = from_child[1]};
    return state;
}

static void attach(void *opaque, bool child)
{
    struct state *state = opaque;
    state->in = child ? state->child_in : state->parent_in;
    state->out = child ? state->child_out : state->parent_out;
}

static void send_message(void *opaque, const void *message, size_t size)
{
    const struct state *state = opaque;
    const char *data = message;
    while (size > 0) {
        ssize_t put = write(state->out, data, size);
        if (put < 0 && errno != EINTR)
            die("write");
        if (put > 0) {
            data += put;
            size -= (size_t)put;
        }
    }
}

static void receive_message(void *opaque, void *buffer, size_t size)
{
    const struct state *state = opaque;
    char *data = buffer;
    while (size > 0) {
        ssize_t got = read(state->in, data, size);
        if (got == 0 || (got < 0 && errno != EINTR))
            die("read");
        if (got > 0) {
            data += got;
            size -= (size_t)got;
        }
    }
}

static void detach(void *opaque)
{
    (void)opaque;
}

static void destroy(void *opaque)
{
    struct state *state = opaque;
    (void)close(state->parent_in);
    (void)close(state->child_in);
    if (state->parent_out != state->parent_in) {
        (void)close(state->parent_out);
        (void)close(state->child_out);
    }
    free(state);
}

const struct transport transport_stream = {
    .name = "AF_UNIX stream",
    .create = create_stream,
    .attach = attach,
    .send = send_message,
    .receive = receive_message,
    .detach = detach,
    .destroy = destroy,
};

const struct transport transport_pipe = {
    .name = "pipe",
    .create = create_pipe,
    .attach = attach,
    .send = send_message,
    .receive = receive_message,
    .detach = detach,
    .destroy = destroy,
};
