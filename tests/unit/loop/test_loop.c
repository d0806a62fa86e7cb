/* The event loop: sources, their removal while events are pending, and quitting. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/loop/loop.h"
#include "tests/unit/loop/suites.h"

enum { SOURCES = 100 };

struct counted {
    struct loop_source source; /* first */
    struct control_loop *loop;
    unsigned calls;
    uint32_t events;
    struct counted *removes; /* when it is called: this one is removed */
    bool frees_itself;
};

static void on_ready(struct loop_source *source, uint32_t events)
{
    struct counted *counted = (struct counted *)source;
    counted->calls++;
    counted->events = events;
    if (counted->removes != NULL)
        loop_remove(counted->loop, &counted->removes->source);
    loop_quit(counted->loop);
}

static struct control_loop *make_loop(void)
{
    struct control_loop *loop = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(loop_new(&loop, &err) == 0, "%s", err.detail);
    return loop;
}

static void add(struct control_loop *loop, struct counted *counted, int fd, uint32_t events)
{
    struct error err = ERROR_INIT;
    *counted = (struct counted){.source = {.ready = on_ready, .fd = fd}, .loop = loop};
    ck_assert_msg(loop_add(loop, &counted->source, events, &err) == 0, "%s", err.detail);
    ck_assert(counted->source.added);
}

static void run(struct control_loop *loop)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(loop_run(loop, &err) == 0, "%s", err.detail);
}

static int ready_descriptor(void)
{
    const int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    return fd;
}

START_TEST(test_a_ready_source_is_called_with_its_events)
{
    struct control_loop *loop = make_loop();
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct counted counted;
    add(loop, &counted, pair[0], EPOLLIN);
    ck_assert_int_eq(write(pair[1], "x", 1), 1);
    run(loop);
    ck_assert_uint_eq(counted.events, EPOLLIN);
    /* level-triggered: what was not read is there again */
    run(loop);
    ck_assert_uint_eq(counted.calls, 2);
    (void)close(pair[1]);
    run(loop);
    ck_assert_uint_eq(counted.events, EPOLLIN | EPOLLHUP);
    loop_remove(loop, &counted.source);
    ck_assert(!counted.source.added);
    loop_remove(loop, &counted.source);
    loop_free(loop);
    (void)close(pair[0]);
}
END_TEST

struct quit_timer {
    struct loop_timer timer; /* first */
    struct control_loop *loop;
};

static void quit_on_timer(struct loop_timer *timer)
{
    loop_quit(((struct quit_timer *)timer)->loop);
}

/* Lets the loop go round until everything that was ready has been called. */
static void run_for_a_while(struct control_loop *loop)
{
    struct quit_timer quit = {.timer = {.expired = quit_on_timer}, .loop = loop};
    loop_timer_set(loop, &quit.timer, clock_monotonic_ns() + 20000000);
    run(loop);
}

struct crowd {
    struct counted members[SOURCES];
    unsigned calls;
};
static struct crowd crowd; /* of the test below */

static void on_ready_remove_others(struct loop_source *source, uint32_t events)
{
    struct counted *called = (struct counted *)source;
    (void)events;
    crowd.calls++;
    for (int i = 0; i < SOURCES; i++)
        if (&crowd.members[i] != called)
            loop_remove(called->loop, &crowd.members[i].source);
    loop_remove(called->loop, &called->source);
}

START_TEST(test_a_removed_source_is_not_called_for_what_was_fetched)
{
    struct control_loop *loop = make_loop();
    int fds[SOURCES];
    for (int i = 0; i < SOURCES; i++) {
        fds[i] = ready_descriptor();
        add(loop, &crowd.members[i], fds[i], EPOLLIN);
        crowd.members[i].source.ready = on_ready_remove_others;
    }
    run_for_a_while(loop);
    ck_assert_msg(crowd.calls == 1, "the first that was called removed all, yet %u were called", crowd.calls);
    for (int i = 0; i < SOURCES; i++)
        (void)close(fds[i]);
    loop_free(loop);
}
END_TEST

static void on_ready_free(struct loop_source *source, uint32_t events)
{
    struct counted *counted = (struct counted *)source;
    (void)events;
    struct control_loop *loop = counted->loop;
    loop_remove(loop, source);
    (void)close(source->fd);
    free(counted);
    loop_quit(loop);
}

START_TEST(test_a_source_may_free_itself)
{
    struct control_loop *loop = make_loop();
    struct counted *counted = malloc(sizeof *counted);
    ck_assert_ptr_nonnull(counted);
    add(loop, counted, ready_descriptor(), EPOLLIN);
    counted->source.ready = on_ready_free;
    run(loop);
    loop_free(loop);
}
END_TEST

static void on_ready_replace_other(struct loop_source *source, uint32_t events)
{
    struct counted *counted = (struct counted *)source;
    (void)events;
    counted->calls++;
    if (counted->removes == NULL)
        return;
    /* A new source in the place of the old one, with nothing to read: it must not get the old one's event. */
    struct counted *other = counted->removes;
    loop_remove(counted->loop, &other->source);
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_eq(dup3(fd, other->source.fd, O_CLOEXEC), other->source.fd);
    (void)close(fd);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(loop_add(counted->loop, &other->source, EPOLLIN, &err), 0);
    counted->removes = NULL;
    other->removes = NULL;
}

