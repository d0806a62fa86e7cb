/* Units of change: whole or not at all, alone or sharing a commit. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store/internal.h" /* to see how many writers wait */
#include "tests/unit/store/support.h"

static int add_no_event(struct store_txn *txn, void *argument, struct error *err)
{
    return store_template_put(txn, argument, err);
}

START_TEST(test_unit_without_event_is_refused)
{
    struct store *store = open_store("no-event.db");
    struct error err = ERROR_INIT;
    struct template_row row;
    fill_template(&row, "tpl", "{}");
    ck_refused(write_unit(store, add_no_event, &row, &err), err, REASON_INTERNAL);
    struct store_view *view = NULL;
    struct template_row found;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_template_get(view, "tpl", &found, &err), 0);
    ck_assert_int_eq(store_revision(view), 0);
    store_read_end(view);
    ck_done(put_template(store, &row, &err), err);
    ck_assert_int_eq(row.revision, 1);
    template_row_clear(&row);
    store_close(store);
}
END_TEST

static int fail_after_change(struct store_txn *txn, void *argument, struct error *err)
{
    if (store_template_put(txn, argument, err) < 0 || add_event(txn, "x", err) < 0) {
        return -1;
    }
    return error_set(err, REASON_QUOTA_EXCEEDED, "no more of these");
}

START_TEST(test_error_of_the_function_comes_back)
{
    char path[PATH_SIZE];
    path_of("own-error.db", path);
    struct store *store = open_store("own-error.db");
    struct error err = ERROR_INIT;
    struct template_row row;
    fill_template(&row, "tpl", "{}");
    ck_refused(write_unit(store, fail_after_change, &row, &err), err, REASON_QUOTA_EXCEEDED);
    ck_assert_str_eq(err.detail, "no more of these");
    template_row_clear(&row);
    ck_assert_int_eq(sql_int(path, "SELECT (SELECT count(*) FROM template) + (SELECT count(*) FROM event)"
                                   " + (SELECT count(*) FROM audit)"),
                     0);
    store_close(store);
}
END_TEST

static int ignore_failure(struct store_txn *txn, void *argument, struct error *err)
{
    (void)store_sandbox_insert(txn, argument, NULL); /* its template does not exist */
    return add_event(txn, "x", err);
}

START_TEST(test_ignored_failure_is_not_committed)
{
    char path[PATH_SIZE];
    path_of("ignored.db", path);
    struct store *store = open_store("ignored.db");
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    fill_sandbox(&row, "sb", "none", true);
    ck_refused(write_unit(store, ignore_failure, &row, &err), err, REASON_INTERNAL);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM event"), 0);
    store_close(store);
}
END_TEST

static int read_own_write(struct store_txn *txn, void *argument, struct error *err)
{
    struct template_row *row = argument;
    struct store_view *view = store_txn_view(txn);
    struct template_row found;
    ck_assert_int_eq(store_template_get(view, "tpl", &found, err), 0);
    ck_assert_int_eq(store_txn_revision(txn), 1);
    ck_assert_int_eq(store_revision(view), 0);
    if (store_template_put(txn, row, err) < 0) {
        return -1;
    }
    ck_assert_int_eq(store_template_get(view, "tpl", &found, err), 1);
    ck_assert_int_eq(found.revision, 1);
    template_row_clear(&found);
    return add_event(txn, "tpl", err);
}

START_TEST(test_views)
{
    struct store *store = open_store("views.db");
    struct error err = ERROR_INIT;
    struct store_view *before = NULL;
    struct store_view *after = NULL;
    struct template_row row, found;
    ck_done(store_read_begin(store, &before, &err), err);
    fill_template(&row, "tpl", "{}");
    ck_done(write_unit(store, read_own_write, &row, &err), err);
    template_row_clear(&row);
    /* A snapshot stays as it was, a new one sees the change. */
    ck_assert_int_eq(store_template_get(before, "tpl", &found, &err), 0);
    ck_assert_int_eq(store_revision(before), 0);
    ck_done(store_read_begin(store, &after, &err), err);
    ck_assert_int_eq(store_template_get(after, "tpl", &found, &err), 1);
    ck_assert_int_eq(store_revision(after), 1);
    template_row_clear(&found);
    store_read_end(before);
    store_read_end(after);
    store_read_end(NULL);
    store_close(store);
    store_close(NULL);
}
END_TEST

/* ---- a shared commit ---- */

enum { FOLLOWERS = 6 };

struct scene {
    struct store *store;
    pthread_barrier_t led; /* the leader is inside its unit */
    size_t commit_units[8];
    size_t commits;
};

struct writer {
    struct scene *scene;
    pthread_t thread;
    int number;
    int result;
    struct error err;
    int64_t revision;
};

