/* A front-end that sends anything: messages with any payload and any descriptors, cut anywhere. Whatever it
 * sends, the session serves on or ends, rings that it has set up are walked, and no descriptor and no memory
 * is left behind. Loop and worker are stand-ins here, so that all happens in one thread.
 *
 * The input is a row of records: id, flags, descriptors, length, payload. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dataplane/vhost_user/internal.h"
#include "dataplane/vhost_user/vhost_user.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GUEST_MEMORY = 64 * 1024, RAW = 255, KINDS = 8, RECORDS_MAX = 64 };
enum { FLAG_NEED_REPLY = 1, FLAG_LYING_SIZE = 2, FLAG_ODD_VERSION = 4, FLAG_CUT = 8 };

static int kinds[KINDS];
static uint8_t *guest;

static void expect(int condition)
{
    if (!condition)
        abort();
}

/* ---- stand-ins ---- */

int loop_add(struct control_loop *loop, struct loop_source *source, uint32_t events, struct error *err)
{
    (void)loop;
    (void)events;
    (void)err;
    expect(!source->added && source->fd >= 0);
    source->added = true;
    return 0;
}

int loop_change(struct control_loop *loop, struct loop_source *source, uint32_t events, struct error *err)
{
    (void)loop;
    (void)events;
    (void)err;
    expect(source->added);
    return 0;
}

void loop_remove(struct control_loop *loop, struct loop_source *source)
{
    (void)loop;
    source->added = false;
}

void loop_timer_set(struct control_loop *loop, struct loop_timer *timer, int64_t at)
{
    (void)loop;
    timer->at = at;
}

void loop_timer_clear(struct control_loop *loop, struct loop_timer *timer)
{
    (void)loop;
    timer->at = 0;
}

void worker_run(struct worker *worker, void (*fn)(void *argument), void *argument)
{
    (void)worker;
    fn(argument);
}

void worker_wake(struct worker_task *task)
{
    (void)task;
}

int worker_watch(struct worker_task *task, int fd, struct error *err)
{
    (void)task;
    (void)err;
    expect(fcntl(fd, F_GETFD) >= 0);
    return 0;
}

void worker_unwatch(struct worker_task *task, int fd)
{
    (void)task;
    expect(fcntl(fd, F_GETFD) >= 0);
}

void worker_write_begin(struct worker_task *task)
{
    (void)task;
}

bool worker_write_end(struct worker_task *task)
{
    (void)task;
    return false;
}

/* ---- the front-end ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    expect(memory_guard_install(NULL) == 0);
    int pipe_fds[2];
    int sockets[2];
    expect(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) == 0);
    expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
    kinds[0] = memfd_create("guest", MFD_CLOEXEC);
    kinds[1] = eventfd(0, EFD_CLOEXEC);
    kinds[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
    kinds[3] = pipe_fds[0];
    kinds[4] = pipe_fds[1];
    kinds[5] = sockets[0];
    kinds[6] = epoll_create1(EPOLL_CLOEXEC);
    kinds[7] = kinds[0];
    expect(ftruncate(kinds[0], GUEST_MEMORY) == 0);
    guest = mmap(NULL, GUEST_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, kinds[0], 0);
    expect(guest != MAP_FAILED);
    return 0;
}

static void send_bytes(int fd, const uint8_t *bytes, size_t size, uint8_t descriptors)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    union {
        const uint8_t *in;
        void *out;
    } from = {.in = bytes};
    struct iovec piece = {.iov_base = from.out, .iov_len = size};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    const unsigned count = descriptors & 7;
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *first = CMSG_FIRSTHDR(&message);
        first->cmsg_level = SOL_SOCKET;
        first->cmsg_type = SCM_RIGHTS;
        first->cmsg_len = CMSG_LEN(count * sizeof(int));
        for (unsigned i = 0; i < count; i++)
            memcpy(CMSG_DATA(first) + i * sizeof(int), &kinds[(descriptors >> 4) % KINDS], sizeof(int));
    }
    (void)sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Lets the session work through what was sent, and reads its answers. */