START_TEST(test_a_source_added_again_does_not_get_an_old_event)
{
    struct control_loop *loop = make_loop();
    auto_close int one_fd = ready_descriptor();
    auto_close int other_fd = ready_descriptor();
    struct counted one, other;
    add(loop, &one, one_fd, EPOLLIN);
    add(loop, &other, other_fd, EPOLLIN);
    one.source.ready = other.source.ready = on_ready_replace_other;
    one.removes = &other;
    other.removes = &one;
    run_for_a_while(loop);
    ck_assert_msg(one.calls == 0 || other.calls == 0, "called %u and %u times", one.calls, other.calls);
    ck_assert_uint_ge(one.calls + other.calls, 1);
    loop_free(loop);
}
END_TEST

static void on_ready_silence_other(struct loop_source *source, uint32_t events)
{
    struct counted *counted = (struct counted *)source;
    (void)events;
    counted->calls++;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(loop_change(counted->loop, &counted->removes->source, 0, &err), 0);
}

START_TEST(test_a_changed_source_gets_only_what_it_asks_for_now)
{
    struct control_loop *loop = make_loop();
    auto_close int one_fd = ready_descriptor();
    auto_close int other_fd = ready_descriptor();
    struct counted one, other;
    add(loop, &one, one_fd, EPOLLIN);
    add(loop, &other, other_fd, EPOLLIN);
    one.source.ready = other.source.ready = on_ready_silence_other;
    one.removes = &other;
    other.removes = &one;
    run_for_a_while(loop);
    ck_assert_msg(one.calls == 0 || other.calls == 0, "called %u and %u times", one.calls, other.calls);
    /* and is called again once it asks for it */
    struct counted *silent = one.calls == 0 ? &one : &other;
    struct error err = ERROR_INIT;
    loop_remove(loop, &silent->removes->source);
    silent->removes = NULL;
    silent->source.ready = on_ready;
    ck_assert_int_eq(loop_change(loop, &silent->source, EPOLLIN | EPOLLOUT, &err), 0);
    run(loop);
    ck_assert_uint_eq(silent->events, EPOLLIN | EPOLLOUT);
    loop_free(loop);
}
END_TEST

START_TEST(test_quit_ends_the_round_at_once)
{
    struct control_loop *loop = make_loop();
    auto_close int one_fd = ready_descriptor();
    auto_close int other_fd = ready_descriptor();
    struct counted one, other;
    add(loop, &one, one_fd, EPOLLIN);
    add(loop, &other, other_fd, EPOLLIN);
    run(loop);
    ck_assert_uint_eq(one.calls + other.calls, 1);
    /* what was left over is not lost, and nobody is called when there was a quit before */
    loop_quit(loop);
    run(loop);
    ck_assert_uint_eq(one.calls + other.calls, 1);
    loop_remove(loop, one.calls == 1 ? &one.source : &other.source);
    run(loop);
    ck_assert_uint_eq(one.calls, 1);
    ck_assert_uint_eq(other.calls, 1);
    loop_free(loop);
}
END_TEST

START_TEST(test_a_signal_quits)
{
    sigset_t set;
    ck_assert_int_eq(sigemptyset(&set), 0);
    ck_assert_int_eq(sigaddset(&set, SIGTERM), 0);
    ck_assert_int_eq(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    auto_close int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    struct control_loop *loop = make_loop();
    struct counted counted;
    add(loop, &counted, fd, EPOLLIN);
    ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
    run(loop);
    ck_assert_uint_eq(counted.calls, 1);
    struct signalfd_siginfo info;
    ck_assert_int_eq(read(fd, &info, sizeof info), (ssize_t)sizeof info);
    loop_free(loop);
}
END_TEST

START_TEST(test_what_epoll_refuses_is_an_error)
{
    struct control_loop *loop = make_loop();
    struct counted counted = {.source = {.ready = on_ready, .fd = 1000000}, .loop = loop};
    struct error err = ERROR_INIT;
    ck_assert_int_eq(loop_add(loop, &counted.source, EPOLLIN, &err), -1);
    ck_assert_uint_eq(err.reason, REASON_RESOURCE_LIMIT);
    ck_assert(!counted.source.added);
    ck_assert_int_eq(loop_change(loop, &counted.source, EPOLLIN, &err), -1);
    loop_free(loop);
    loop_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loop");
    TCase *tcase = tcase_create("sources");
    tcase_add_test(tcase, test_a_ready_source_is_called_with_its_events);
    tcase_add_test(tcase, test_a_removed_source_is_not_called_for_what_was_fetched);
    tcase_add_test(tcase, test_a_source_may_free_itself);
    tcase_add_test(tcase, test_a_source_added_again_does_not_get_an_old_event);
    tcase_add_test(tcase, test_a_changed_source_gets_only_what_it_asks_for_now);
    tcase_add_test(tcase, test_quit_ends_the_round_at_once);
    tcase_add_test(tcase, test_a_signal_quits);
    tcase_add_test(tcase, test_what_epoll_refuses_is_an_error);
    suite_add_tcase(suite, tcase);
    suite_add_tcase(suite, timers_tcase());
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