static void note_commit(void *context, int64_t duration_ns, size_t units)
{
    struct scene *scene = context;
    ck_assert_int_gt(duration_ns, 0);
    ck_assert_uint_lt(scene->commits, 8);
    scene->commit_units[scene->commits++] = units;
}

static int wait_for_followers(struct store_txn *txn, void *argument, struct error *err)
{
    struct scene *scene = argument;
    (void)pthread_barrier_wait(&scene->led);
    for (int i = 0; queue_length(scene->store) < FOLLOWERS; i++) {
        ck_assert_msg(i < 20000, "%d writers were to wait, %zu do", FOLLOWERS, queue_length(scene->store));
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return add_event(txn, "leader", err);
}

static void *lead_writer(void *argument)
{
    struct writer *writer = argument;
    writer->result = write_unit(writer->scene->store, wait_for_followers, writer->scene, &writer->err);
    return NULL;
}

/* Follower 1 fails by itself, 2 adds no event, 3 breaks a constraint; the others are fine. */
static int follow(struct store_txn *txn, void *argument, struct error *err)
{
    struct writer *writer = argument;
    struct sandbox_row row;
    char id[16];
    (void)snprintf(id, sizeof id, "sb-%d", writer->number);
    fill_sandbox(&row, id, writer->number == 3 ? "none" : "tpl", true);
    if (store_sandbox_insert(txn, &row, err) < 0) {
        return -1;
    }
    writer->revision = row.revision;
    if (writer->number == 1) {
        return error_set(err, REASON_QUOTA_EXCEEDED, "one too many");
    }
    return writer->number == 2 ? 0 : add_event(txn, id, err);
}

static void *follow_writer(void *argument)
{
    struct writer *writer = argument;
    writer->result = write_unit(writer->scene->store, follow, writer, &writer->err);
    return NULL;
}

START_TEST(test_units_share_a_commit)
{
    char path[PATH_SIZE];
    path_of("shared.db", path);
    struct scene scene = {.commits = 0};
    struct store_config config = {.path = path, .on_commit = note_commit, .context = &scene};
    struct error err = ERROR_INIT;
    ck_done(store_open(&config, &scene.store, &err), err);
    put_default_template(scene.store);
    ck_assert_int_eq(pthread_barrier_init(&scene.led, NULL, 2), 0);

    struct writer leader = {.scene = &scene};
    ck_assert_int_eq(pthread_create(&leader.thread, NULL, lead_writer, &leader), 0);
    (void)pthread_barrier_wait(&scene.led);
    struct writer followers[FOLLOWERS];
    for (int i = 0; i < FOLLOWERS; i++) {
        followers[i] = (struct writer){.scene = &scene, .number = i};
        ck_assert_int_eq(pthread_create(&followers[i].thread, NULL, follow_writer, &followers[i]), 0);
    }
    ck_assert_int_eq(pthread_join(leader.thread, NULL), 0);
    for (int i = 0; i < FOLLOWERS; i++) {
        ck_assert_int_eq(pthread_join(followers[i].thread, NULL), 0);
    }

    ck_assert_int_eq(leader.result, 0);
    ck_assert_uint_eq(scene.commits, 3); /* the template, the leader alone, all followers together */
    ck_assert_uint_eq(scene.commit_units[1], 1);
    ck_assert_uint_eq(scene.commit_units[2], FOLLOWERS - 3);
    for (int i = 0; i < FOLLOWERS; i++) {
        bool fails = i >= 1 && i <= 3;
        ck_assert_msg((followers[i].result < 0) == fails, "follower %d: %s", i, followers[i].err.detail);
    }
    ck_assert_int_eq(followers[1].err.reason, REASON_QUOTA_EXCEEDED);
    ck_assert_int_eq(followers[2].err.reason, REASON_INTERNAL);
    ck_assert_int_eq(followers[3].err.reason, REASON_STORE_FAILED);

    struct store_view *view = NULL;
    ck_done(store_read_begin(scene.store, &view, &err), err);
    ck_assert_int_eq(store_revision(view), 2 + FOLLOWERS - 3);
    struct usage_row usage;
    ck_done(store_usage_node(view, &usage, &err), err);
    ck_assert_uint_eq(usage.regions, FOLLOWERS - 3);
    for (int i = 0; i < FOLLOWERS; i++) {
        struct sandbox_row found;
        char id[16];
        (void)snprintf(id, sizeof id, "sb-%d", i);
        ck_assert_int_eq(store_sandbox_get(view, id, &found, &err), followers[i].result == 0 ? 1 : 0);
        if (followers[i].result == 0) {
            ck_assert_int_eq(found.revision, followers[i].revision);
        }
    }
    store_read_end(view);
    store_close(scene.store);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM audit"), 2 + FOLLOWERS - 3);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM region"), FOLLOWERS - 3);
    (void)pthread_barrier_destroy(&scene.led);
}
END_TEST

