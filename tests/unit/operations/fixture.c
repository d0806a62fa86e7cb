#include "fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture fx;

static const struct operations_limits usual_limits = {.default_region_bytes = 65536,
                                                      .max_region_bytes = 1048576,
                                                      .max_lease_seconds = 3600,
                                                      .page_default = 100,
                                                      .page_max = 1000};

static void open_all(void)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/chan.db", fx.state);
    struct store_config store = {.path = path};
    assert_works(store_open(&store, &fx.store, &fx.err));
    struct regions_config regions = {.directory = fx.shm, .name_pattern = "ivshmem-{sandboxID}"};
    assert_works(regions_open(&regions, &fx.regions, &fx.err));
    struct reclaim_config reclaim = {.store = fx.store,
                                     .regions = fx.regions,
                                     .orphan_grace_ms = 3600000,
                                     .pass_interval_ms = 3600000,
                                     .keep_events = 100000,
                                     .keep_keys_ms = 3600000};
    assert_works(reclaim_new(&reclaim, &fx.reclaim, &fx.err));
    struct links_config links = {.store = fx.store, .runtime_directory = fx.state};
    assert_works(links_new(&links, &fx.links, &fx.err));
    struct operations_config operations = {.store = fx.store,
                                           .regions = fx.regions,
                                           .reclaim = fx.reclaim,
                                           .links = fx.links,
                                           .limits = fx.limits,
                                           .state_directory = fx.state};
    assert_works(operations_new(&operations, &fx.operations, &fx.err));
    assert_works(reclaim_repair(fx.reclaim, &fx.err));
    assert_works(links_start(fx.links, &fx.err));
    operations_set_ready(fx.operations, true);
}

static void close_all(void)
{
    operations_free(fx.operations);
    links_free(fx.links);
    reclaim_free(fx.reclaim);
    regions_close(fx.regions);
    store_close(fx.store);
}

void fixture_setup(void)
{
    (void)snprintf(fx.state, sizeof fx.state, "/tmp/chan-unit-operations-XXXXXX");
    (void)snprintf(fx.shm, sizeof fx.shm, "/dev/shm/chan-unit-operations-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fx.state));
    ck_assert_ptr_nonnull(mkdtemp(fx.shm));
    fx.limits = usual_limits;
    fx.caller = (struct caller){
        .has_peer = true, .uid = geteuid(), .gid = getegid(), .pid = getpid(), .request_id = "test"};
    open_all();
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static void remove_all(const char *directory)
{
    ck_assert_int_eq(nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

void fixture_teardown(void)
{
    close_all();
    remove_all(fx.state);
    remove_all(fx.shm);
}

void fixture_reopen(void)
{
    close_all();
    open_all();
}

size_t region_files(void)
{
    DIR *dir = opendir(fx.shm);
    ck_assert_ptr_nonnull(dir);
    size_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            count++;
    (void)closedir(dir);
    return count;
}

void region_path(const char *id, char out[256])
{
    (void)snprintf(out, 256, "%s/ivshmem-%s", fx.shm, id);
}

int64_t newest_revision(void)
{
    struct store_view *view = NULL;
    struct error err = ERROR_INIT; /* fx.err may still be of interest */
    ck_assert_msg(store_read_begin(fx.store, &view, &err) == 0, "%s", err.detail);
    int64_t revision = store_revision(view);
    store_read_end(view);
    return revision;
}

void put_template(const char *id, bool opt_in, uint64_t size)
{
    struct template_spec spec = {.enable_ivshmem = opt_in, .has_size = size != 0, .size_bytes = size};
    struct template_row row;
    bool created = false;
    assert_works(operations_template_put(fx.operations, &fx.caller, id, &spec, &row, &created, &fx.err));
    template_row_clear(&row);
}

struct sandbox_view create_sandbox(const char *id, const char *template_id)
{
    struct sandbox_spec spec = {.template_id = template_id};
    struct sandbox_view view;
    bool created = false;
    assert_works(operations_sandbox_create(fx.operations, &fx.caller, id, &spec, &view, &created, &fx.err));
    ck_assert_msg(created, "sandbox %s was there before", id);
    return view;
}

struct sandbox_view get_sandbox(const char *id)
{
    struct sandbox_view view;
    assert_works(operations_sandbox_get(fx.operations, &fx.caller, id, &view, &fx.err));
    return view;
}

void delete_sandbox(const char *id)
{
    assert_works(operations_sandbox_delete(fx.operations, &fx.caller, id, &fx.err));
}

struct state_change {
    const char *id;
    enum sandbox_state state;
    const char *reason;
};

static int write_state(struct store_txn *txn, void *argument, struct error *err)
{
    const struct state_change *change = argument;
    struct sandbox_row row;
    if (store_sandbox_get(store_txn_view(txn), change->id, &row, err) != 1)
        return -1;
    row.state = change->state;
    (void)snprintf(row.reason, sizeof row.reason, "%s", change->reason);
    if (store_sandbox_update(txn, &row, err) != 0)
        return -1;
    return store_event_add(txn, "sandbox.tested", "sandbox", change->id, NULL, err);
}

void set_state(const char *id, enum sandbox_state state, const char *reason)
{
    struct state_change change = {.id = id, .state = state, .reason = reason};
    struct store_actor actor = {.who = "test", .operation = "test", .object_id = id, .result = "ok"};
    assert_works(store_write(fx.store, &actor, write_state, &change, &fx.err));
}

pid_t start_process(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)alarm(60); /* never outlives a test that fails */
        for (;;)
            (void)pause();
    }
    return pid;
}

void end_process(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

void assert_field(const char *field, const char *part)
{
    for (size_t i = 0; i < fx.err.field_count; i++) {
        if (strcmp(fx.err.fields[i].field, field) == 0) {
            ck_assert_msg(strstr(fx.err.fields[i].detail, part) != NULL, "%s: expected \"%s\" in \"%s\"",
                          field, part, fx.err.fields[i].detail);
            return;
        }
    }
    ck_abort_msg("field %s is not reported; detail: %s", field, fx.err.detail);
}
