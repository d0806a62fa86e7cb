#include "tests/unit/reclaim/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

struct fixture fixture;

/* ---- life ---- */

void fixture_open(void)
{
    struct error err = ERROR_INIT;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/chan.db", fixture.state_directory);
    const struct store_config store_config = {.path = path};
    ck_assert_msg(store_open(&store_config, &fixture.store, &err) == 0, "%s", err.detail);
    const struct regions_config regions_config = {.directory = fixture.shm_directory,
                                                  .name_pattern = "ivshmem-{sandboxID}"};
    ck_assert_msg(regions_open(&regions_config, &fixture.regions, &err) == 0, "%s", err.detail);
    ck_assert_msg(metrics_new("test", &fixture.metrics, &err) == 0, "%s", err.detail);
    const struct reclaim_config config = {.store = fixture.store,
                                          .regions = fixture.regions,
                                          .metrics = fixture.metrics,
                                          .orphan_grace_ms = fixture.grace_ms,
                                          .pass_interval_ms = fixture.interval_ms,
                                          .keep_events = fixture.keep_events,
                                          .keep_keys_ms = 60000};
    ck_assert_msg(reclaim_new(&config, &fixture.reclaim, &err) == 0, "%s", err.detail);
}

void fixture_close(void)
{
    reclaim_free(fixture.reclaim);
    metrics_free(fixture.metrics);
    regions_close(fixture.regions);
    store_close(fixture.store);
    fixture.reclaim = NULL;
    fixture.metrics = NULL;
    fixture.regions = NULL;
    fixture.store = NULL;
}

static int put_template(struct store_txn *txn, void *argument, struct error *err)
{
    (void)argument;
    char annotations[] = "{}";
    struct template_row row = {.id = "tpl", .enable_ivshmem = true, .annotations = annotations};
    row.region.size_bytes = 32768;
    return store_template_put(txn, &row, err) < 0 ||
                   store_event_add(txn, "template.created", "template", row.id, NULL, err) < 0
               ? -1
               : 0;
}

static void write_unit(store_write_fn fn, void *argument)
{
    struct error err = ERROR_INIT;
    const struct store_actor actor = {
        .who = "test", .operation = "test", .object_id = "test", .result = "ok"};
    ck_assert_msg(store_write(fixture.store, &actor, fn, argument, &err) == 0, "%s", err.detail);
}

static char state_base[] = "/tmp/chan-unit-reclaim-XXXXXX";
static char shm_base[] = "/dev/shm/chan-unit-reclaim-XXXXXX";

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

void fixture_make_bases(void)
{
    if (mkdtemp(state_base) == NULL || mkdtemp(shm_base) == NULL) {
        perror("mkdtemp");
        exit(EXIT_FAILURE);
    }
}

void fixture_remove_bases(void)
{
    if (nftw(state_base, remove_entry, 16, FTW_DEPTH | FTW_PHYS) < 0 ||
        nftw(shm_base, remove_entry, 16, FTW_DEPTH | FTW_PHYS) < 0)
        perror("removing the directories of the tests");
}

void fixture_setup(void)
{
    fixture = (struct fixture){.grace_ms = 0, .interval_ms = 20, .keep_events = 100000};
    (void)snprintf(fixture.state_directory, sizeof fixture.state_directory, "%s/XXXXXX", state_base);
    (void)snprintf(fixture.shm_directory, sizeof fixture.shm_directory, "%s/XXXXXX", shm_base);
    ck_assert_ptr_nonnull(mkdtemp(fixture.state_directory));
    ck_assert_ptr_nonnull(mkdtemp(fixture.shm_directory));
    fixture_open();
    write_unit(put_template, NULL);
}

void fixture_teardown(void)
{
    fixture_close();
}

void repair(void)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(reclaim_repair(fixture.reclaim, &err) == 0, "%s", err.detail);
}

void start(void)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(reclaim_start(fixture.reclaim, &err) == 0, "%s", err.detail);
}

/* ---- owners ---- */

pid_t start_process(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        for (;;)
            (void)pause();
    return pid;
}

