#include "api/rest/connections.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "suites.h"

enum { LONG_SECONDS = 3600, PATIENCE_MS = 20000 };

struct pair {
    int ours, theirs;
    struct connection *connection;
};

static struct connections *make(unsigned int limit, unsigned int wait_seconds)
{
    struct connections *connections = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(connections_new(limit, wait_seconds, NULL, &connections, &err) == 0, "%s", err.detail);
    return connections;
}

static void open_pair(struct connections *connections, struct pair *pair)
{
    int fds[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pair->ours = fds[0];
    pair->theirs = fds[1];
    pair->connection = connections_add(connections, fds[0]);
    ck_assert_ptr_nonnull(pair->connection);
}

static void close_pair(struct pair *pair)
{
    connections_remove(pair->connection);
    (void)close(pair->ours);
    (void)close(pair->theirs);
}

/* Was the connection cut, within so many milliseconds? */
static bool is_cut(const struct pair *pair, int milliseconds)
{
    struct pollfd poll_fd = {.fd = pair->theirs, .events = POLLRDHUP};
    return poll(&poll_fd, 1, milliseconds) == 1 && (poll_fd.revents & (POLLRDHUP | POLLHUP)) != 0;
}

START_TEST(the_peer_is_known)
{
    struct connections *connections = make(4, LONG_SECONDS);
    struct pair pair;
    open_pair(connections, &pair);
    ck_assert(pair.connection->has_peer);
    ck_assert_uint_eq(pair.connection->uid, getuid());
    ck_assert_uint_eq(pair.connection->gid, getgid());
    ck_assert_int_eq(pair.connection->pid, getpid());
    close_pair(&pair);
    connections_free(connections);
}
END_TEST

START_TEST(beyond_the_limit_the_longest_waiting_goes)
{
    struct connections *connections = make(3, LONG_SECONDS);
    struct pair pairs[5];
    for (int i = 0; i < 3; i++)
        open_pair(connections, &pairs[i]);
    connection_works(pairs[0].connection); /* the daemon's turn, so it is not to blame */
    connection_waits(pairs[1].connection); /* has just been answered */
    open_pair(connections, &pairs[3]);
    ck_assert(is_cut(&pairs[2], PATIENCE_MS));
    ck_assert(!is_cut(&pairs[0], 0) && !is_cut(&pairs[1], 0) && !is_cut(&pairs[3], 0));
    close_pair(&pairs[2]);
    open_pair(connections, &pairs[4]);
    ck_assert(is_cut(&pairs[1], PATIENCE_MS));
    ck_assert(!is_cut(&pairs[0], 0) && !is_cut(&pairs[3], 0) && !is_cut(&pairs[4], 0));
    close_pair(&pairs[0]);
    close_pair(&pairs[1]);
    close_pair(&pairs[3]);
    close_pair(&pairs[4]);
    connections_free(connections);
}
END_TEST

START_TEST(all_at_work_are_left_alone)
{
    struct connections *connections = make(1, LONG_SECONDS);
    struct pair pairs[3];
    open_pair(connections, &pairs[0]);
    connection_works(pairs[0].connection);
    open_pair(connections, &pairs[1]);
    ck_assert(!is_cut(&pairs[0], 0) && !is_cut(&pairs[1], 0));
    open_pair(connections, &pairs[2]);
    ck_assert(is_cut(&pairs[1], PATIENCE_MS));
    for (int i = 0; i < 3; i++)
        close_pair(&pairs[i]);
    connections_free(connections);
}
END_TEST

START_TEST(waiting_is_bounded_and_work_is_not)
{
    struct connections *connections = make(4, 0);
    struct pair pairs[2];
    open_pair(connections, &pairs[0]);
    ck_assert(is_cut(&pairs[0], PATIENCE_MS));
    /* Once it was cut it is in no list; closing and working still have to be fine. */
    connection_works(pairs[0].connection);
    connection_waits(pairs[0].connection);
    close_pair(&pairs[0]);
    connections_free(connections);

    connections = make(4, 1);
    open_pair(connections, &pairs[0]);
    connection_works(pairs[0].connection);
    open_pair(connections, &pairs[1]);
    ck_assert(is_cut(&pairs[1], PATIENCE_MS));
    ck_assert(!is_cut(&pairs[0], 0)); /* it is the older one, but at work */
    connection_waits(pairs[0].connection);
    ck_assert(is_cut(&pairs[0], PATIENCE_MS));
    close_pair(&pairs[0]);
    close_pair(&pairs[1]);
    connections_free(connections);
}
END_TEST

START_TEST(refusing)
{
    struct connections *connections = make(4, LONG_SECONDS);
    struct pair pairs[2];
    open_pair(connections, &pairs[0]);
    connections_refuse(connections);
    open_pair(connections, &pairs[1]);
    ck_assert(is_cut(&pairs[1], PATIENCE_MS));
    ck_assert(!is_cut(&pairs[0], 0));
    close_pair(&pairs[0]);
    close_pair(&pairs[1]);
    connections_free(connections);
}
END_TEST

TCase *connections_tests(void)
{
    TCase *tests = tcase_create("connections");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, the_peer_is_known);
    tcase_add_test(tests, beyond_the_limit_the_longest_waiting_goes);
    tcase_add_test(tests, all_at_work_are_left_alone);
    tcase_add_test(tests, waiting_is_bounded_and_work_is_not);
    tcase_add_test(tests, refusing);
    return tests;
}
