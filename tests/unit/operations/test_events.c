/* Events, node, and what is recorded of a failure. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fixture.h"

static struct event_row *events;
static size_t count;
static int64_t last;
static int64_t newest;

static int list(int64_t since, size_t limit)
{
    return operations_event_list(fx.operations, &fx.caller, since, limit, &events, &count, &last, &newest,
                                 &fx.err);
}

static void assert_kinds(const char *const *kinds, size_t expected)
{
    ck_assert_uint_eq(count, expected);
    for (size_t i = 0; i < expected; i++)
        ck_assert_str_eq(events[i].kind, kinds[i]);
}

START_TEST(a_life_in_events)
{
    put_template("t", true, 0);
    (void)create_sandbox("s", "t");
    struct sandbox_view view;
    assert_works(operations_sandbox_pause(fx.operations, &fx.caller, "s", &view, &fx.err));
    assert_works(operations_sandbox_resume(fx.operations, &fx.caller, "s", NULL, &view, &fx.err));
    static const char *const kinds[] = {"template.created", "sandbox.creating", "sandbox.created",
                                        "sandbox.paused", "sandbox.resumed"};
    assert_works(list(0, 0));
    assert_kinds(kinds, 5);
    ck_assert_str_eq(events[2].object_kind, "sandbox");
    ck_assert_str_eq(events[2].object_id, "s");
    ck_assert_str_eq(events[2].detail, "{\"templateID\":\"t\",\"sizeBytes\":65536}");
    ck_assert_int_eq(last, newest);
    ck_assert_int_eq(newest, newest_revision());
    store_event_list_free(events, count);
}
END_TEST

START_TEST(a_create_that_failed_is_told)
{
    put_template("t", true, 0);
    char path[256];
    region_path("s", path);
    ck_assert_int_eq(symlink("/nowhere", path), 0);
    struct sandbox_spec spec = {.template_id = "t"};
    struct sandbox_view view;
    bool created;
    assert_fails(operations_sandbox_create(fx.operations, &fx.caller, "s", &spec, &view, &created, &fx.err),
                 REASON_FILE_EXISTS, "");
    static const char *const kinds[] = {"template.created", "sandbox.creating", "sandbox.create_failed"};
    assert_works(list(0, 0));
    assert_kinds(kinds, 3);
    ck_assert_str_eq(events[2].detail, "{\"reason\":\"file_exists\"}");
    store_event_list_free(events, count);
}
END_TEST

START_TEST(pages_follow_each_other)
{
    put_template("t", true, 0);
    (void)create_sandbox("a", "t");
    (void)create_sandbox("b", "t");
    for (size_t limit = 1; limit <= 6; limit++) {
        int64_t since = 0;
        size_t seen = 0;
        int64_t previous = 0;
        do {
            assert_works(list(since, limit));
            ck_assert_uint_le(count, limit);
            for (size_t i = 0; i < count; i++, seen++) {
                ck_assert_int_gt(events[i].revision, previous);
                previous = events[i].revision;
            }
            store_event_list_free(events, count);
            ck_assert(last > since || last == newest);
            since = last;
        } while (since < newest);
        ck_assert_uint_eq(seen, 5);
    }
}
END_TEST

static int write_three(struct store_txn *txn, void *argument, struct error *err)
{
    (void)argument;
    for (int i = 0; i < 3; i++)
        if (store_event_add(txn, "sandbox.tested", "sandbox", "s", NULL, err) != 0)
            return -1;
    return 0;
}

START_TEST(a_revision_is_never_cut_in_two)
{
    struct store_actor actor = {.who = "test", .operation = "test", .object_id = "s", .result = "ok"};
    for (int i = 0; i < 3; i++)
        assert_works(store_write(fx.store, &actor, write_three, NULL, &fx.err));
    for (size_t limit = 1; limit <= 10; limit++) {
        int64_t since = 0;
        size_t seen = 0;
        do {
            assert_works(list(since, limit));
            ck_assert_uint_gt(count, 0);
            ck_assert_uint_eq(count % 3, 0);
            seen += count;
            store_event_list_free(events, count);
            since = last;
        } while (since < newest);
        ck_assert_uint_eq(seen, 9);
    }
}
END_TEST

START_TEST(without_a_start_all_that_is_kept)
{
    assert_works(list(EVENTS_SINCE_OLDEST, 0));
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(last, 0);
    for (const char *id = "abcdef"; *id != '\0'; id++)
        put_template(id, false, 0);
    assert_works(list(EVENTS_SINCE_OLDEST, 0));
    ck_assert_uint_eq(count, 6);
    store_event_list_free(events, count);
    size_t removed = 0;
    assert_works(store_prune(fx.store, 2, 0, 100, &removed, &fx.err));
    assert_fails(list(0, 0), REASON_REVISION_COMPACTED, "up to revision 4");
    assert_fails(list(3, 0), REASON_REVISION_COMPACTED, "");
    assert_works(list(EVENTS_SINCE_OLDEST, 1));
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(events[0].revision, 5);
    ck_assert_int_eq(last, 5);
    store_event_list_free(events, count);
    assert_works(store_prune(fx.store, 0, 0, 100, &removed, &fx.err));
    assert_works(list(EVENTS_SINCE_OLDEST, 0));
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(last, 6);
}
END_TEST

START_TEST(bad_starts)
{
    put_template("t", true, 0);
    assert_fails(list(-2, 0), REASON_INVALID_PARAMETER, "since is -2");
    assert_fails(list(newest_revision() + 1, 0), REASON_INVALID_PARAMETER, "the newest revision");
    assert_fails(list(0, 1001), REASON_INVALID_PARAMETER, "at most 1000");
    assert_works(list(newest_revision(), 0));
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(last, newest);
    store_event_list_free(events, count);
}
END_TEST

START_TEST(node_counts)
{
    put_template("t", true, 0);
    put_template("plain", false, 0);
    (void)create_sandbox("a", "t");
    (void)create_sandbox("b", "t");
    (void)create_sandbox("c", "plain");
    struct sandbox_view view;
    assert_works(operations_sandbox_pause(fx.operations, &fx.caller, "b", &view, &fx.err));
    struct node_view node;
    assert_works(operations_node_get(fx.operations, &fx.caller, &node, &fx.err));
    ck_assert(node.ready);
    ck_assert_uint_eq(node.templates, 2);
    ck_assert_uint_eq(node.sandboxes[SANDBOX_RUNNING], 2);
    ck_assert_uint_eq(node.sandboxes[SANDBOX_PAUSED], 1);
    ck_assert_uint_eq(node.usage.regions, 2);
    ck_assert_uint_eq(node.usage.bytes, 131072);
    ck_assert_int_eq(node.revision, newest_revision());
    ck_assert_str_eq(node.shm_directory, fx.shm);
    ck_assert_uint_gt(node.shm_total_bytes, 0);
    ck_assert_uint_gt(node.state_total_bytes, 0);
    ck_assert_uint_eq(strlen(node.boot_id), BOOT_ID_SIZE - 1);
    ck_assert_str_ne(node.hostname, "");
    ck_assert_int_eq(node.schema_version, store_schema_version());
    assert_works(operations_collect_metrics(fx.operations, &fx.err));
}
END_TEST

TCase *events_tests(void)
{
    TCase *tests = tcase_create("events");
    tcase_add_checked_fixture(tests, fixture_setup, fixture_teardown);
    tcase_add_test(tests, a_life_in_events);
    tcase_add_test(tests, a_create_that_failed_is_told);
    tcase_add_test(tests, pages_follow_each_other);
    tcase_add_test(tests, a_revision_is_never_cut_in_two);
    tcase_add_test(tests, without_a_start_all_that_is_kept);
    tcase_add_test(tests, bad_starts);
    tcase_add_test(tests, node_counts);
    return tests;
}
