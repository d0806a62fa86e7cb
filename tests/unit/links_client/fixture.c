#include "tests/unit/links_client/fixture.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

struct fixture fx;

void fixture_setup(void)
{
    char path[256];
    fx = (struct fixture){.log = {.level = LOG_LEVEL_ERROR, .fd = STDERR_FILENO}};
    (void)snprintf(fx.directory, sizeof fx.directory, "/dev/shm/chan-unit-links-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fx.directory));
    assert_works(metrics_new("test", &fx.metrics, &fx.err));
    path_in("chan.db", path);
    const struct store_config config = {.path = path};
    assert_works(store_open(&config, &fx.store, &fx.err));
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

void fixture_teardown(void)
{
    close_links();
    stop_fake();
    store_close(fx.store);
    metrics_free(fx.metrics);
    ck_assert_int_eq(nftw(fx.directory, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* The first comparison with the store is done, so that the thread leaves links alone for a while. */
static bool is_settled(const void *unused)
{
    (void)unused;
    (void)pthread_mutex_lock(&fx.links->lock);
    const bool settled = fx.links->rounds > 0 || fx.links->attempts > 0;
    (void)pthread_mutex_unlock(&fx.links->lock);
    return settled;
}

void open_links(const char *program, const char *cpus)
{
    const struct links_config config = {.store = fx.store,
                                        .metrics = fx.metrics,
                                        .log = &fx.log,
                                        .runtime_directory = fx.directory,
                                        .dataplane_program = program,
                                        .dataplane_cpus = cpus};
    assert_works(links_new(&config, &fx.links, &fx.err));
    assert_works(links_start(fx.links, &fx.err));
    if (fx.fake != NULL)
        wait_for(is_settled, NULL, "the thread has compared the links");
}

void close_links(void)
{
    links_free(fx.links);
    fx.links = NULL;
}

void start_fake(void)
{
    char path[256];
    path_in("dataplane.sock", path);
    fx.fake = fake_start(path);
}

void stop_fake(void)
{
    if (fx.fake != NULL)
        fake_stop(fx.fake);
    fx.fake = NULL;
}

void path_in(const char *name, char out[256])
{
    (void)snprintf(out, 256, "%s/%s", fx.directory, name);
}

bool exists(const char *name)
{
    struct stat status;
    char path[256];
    path_in(name, path);
    return lstat(path, &status) == 0;
}

struct stat status_of(const char *name)
{
    struct stat status;
    char path[256];
    path_in(name, path);
    ck_assert_msg(lstat(path, &status) == 0, "%s is not there", path);
    return status;
}

struct link_row make_row(const char *id)
{
    struct link_row row = {.uid = geteuid(), .gid = getegid()};
    (void)snprintf(row.id, sizeof row.id, "%s", id);
    (void)snprintf(row.ends[0].type, sizeof row.ends[0].type, "vhost-user");
    (void)snprintf(row.ends[1].type, sizeof row.ends[1].type, "vhost-user");
    return row;
}

static int write_row(struct store_txn *txn, void *argument, struct error *err)
{
    struct link_row *row = argument;
    if (store_link_insert(txn, row, err) != 0)
        return -1;
    return store_event_add(txn, "link.tested", "link", row->id, NULL, err);
}

void store_row(struct link_row *row, enum link_row_state state)
{
    struct error err = ERROR_INIT;
    const struct store_actor actor = {
        .who = "test", .operation = "test", .object_id = row->id, .result = "ok"};
    row->state = state;
    ck_assert_msg(store_write(fx.store, &actor, write_row, row, &err) == 0, "%s", err.detail);
}

int apply_link(const struct link_row *row)
{
    auto_link_lock struct link_lock lock = links_lock(fx.links, row->id);
    return links_apply(fx.links, row, &fx.err);
}

struct link_row make_link(const char *id)
{
    struct error err = ERROR_INIT;
    struct link_row row = make_row(id);
    struct link_lock lock = links_lock(fx.links, id);
    store_row(&row, LINK_READY);
    ck_assert_msg(links_apply(fx.links, &row, &err) == 0, "%s", err.detail);
    links_unlock(&lock);
    return row;
}

bool row_exists(const char *id)
{
    struct store_view *view = NULL;
    struct link_row row;
    ck_assert_int_eq(store_read_begin(fx.store, &view, NULL), 0);
    const int found = store_link_get(view, id, &row, NULL);
    store_read_end(view);
    ck_assert_int_ge(found, 0);
    return found > 0;
}

size_t count_events(const char *kind)
{
    struct store_view *view = NULL;
    struct event_row *rows = NULL;
    size_t count = 0;
    size_t found = 0;
    int64_t newest = 0;
    ck_assert_int_eq(store_read_begin(fx.store, &view, NULL), 0);
    ck_assert_int_eq(store_event_list(view, 0, 10000, &rows, &count, &newest, NULL), 0);
    store_read_end(view);
    for (size_t i = 0; i < count; i++)
        found += strcmp(rows[i].kind, kind) == 0;
    store_event_list_free(rows, count);
    return found;
}

void connects(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[256];
    path_in(name, path);
    ck_assert_uint_lt(strlen(path), sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(connect(fd, (const struct sockaddr *)&address, sizeof address) == 0, "nobody listens at %s",
                  path);
    (void)close(fd);
}

void wait_for(bool (*condition)(const void *), const void *argument, const char *what)
{
    const int64_t end = clock_monotonic_ns() + INT64_C(10000000000);
    while (!condition(argument)) {
        ck_assert_msg(clock_monotonic_ns() < end, "after 10 s this is not so: %s", what);
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

bool is_connected(const void *unused)
{
    struct links_report report;
    (void)unused;
    links_report(fx.links, &report);
    return report.connected;
}

bool is_disconnected(const void *unused)
{
    return !is_connected(unused);
}

bool fake_has(const void *id)
{
    struct fake_link link;
    return fake_find(fx.fake, id, &link);
}

bool fake_has_not(const void *id)
{
    return !fake_has(id);
}
