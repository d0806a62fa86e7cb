#include "tests/unit/vhost_user/fixture.h"

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "dataplane/links/link.h"
#include "dataplane/loop/loop.h"
#include "dataplane/memory/memory.h"
#include "dataplane/vhost_user/vhost_user.h"

static struct {
    char directory[32];
    char paths[2][END_PATH_SIZE];
    struct control_loop *loop;
    pthread_t thread;
    struct loop_source call;
    void (*call_fn)(void *argument);
    void *call_argument;
    sem_t called;
    struct worker *worker;
    struct statistics_slot *slot;
    struct link *link;
    struct end *ends[2];
    bool joined;
} fixture;

static void on_call(struct loop_source *source, uint32_t events)
{
    (void)events;
    uint64_t count = 0;
    ck_assert_int_eq(read(source->fd, &count, sizeof count), sizeof count);
    fixture.call_fn(fixture.call_argument);
    (void)sem_post(&fixture.called);
}

void fixture_on_control(void (*fn)(void *argument), void *argument)
{
    const uint64_t one = 1;
    fixture.call_fn = fn;
    fixture.call_argument = argument;
    ck_assert_int_eq(write(fixture.call.fd, &one, sizeof one), sizeof one);
    while (sem_wait(&fixture.called) != 0) {
    }
}

static void *control_thread(void *argument)
{
    (void)argument;
    ck_assert_int_eq(loop_run(fixture.loop, NULL), 0);
    return NULL;
}

static unsigned usable_cpu(void)
{
    cpu_set_t cpus;
    ck_assert_int_eq(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    unsigned cpu = 0;
    while (!CPU_ISSET(cpu, &cpus))
        cpu++;
    return cpu;
}

void fixture_start_bare(void)
{
    memset(&fixture, 0, sizeof fixture);
    (void)snprintf(fixture.directory, sizeof fixture.directory, "/tmp/chan-vhost-user-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fixture.directory));
    for (unsigned side = 0; side < 2; side++)
        (void)snprintf(fixture.paths[side], END_PATH_SIZE, "%s/%u.sock", fixture.directory, side);
    ck_assert_int_eq(memory_guard_install(NULL), 0);
    ck_assert_int_eq(loop_new(&fixture.loop, NULL), 0);
    fixture.call = (struct loop_source){.ready = on_call, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    ck_assert_int_eq(loop_add(fixture.loop, &fixture.call, EPOLLIN, NULL), 0);
    ck_assert_int_eq(sem_init(&fixture.called, 0, 0), 0);
    const struct worker_config worker_config = {.cpu = usable_cpu(), .poll_ns = INT64_C(20000)};
    ck_assert_int_eq(worker_start(&worker_config, &fixture.worker, NULL), 0);
    fixture.slot = aligned_alloc(128, sizeof *fixture.slot);
    ck_assert_ptr_nonnull(fixture.slot);
    memset(fixture.slot, 0, sizeof *fixture.slot);
    const struct link_config link_config = {
        .worker = fixture.worker, .slot = fixture.slot, .patience_ns = INT64_C(10000000)};
    ck_assert_int_eq(link_new(&link_config, &fixture.link, NULL), 0);
    ck_assert_int_eq(pthread_create(&fixture.thread, NULL, control_thread, NULL), 0);
}

struct making {
    unsigned side;
    const struct end_specification *specification;
    int listener, result;
    struct error *err;
};

static void make_end(void *argument)
{
    struct making *making = argument;
    making->result = vhost_user_end_new(making->specification, making->listener, fixture.loop,
                                        link_task(fixture.link), &fixture.ends[making->side], making->err);
}

int fixture_new_end(unsigned side, const struct end_specification *specification, int listener,
                    struct error *err)
{
    struct making making = {.side = side, .specification = specification, .listener = listener, .err = err};
    fixture_on_control(make_end, &making);
    return making.result;
}

static void destroy_end(void *argument)
{
    struct end **end = argument;
    (*end)->operations->destroy(*end);
    *end = NULL;
}

void fixture_destroy_end(unsigned side)
{
    fixture_on_control(destroy_end, &fixture.ends[side]);
}

static void join(void *argument)
{
    (void)argument;
    ck_assert_int_eq(link_open(fixture.link, fixture.ends, NULL), 0);
    fixture.joined = true;
}

void fixture_join(void)
{
    fixture_on_control(join, NULL);
}

void fixture_start(void)
{
    fixture_start_bare();
    for (unsigned side = 0; side < 2; side++) {
        const struct end_specification specification = fixture_specification(side, END_SERVER);
        struct error err = ERROR_INIT;
        ck_assert_msg(fixture_new_end(side, &specification, -1, &err) == 0, "%s", err.detail);
    }
    fixture_join();
}

static void stop(void *argument)
{
    (void)argument;
    link_close(fixture.link); /* with its ends */
    for (unsigned side = 0; side < 2; side++) {
        if (!fixture.joined && fixture.ends[side] != NULL)
            fixture.ends[side]->operations->destroy(fixture.ends[side]);
    }
    loop_remove(fixture.loop, &fixture.call);
    loop_quit(fixture.loop);
}

void fixture_stop(void)
{
    fixture_on_control(stop, NULL);
    ck_assert_int_eq(pthread_join(fixture.thread, NULL), 0);
    worker_stop(fixture.worker);
    loop_free(fixture.loop);
    (void)close(fixture.call.fd);
    (void)sem_destroy(&fixture.called);
    free(fixture.slot);
    for (unsigned side = 0; side < 2; side++)
        (void)unlink(fixture.paths[side]);
    ck_assert_msg(rmdir(fixture.directory) == 0, "something was left in %s", fixture.directory);
}

const char *fixture_path(unsigned side)
{
    return fixture.paths[side];
}

struct end_specification fixture_specification(unsigned side, enum end_role role)
{
    struct end_specification specification = {.type = "vhost-user", .role = role};
    memcpy(specification.socket_path, fixture.paths[side], END_PATH_SIZE);
    return specification;
}

struct statistics_slot *fixture_slot(void)
{
    return fixture.slot;
}

struct asking {
    unsigned side;
    struct end_status status;
    uint64_t offloads_off;
};

static void ask(void *argument)
{
    struct asking *asking = argument;
    const struct end *end = fixture.ends[asking->side];
    end->operations->status(end, &asking->status);
}

struct end_status fixture_status(unsigned side)
{
    struct asking asking = {.side = side};
    fixture_on_control(ask, &asking);
    return asking.status;
}

struct end_status fixture_wait_for_state(unsigned side, enum end_state state)
{
    const int64_t end = clock_monotonic_ns() + INT64_C(1000000) * FIXTURE_WAIT_MS;
    for (;;) {
        const struct end_status status = fixture_status(side);
        if (status.state == state)
            return status;
        ck_assert_msg(clock_monotonic_ns() < end, "the end is in state %d (%s), %d was expected",
                      status.state, status.reason, state);
        (void)usleep(1000);
    }
}

static void set_offloads(void *argument)
{
    const struct asking *asking = argument;
    struct end *end = fixture.ends[asking->side];
    end->operations->set_offloads(end, asking->offloads_off);
}

void fixture_set_offloads(unsigned side, uint64_t offloads_off)
{
    struct asking asking = {.side = side, .offloads_off = offloads_off};
    fixture_on_control(set_offloads, &asking);
}

unsigned open_descriptors(void)
{
    auto_closedir DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    unsigned count = 0;
    while (readdir(directory) != NULL)
        count++;
    return count;
}