/* ---- nothing to write ---- */

static int change_nothing(struct store_txn *txn, void *argument, struct error *err)
{
    return store_template_put(txn, argument, err) < 0 ? -1 : 1;
}

START_TEST(test_nothing_to_write)
{
    char path[PATH_SIZE];
    path_of("nothing.db", path);
    struct store *store = open_store("nothing.db");
    struct error err = ERROR_INIT;
    struct template_row row;
    fill_template(&row, "tpl", "{}");
    ck_assert_int_eq(write_unit(store, change_nothing, &row, &err), 1);
    template_row_clear(&row);
    ck_assert_int_eq(sql_int(path, "SELECT (SELECT count(*) FROM template) + (SELECT count(*) FROM event)"
                                   " + (SELECT count(*) FROM audit)"),
                     0);
    store_close(store);
}
END_TEST

/* Odd ones find that all is as wanted, which others of the same commit may just have written. */
static int write_or_not(struct store_txn *txn, void *argument, struct error *err)
{
    const struct writer *writer = argument;
    return writer->number % 2 == 1 ? 1 : add_event(txn, "x", err);
}

static void *maybe_writer(void *argument)
{
    struct writer *writer = argument;
    writer->result = write_unit(writer->scene->store, write_or_not, writer, &writer->err);
    return NULL;
}

/* Not 0 makes SQLite refuse the commit. */
static int refuse_second(void *context)
{
    const struct scene *scene = context;
    return scene->commits == 1;
}

START_TEST(test_a_commit_that_fails_fails_all)
{
    char path[PATH_SIZE];
    path_of("refused.db", path);
    struct scene scene = {.commits = 0};
    struct store_config config = {.path = path, .on_commit = note_commit, .context = &scene};
    struct error err = ERROR_INIT;
    ck_done(store_open(&config, &scene.store, &err), err);
    (void)sqlite3_commit_hook(scene.store->writer.connection.db, refuse_second, &scene);
    ck_assert_int_eq(pthread_barrier_init(&scene.led, NULL, 2), 0);
    struct writer leader = {.scene = &scene};
    ck_assert_int_eq(pthread_create(&leader.thread, NULL, lead_writer, &leader), 0);
    (void)pthread_barrier_wait(&scene.led);
    struct writer followers[FOLLOWERS];
    for (int i = 0; i < FOLLOWERS; i++) {
        followers[i] = (struct writer){.scene = &scene, .number = i};
        ck_assert_int_eq(pthread_create(&followers[i].thread, NULL, maybe_writer, &followers[i]), 0);
    }
    ck_assert_int_eq(pthread_join(leader.thread, NULL), 0);
    ck_assert_int_eq(leader.result, 0);
    for (int i = 0; i < FOLLOWERS; i++) {
        ck_assert_int_eq(pthread_join(followers[i].thread, NULL), 0);
        ck_assert_int_eq(followers[i].result, -1);
        ck_assert_int_eq(followers[i].err.reason, REASON_STORE_FAILED);
    }
    ck_assert_uint_eq(scene.commits, 1);
    store_close(scene.store);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM event"), 1);
    (void)pthread_barrier_destroy(&scene.led);
}
END_TEST

START_TEST(test_a_database_that_was_moved)
{
    char path[PATH_SIZE];
    char moved[PATH_SIZE];
    path_of("here.db", path);
    path_of("there.db", moved);
    struct store *store = open_store("here.db");
    struct error err = ERROR_INIT;
    put_default_template(store);
    ck_assert_int_eq(rename(path, moved), 0);
    struct sandbox_row row;
    fill_sandbox(&row, "sb", "tpl", true);
    ck_refused(insert_sandbox(store, &row, &err), err, REASON_STORE_FAILED);
    ck_assert_ptr_nonnull(strstr(err.detail, "while it was in use"));
    ck_assert_int_eq(rename(moved, path), 0);
    ck_done(insert_sandbox(store, &row, &err), err);
    store_close(store);
}
END_TEST

/* ---- many threads ---- */

enum { THREADS = 8, WRITES = 40, ALL_WRITES = THREADS * WRITES };

struct crowd {
    struct store *store;
    atomic_uint committed;
    atomic_bool stop;
};

struct crowd_writer {
    struct crowd *crowd;
    pthread_t thread;
    int number;
    int64_t revisions[WRITES];
};

static void *write_much(void *argument)
{
    struct crowd_writer *writer = argument;
    struct error err = ERROR_INIT;
    for (int i = 0; i < WRITES; i++) {
        struct sandbox_row row;
        char id[32];
        (void)snprintf(id, sizeof id, "sb-%d-%d", writer->number, i);
        fill_sandbox(&row, id, "tpl", true);
        ck_done(insert_sandbox(writer->crowd->store, &row, &err), err);
        writer->revisions[i] = row.revision;
    }
    return NULL;
}

