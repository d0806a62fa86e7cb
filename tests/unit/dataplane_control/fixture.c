#include "tests/unit/dataplane_control/fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

struct control_loop *loop;
struct worker *workers[FIXTURE_WORKERS];
struct statistics_memory *statistics;
struct link_table *table;

void fixture_setup(void)
{
    struct error err = ERROR_INIT;
    cpu_set_t cpus;
    ck_assert_int_eq(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    unsigned cpu = 0;
    while (!CPU_ISSET(cpu, &cpus))
        cpu++;
    for (unsigned i = 0; i < FIXTURE_WORKERS; i++) {
        const struct worker_config config = {.cpu = cpu};
        ck_assert_msg(worker_start(&config, &workers[i], &err) == 0, "%s", err.detail);
    }
    ck_assert_msg(loop_new(&loop, &err) == 0, "%s", err.detail);
    ck_assert_msg(statistics_memory_new(FIXTURE_LINKS, &statistics, &err) == 0, "%s", err.detail);
    const struct link_table_config config = {.loop = loop,
                                             .workers = workers,
                                             .worker_count = FIXTURE_WORKERS,
                                             .statistics = statistics,
                                             .max_links = FIXTURE_LINKS,
                                             .patience_ns = 1000000,
                                             .make_end = quiet_end_make};
    ck_assert_msg(link_table_new(&config, &table, &err) == 0, "%s", err.detail);
}

void fixture_teardown(void)
{
    link_table_free(table);
    ck_assert_uint_eq(quiet_ends_alive(), 0);
    for (unsigned i = 0; i < FIXTURE_WORKERS; i++) {
        ck_assert_uint_eq(worker_task_count(workers[i]), 0);
        worker_stop(workers[i]);
    }
    statistics_memory_free(statistics);
    loop_free(loop);
}

struct link_specification specification_of(const char *id)
{
    struct link_specification specification = {.id = ""};
    ck_assert_uint_lt(strlen(id), sizeof specification.id);
    memcpy(specification.id, id, strlen(id));
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(specification.ends[i].type, sizeof specification.ends[i].type, "quiet");
        (void)snprintf(specification.ends[i].socket_path, sizeof specification.ends[i].socket_path,
                       "/%.100s%u", id, i);
    }
    return specification;
}

const struct link_entry *create(const char *id)
{
    struct error err = ERROR_INIT;
    const struct link_specification specification = specification_of(id);
    const int none[2] = {-1, -1};
    const struct link_entry *entry = NULL;
    bool created = false;
    ck_assert_msg(link_table_create(table, &specification, none, &entry, &created, &err) == 0, "%s",
                  err.detail);
    ck_assert(created);
    return entry;
}

int some_descriptor(void)
{
    const int fd = eventfd(0, EFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}
