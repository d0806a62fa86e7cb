/* Events, audit records, idempotency keys, and how they are pruned. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/store/support.h"

struct many {
    unsigned int count;
};

static int add_many(struct store_txn *txn, void *argument, struct error *err)
{
    const struct many *many = argument;
    for (unsigned int i = 0; i < many->count; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "%u", i);
        if (store_event_add(txn, "test.happened", "test", id, i % 2 == 0 ? "{\"n\":1}" : NULL, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static void add_units(struct store *store, const unsigned int *counts, size_t units)
{
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < units; i++) {
        struct many many = {.count = counts[i]};
        ck_done(write_unit(store, add_many, &many, &err), err);
    }
}

/* Lists from `since` and checks that whole units come: answers the number of events and the last revision. */
static size_t list_page(struct store *store, int64_t since, size_t limit, int64_t *last)
{
    struct error err = ERROR_INIT;
    struct store_view *view = NULL;
    struct event_row *rows = NULL;
    size_t count = 0;
    int64_t newest = 0;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_done(store_event_list(view, since, limit, &rows, &count, &newest, &err), err);
    ck_assert_int_eq(newest, store_revision(view));
    store_read_end(view);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_gt(rows[i].revision, since);
        ck_assert(i == 0 || rows[i].revision >= rows[i - 1].revision);
    }
    *last = count > 0 ? rows[count - 1].revision : since;
    store_event_list_free(rows, count);
    return count;
}

START_TEST(test_content)
{
    struct store *store = open_store("event-content.db");
    add_units(store, (unsigned int[]){2}, 1);
    struct error err = ERROR_INIT;
    struct store_view *view = NULL;
    struct event_row *rows = NULL;
    size_t count = 0;
    int64_t newest = 0;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_done(store_event_list(view, 0, 10, &rows, &count, &newest, &err), err);
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(newest, 1);
    ck_assert_int_eq(rows[0].revision, 1);
    ck_assert_int_eq(rows[1].revision, 1);
    ck_assert_int_gt(rows[0].time_ms, 0);
    ck_assert_str_eq(rows[0].kind, "test.happened");
    ck_assert_str_eq(rows[0].object_kind, "test");
    ck_assert_str_eq(rows[0].object_id, "0");
    ck_assert_str_eq(rows[1].object_id, "1");
    ck_assert_str_eq(rows[0].detail, "{\"n\":1}");
    ck_assert_ptr_null(rows[1].detail);
    store_event_list_free(rows, count);

    ck_done(store_event_list(view, 1, 10, &rows, &count, &newest, &err), err);
    ck_assert_uint_eq(count, 0);
    store_event_list_free(rows, count);
    ck_done(store_event_list(view, INT64_MAX, 10, &rows, &count, &newest, &err), err);
    ck_assert_uint_eq(count, 0);
    store_read_end(view);
    store_close(store);
}
END_TEST

START_TEST(test_pages_hold_whole_units)
{
    struct store *store = open_store("event-pages.db");
    add_units(store, (unsigned int[]){1, 3, 2, 5, 1}, 5);
    int64_t last = 0;
    ck_assert_uint_eq(list_page(store, 0, 5, &last), 4); /* 1 + 3; the 2 do not fit */
    ck_assert_int_eq(last, 2);
    ck_assert_uint_eq(list_page(store, last, 2, &last), 2);
    ck_assert_int_eq(last, 3);
    ck_assert_uint_eq(list_page(store, last, 2, &last), 5); /* larger than the limit, yet whole */
    ck_assert_int_eq(last, 4);
    ck_assert_uint_eq(list_page(store, last, 2, &last), 1);
    ck_assert_int_eq(last, 5);
    ck_assert_uint_eq(list_page(store, last, 2, &last), 0);
    ck_assert_uint_eq(list_page(store, 0, 12, &last), 12);
    ck_assert_uint_eq(list_page(store, 0, 1000, &last), 12);
    store_close(store);
}
END_TEST

START_TEST(test_too_many_in_a_unit)
{
    struct store *store = open_store("event-many.db");
    struct error err = ERROR_INIT;
    struct many many = {.count = 256};
    ck_done(write_unit(store, add_many, &many, &err), err);
    many.count = 257;
    ck_refused(write_unit(store, add_many, &many, &err), err, REASON_INTERNAL);
    int64_t last = 0;
    ck_assert_uint_eq(list_page(store, 0, 10, &last), 256);
    ck_assert_int_eq(last, 1);
    store_close(store);
}
END_TEST

START_TEST(test_audit)
{
    char path[PATH_SIZE];
    path_of("audit.db", path);
    struct store *store = open_store("audit.db");
    struct error err = ERROR_INIT;
    struct many many = {.count = 3};
    struct store_actor actor = {.who = "uid=7 pid=8",
                                .request_id = "req",
                                .operation = "sandbox.create",
                                .object_id = "sb",
                                .result = "ok"};
    ck_done(store_write(store, &actor, add_many, &many, &err), err);
    actor.request_id = NULL;
    ck_done(store_write(store, &actor, add_many, &many, &err), err);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM audit"), 2); /* one a unit, whatever its events */
    ck_assert_int_eq(sql_int(path,
                             "SELECT count(*) FROM audit WHERE revision = 1 AND who = 'uid=7 pid=8' AND"
                             " request_id = 'req' AND operation = 'sandbox.create' AND object_id = 'sb' AND"
                             " result = 'ok' AND time_ms > 0"),
                     1);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM audit WHERE revision = 2 AND request_id IS NULL"),
                     1);
    store_close(store);
}
END_TEST