static void serve(struct vhost_user_end *end, int fd)
{
    uint8_t answers[512];
    for (unsigned i = 0; i < 4 && session_is_open(&end->session); i++) {
        end->session.socket.ready(&end->session.socket, EPOLLIN | EPOLLOUT);
        (void)recv(fd, answers, sizeof answers, MSG_DONTWAIT);
    }
    if (session_is_open(&end->session) && end->session.load.fd >= 0)
        end->session.load.ready(&end->session.load, EPOLLIN);
}

/* A visit of its link, as far as there is one end: what it sends it receives. */
static void visit(struct vhost_user_end *end)
{
    static struct burst burst;
    static struct statistics_direction counters;
    const struct end_operations *operations = end->end.operations;
    const uint32_t sending = operations->sending_pairs(&end->end);
    for (unsigned pair = 0; pair < END_QUEUE_PAIRS; pair++) {
        if ((sending & bit(pair)) == 0)
            continue;
        const unsigned count = operations->pull(&end->end, pair, &burst);
        const unsigned done = count == 0 ? 0 : operations->push(&end->end, pair, &burst, 0, &counters);
        expect(done <= count);
        if (done > 0)
            operations->release(&end->end, pair, done);
    }
    (void)operations->flush(&end->end);
    (void)operations->arm(&end->end, UINT32_MAX, true);
    operations->disarm(&end->end);
    if (session_is_open(&end->session))
        end->session.faults.ready(&end->session.faults, EPOLLIN);
}

static size_t send_record(int fd, const uint8_t *data, size_t size)
{
    uint8_t bytes[sizeof(struct wire_header) + UINT8_MAX];
    const uint8_t flags = data[1];
    const size_t length = data[3] < size - 4 ? data[3] : size - 4;
    size_t total = length;
    if (data[0] == RAW) {
        memcpy(bytes, data + 4, length);
    } else {
        const struct wire_header header = {
            .id = data[0],
            .flags = ((flags & FLAG_ODD_VERSION) != 0 ? flags >> 4 : VHOST_USER_VERSION) |
                     ((flags & FLAG_NEED_REPLY) != 0 ? VHOST_USER_NEED_REPLY : 0),
            .size = (uint32_t)length + ((flags & FLAG_LYING_SIZE) != 0 ? UINT32_C(1) << (flags >> 4) : 0)};
        memcpy(bytes, &header, sizeof header);
        memcpy(bytes + sizeof header, data + 4, length);
        total += sizeof header;
    }
    const size_t cut = (flags & FLAG_CUT) != 0 ? (size_t)(flags >> 4) : 0;
    if (cut > 0 && cut < total) {
        send_bytes(fd, bytes, cut, data[2]);
        send_bytes(fd, bytes + cut, total - cut, 0);
    } else if (total > 0) {
        send_bytes(fd, bytes, total, data[2]);
    }
    return 4 + length;
}

static int lowest_free_descriptor(void)
{
    const int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);
    (void)close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct worker_task task = {.deadline = 0};
    const struct end_specification specification = {.type = "vhost-user", .role = END_CLIENT};
    const int lowest = lowest_free_descriptor();
    struct end *made = NULL;
    int sockets[2];
    memset(guest, 0, GUEST_MEMORY);
    expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
    expect(vhost_user_end_new(&specification, -1, NULL, &task, &made, NULL) == 0);
    struct vhost_user_end *end = vhost_user_end_of(made);
    expect(session_begin(end, sockets[0], NULL) == 0);
    for (unsigned i = 0; i < RECORDS_MAX && size >= 4 && session_is_open(&end->session); i++) {
        const size_t used = send_record(sockets[1], data, size);
        data += used;
        size -= used;
        serve(end, sockets[1]);
        visit(end);
    }
    struct end_status status;
    made->operations->status(made, &status);
    expect(status.reason[0] != '\0' || status.state == END_RUNNING);
    made->operations->destroy(made);
    (void)close(sockets[1]);
    expect(lowest_free_descriptor() == lowest);
    return 0;
}