void end_process(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

struct owner_row process_owner(pid_t pid)
{
    struct owner_row owner;
    struct error err = ERROR_INIT;
    ck_assert_msg(owner_record_process(pid, reclaim_boot_id(fixture.reclaim), &owner, &err) == 0, "%s",
                  err.detail);
    return owner;
}

struct owner_row lease_owner(int64_t seconds)
{
    struct owner_row owner;
    owner_record_lease(seconds, reclaim_boot_id(fixture.reclaim), &owner);
    return owner;
}

struct owner_row no_owner(void)
{
    return (struct owner_row){.kind = OWNER_NONE};
}

/* ---- sandboxes ---- */

static int insert(struct store_txn *txn, void *argument, struct error *err)
{
    struct sandbox_row *row = argument;
    return store_sandbox_insert(txn, row, err) < 0 ||
                   store_event_add(txn, "test.inserted", "sandbox", row->id, NULL, err) < 0
               ? -1
               : 0;
}

static int update(struct store_txn *txn, void *argument, struct error *err)
{
    struct sandbox_row *row = argument;
    return store_sandbox_update(txn, row, err) < 0 ||
                   store_event_add(txn, "test.updated", "sandbox", row->id, NULL, err) < 0
               ? -1
               : 0;
}

static struct sandbox_row new_row(const char *id, struct owner_row owner, bool has_region)
{
    struct sandbox_row row = {.template_id = "tpl",
                              .owner = owner,
                              .uid = geteuid(),
                              .gid = getegid(),
                              .has_region = has_region,
                              .state = has_region ? SANDBOX_CREATING : SANDBOX_RUNNING};
    (void)snprintf(row.id, sizeof row.id, "%s", id);
    if (!has_region)
        return row;
    (void)snprintf(row.region.sandbox_id, sizeof row.region.sandbox_id, "%s", id);
    region_name(fixture.regions, id, row.region.name);
    ck_assert_int_eq(region_make_token(row.region.staging_token, NULL), 0);
    row.region.settings = (struct region_settings){.size_bytes = 32768, .layout = REGION_LAYOUT_CHAN};
    row.region.epoch = 1;
    row.region.state = REGION_CREATING;
    row.region.uid = row.uid;
    row.region.gid = row.gid;
    return row;
}

void make_sandbox_until(const char *id, struct owner_row owner, enum progress progress)
{
    struct sandbox_row row = new_row(id, owner, true);
    struct error err = ERROR_INIT;
    struct sandbox_lock lock = reclaim_lock(fixture.reclaim, id);
    write_unit(insert, &row);
    if (progress >= PROGRESS_FILE)
        ck_assert_msg(region_create(fixture.regions, &row.region, &err) == 0, "%s", err.detail);
    if (progress >= PROGRESS_READY) {
        row.state = SANDBOX_RUNNING;
        row.region.state = REGION_READY;
        write_unit(update, &row);
    }
    if (progress == PROGRESS_DONE) {
        ck_assert_msg(region_unstage(fixture.regions, &row.region, &err) == 0, "%s", err.detail);
        reclaim_watch(fixture.reclaim, &row);
    }
    reclaim_unlock(&lock);
}

void make_sandbox(const char *id, struct owner_row owner)
{
    make_sandbox_until(id, owner, PROGRESS_DONE);
}

void make_plain_sandbox(const char *id, struct owner_row owner)
{
    struct sandbox_row row = new_row(id, owner, false);
    struct sandbox_lock lock = reclaim_lock(fixture.reclaim, id);
    write_unit(insert, &row);
    reclaim_watch(fixture.reclaim, &row);
    reclaim_unlock(&lock);
}

bool get_sandbox(const char *id, struct sandbox_row *row)
{
    auto_view struct store_view *view = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(store_read_begin(fixture.store, &view, &err) == 0, "%s", err.detail);
    int found = store_sandbox_get(view, id, row, &err);
    ck_assert_msg(found >= 0, "%s", err.detail);
    return found > 0;
}

struct sandbox_row expect_sandbox(const char *id, enum sandbox_state state)
{
    struct sandbox_row row;
    ck_assert_msg(get_sandbox(id, &row), "expected the sandbox %s", id);
    ck_assert_msg(row.state == state, "expected %s in state %d, got %d", id, (int)state, (int)row.state);
    return row;
}

bool is_gone(const char *id)
{
    struct sandbox_row row;
    return !get_sandbox(id, &row);
}

void write_row(struct sandbox_row *row)
{
    write_unit(update, row);
}

void change_sandbox(const char *id, change_fn change)
{
    struct sandbox_row row;
    struct sandbox_lock lock = reclaim_lock(fixture.reclaim, id);
    ck_assert(get_sandbox(id, &row));
    change(&row);
    write_row(&row);
    reclaim_unwatch(fixture.reclaim, id);
    reclaim_watch(fixture.reclaim, &row);
    reclaim_unlock(&lock);
}

void set_paused(struct sandbox_row *row)
{
    row->state = SANDBOX_PAUSED;
}

void set_deleting(struct sandbox_row *row)
{
    row->state = SANDBOX_DELETING;
    row->region.state = REGION_DELETING;
}

void set_other_boot(struct sandbox_row *row)
{
    static const char other[] = "00000000-0000-4000-8000-000000000000";
    memcpy(row->owner.boot_id, other, sizeof other);
    memcpy(row->region.identity.boot_id, other, sizeof other);
}

/* ---- what can be seen ---- */

static struct event_row *list_events(size_t *count)
{
    auto_view struct store_view *view = NULL;
    struct error err = ERROR_INIT;
    struct event_row *events = NULL;
    int64_t newest = 0;
    ck_assert_msg(store_read_begin(fixture.store, &view, &err) == 0, "%s", err.detail);
    ck_assert_msg(store_event_list(view, 0, 100000, &events, count, &newest, &err) == 0, "%s", err.detail);
    return events;
}

size_t count_events(const char *kind, const char *object_id)
{
    size_t count = 0;
    size_t found = 0;
    struct event_row *events = list_events(&count);
    for (size_t i = 0; i < count; i++)
        found += strcmp(events[i].kind, kind) == 0 && strcmp(events[i].object_id, object_id) == 0;
    store_event_list_free(events, count);
    return found;
}

void expect_event(const char *kind, const char *object_id, const char *reason)
{
    size_t count = 0;
    size_t found = 0;
    struct event_row *events = list_events(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(events[i].kind, kind) != 0 || strcmp(events[i].object_id, object_id) != 0)
            continue;
        found++;
        char expected[96];
        (void)snprintf(expected, sizeof expected, "{\"reason\":\"%s\"}", reason != NULL ? reason : "");
        if (reason != NULL)
            ck_assert_str_eq(events[i].detail, expected);
    }
    store_event_list_free(events, count);
    ck_assert_msg(found == 1, "expected one event %s of %s, got %zu", kind, object_id, found);
}