static size_t prune(struct store *store, uint64_t keep, int64_t keys_before_ms, size_t limit)
{
    struct error err = ERROR_INIT;
    size_t removed = SIZE_MAX;
    ck_done(store_prune(store, keep, keys_before_ms, limit, &removed, &err), err);
    return removed;
}

START_TEST(test_prune)
{
    char path[PATH_SIZE];
    path_of("prune.db", path);
    struct store *store = open_store("prune.db");
    add_units(store, (unsigned int[]){1, 1, 3, 1, 1, 1, 1, 1, 1, 1}, 10);
    ck_assert_uint_eq(prune(store, 10, 0, 100), 0);
    ck_assert_uint_eq(prune(store, 100, 0, 100), 0);
    int64_t last = 0;
    ck_assert_uint_eq(list_page(store, 0, 100, &last), 12);

    /* Down to 6 units in steps of 3 rows, the second of which cuts through the third unit. */
    ck_assert_uint_eq(prune(store, 6, 0, 3), 6); /* events 1 1 and one of 3; audit records 1 2 3 */
    struct error err = ERROR_INIT;
    struct store_view *view = NULL;
    struct event_row *rows = NULL;
    size_t count = 0;
    int64_t newest = 0;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_refused(store_event_list(view, 2, 100, &rows, &count, &newest, &err), err, REASON_REVISION_COMPACTED);
    store_read_end(view);
    ck_assert_uint_eq(list_page(store, 3, 100, &last), 7); /* since the third nothing is missing */
    ck_assert_uint_eq(prune(store, 6, 0, 3), 4);
    ck_assert_uint_eq(prune(store, 6, 0, 3), 0);
    ck_assert_uint_eq(list_page(store, 4, 100, &last), 6);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM audit"), 6);
    ck_assert_int_eq(sql_int(path, "SELECT min(revision) FROM audit"), 5);

    /* The floor outlives the process. */
    store_close(store);
    store = open_store("prune.db");
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_revision(view), 10);
    ck_refused(store_event_list(view, 3, 100, &rows, &count, &newest, &err), err, REASON_REVISION_COMPACTED);
    ck_done(store_event_list(view, 4, 100, &rows, &count, &newest, &err), err);
    ck_assert_uint_eq(count, 6);
    store_event_list_free(rows, count);
    store_read_end(view);
    ck_assert_uint_eq(prune(store, 0, 0, 100), 12);
    ck_assert_uint_eq(list_page(store, 10, 100, &last), 0);
    store_close(store);
}
END_TEST

static int put_key(struct store_txn *txn, void *argument, struct error *err)
{
    if (store_idempotency_put(txn, argument, err) < 0) {
        return -1;
    }
    return store_event_add(txn, "key.used", "key", "key", NULL, err);
}

START_TEST(test_idempotency)
{
    struct store *store = open_store("keys.db");
    struct error err = ERROR_INIT;
    struct idempotency_row row = {.key = "0:one", .request = "sandbox.pause sb", .created_ms = 100};
    ck_done(write_unit(store, put_key, &row, &err), err);
    struct idempotency_row second = {.key = "0:two", .request = "sandbox.pause sb", .created_ms = 200};
    ck_done(write_unit(store, put_key, &second, &err), err);

    struct store_view *view = NULL;
    struct idempotency_row found;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_idempotency_get(view, "1:one", &found, &err), 0);
    ck_assert_int_eq(store_idempotency_get(view, "0:one", &found, &err), 1);
    store_read_end(view);
    ck_assert_str_eq(found.key, "0:one");
    ck_assert_str_eq(found.request, "sandbox.pause sb");
    ck_assert_int_eq(found.created_ms, 100);

    ck_assert_uint_eq(prune(store, 100, 100, 100), 0);
    ck_assert_uint_eq(prune(store, 100, 101, 100), 1);
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_idempotency_get(view, "0:one", &found, &err), 0);
    ck_assert_int_eq(store_idempotency_get(view, "0:two", &found, &err), 1);
    ck_assert_int_eq(store_revision(view), 2); /* pruning raises no revision */
    store_read_end(view);
    store_close(store);
}
END_TEST

TCase *event_case(void)
{
    TCase *tcase = tcase_create("events");
    tcase_add_test(tcase, test_content);
    tcase_add_test(tcase, test_pages_hold_whole_units);
    tcase_add_test(tcase, test_too_many_in_a_unit);
    tcase_add_test(tcase, test_audit);
    tcase_add_test(tcase, test_prune);
    tcase_add_test(tcase, test_idempotency);
    return tcase;
}