/* Reads snapshots while others write: each must be consistent in itself. */
static void *read_much(void *argument)
{
    struct crowd *crowd = argument;
    struct error err = ERROR_INIT;
    int64_t last = 0;
    while (!atomic_load(&crowd->stop)) {
        struct store_view *view = NULL;
        ck_done(store_read_begin(crowd->store, &view, &err), err);
        struct usage_row usage;
        uint64_t counts[SANDBOX_STATE_COUNT];
        ck_done(store_usage_node(view, &usage, &err), err);
        ck_done(store_count_sandboxes(view, counts, &err), err);
        ck_assert_uint_eq(usage.regions, counts[SANDBOX_CREATING]);
        ck_assert_int_eq(store_revision(view), (int64_t)usage.regions + 1);
        ck_assert_int_ge(store_revision(view), last);
        last = store_revision(view);
        store_read_end(view);
    }
    return NULL;
}

static void count_units(void *context, int64_t duration_ns, size_t units)
{
    (void)duration_ns;
    struct crowd *crowd = context;
    (void)atomic_fetch_add(&crowd->committed, (unsigned int)units);
}

START_TEST(test_many_threads)
{
    char path[PATH_SIZE];
    path_of("crowd.db", path);
    struct crowd crowd = {.store = NULL};
    /* Fewer read connections than readers, so that these wait for each other too. */
    struct store_config config = {.path = path, .readers = 2, .on_commit = count_units, .context = &crowd};
    struct error err = ERROR_INIT;
    ck_done(store_open(&config, &crowd.store, &err), err);
    put_default_template(crowd.store);

    static struct crowd_writer writers[THREADS];
    pthread_t readers[3];
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&readers[i], NULL, read_much, &crowd), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (struct crowd_writer){.crowd = &crowd, .number = i};
        ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_much, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(writers[i].thread, NULL), 0);
    }
    atomic_store(&crowd.stop, true);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_join(readers[i], NULL), 0);
    }
    store_close(crowd.store);

    static bool seen[ALL_WRITES + 2];
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < WRITES; j++) {
            int64_t revision = writers[i].revisions[j];
            ck_assert_int_gt(revision, j == 0 ? 1 : writers[i].revisions[j - 1]);
            ck_assert_int_le(revision, ALL_WRITES + 1);
            ck_assert_msg(!seen[revision], "revision %lld was given twice", (long long)revision);
            seen[revision] = true;
        }
    }
    ck_assert_uint_eq(atomic_load(&crowd.committed), ALL_WRITES + 1);
    /* Each revision has its event and its audit record. */
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM audit a JOIN event e ON e.id / 256 = a.revision"),
                     ALL_WRITES + 1);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM event"), ALL_WRITES + 1);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM sandbox s JOIN audit a ON a.revision = s.revision"),
                     ALL_WRITES);
}
END_TEST

static int put_intent(struct store_txn *txn, void *argument, struct error *err)
{
    return store_template_put(txn, argument, err) < 0 ? -1 : add_event(txn, "intent", err);
}

/* What an intent wrote is there after a process that ended without closing anything, in its place among the
 * others. */
START_TEST(test_intent_outlives_the_process)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct store *store = open_store("intent.db");
        struct error err = ERROR_INIT;
        const struct store_actor actor = {
            .who = "test", .operation = "test", .object_id = "intent", .result = "intent"};
        struct template_row row;
        fill_template(&row, "first", "{}");
        bool written = put_template(store, &row, &err) == 0;
        fill_template(&row, "intent", "{}");
        written = written && store_write_intent(store, &actor, put_intent, &row, &err) == 0;
        (void)raise(written ? SIGKILL : SIGABRT);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child could not write");
    struct store *store = open_store("intent.db");
    struct error err = ERROR_INIT;
    auto_view struct store_view *view = NULL;
    struct template_row found;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_template_get(view, "intent", &found, &err), 1);
    ck_assert_int_eq(found.revision, 2);
    template_row_clear(&found);
    store_read_end(view);
    view = NULL;
    store_close(store);
}
END_TEST

TCase *write_case(void)
{
    TCase *tcase = tcase_create("writes");
    tcase_add_test(tcase, test_unit_without_event_is_refused);
    tcase_add_test(tcase, test_error_of_the_function_comes_back);
    tcase_add_test(tcase, test_ignored_failure_is_not_committed);
    tcase_add_test(tcase, test_views);
    tcase_add_test(tcase, test_units_share_a_commit);
    tcase_add_test(tcase, test_nothing_to_write);
    tcase_add_test(tcase, test_a_commit_that_fails_fails_all);
    tcase_add_test(tcase, test_a_database_that_was_moved);
    tcase_add_test(tcase, test_many_threads);
    tcase_add_test(tcase, test_intent_outlives_the_process);
    return tcase;
}