int64_t revision(void)
{
    auto_view struct store_view *view = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(store_read_begin(fixture.store, &view, &err) == 0, "%s", err.detail);
    return store_revision(view);
}

double metric(const char *series)
{
    auto_free char *text = NULL;
    size_t length = 0;
    ck_assert_int_eq(metrics_render(fixture.metrics, &text, &length, NULL), 0);
    char begin[128];
    (void)snprintf(begin, sizeof begin, "\n%s ", series);
    const char *at = strstr(text, begin);
    ck_assert_msg(at != NULL, "expected the metric %s", series);
    return strtod(at + strlen(begin), NULL);
}

const char *region_path(const char *id)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/ivshmem-%s", fixture.shm_directory, id);
    return path;
}

bool has_region_file(const char *id)
{
    return access(region_path(id), F_OK) == 0;
}

size_t count_files(void)
{
    auto_closedir DIR *dir = opendir(fixture.shm_directory);
    ck_assert_ptr_nonnull(dir);
    size_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    return count;
}

void write_file(const char *path, const char *content)
{
    auto_fclose FILE *file = fopen(path, "wxe");
    ck_assert_msg(file != NULL, "%s: %s", path, strerror(errno));
    ck_assert_int_ge(fputs(content, file), 0);
}

void expect_content(const char *path, const char *content)
{
    auto_fclose FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "expected %s to be there: %s", path, strerror(errno));
    char text[128];
    size_t got = fread(text, 1, sizeof text - 1, file);
    text[got] = '\0';
    ck_assert_str_eq(text, content);
}

int wait_a_little(void)
{
    enum { STEP_MS = 5 };
    (void)usleep(STEP_MS * 1000);
    return STEP_MS;
}

void wait_for_passes(void)
{
    double before = metric("chan_collector_passes_total");
    wait_until(metric("chan_collector_passes_total") >= before + 3); /* the first may have begun before */
}

bool hide_proc(const char *test)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("chan-unit", "/proc", "tmpfs", 0, NULL) < 0) {
        (void)printf("SKIP %s: cannot hide /proc: needs root\n", test);
        return false;
    }
    return true;
}

void show_proc(void)
{
    ck_assert_int_eq(umount("/proc"), 0);
}
