/* Links and their ends. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/store/support.h"

static void fill_link(struct link_row *row, const char *id, const char *first, const char *second)
{
    *row = (struct link_row){.uid = 1000, .gid = 100, .state = LINK_CREATING};
    (void)snprintf(row->id, sizeof row->id, "%s", id);
    for (size_t end = 0; end < 2; end++)
        (void)snprintf(row->ends[end].type, sizeof row->ends[end].type, "vhost-user");
    (void)snprintf(row->ends[0].sandbox_id, sizeof row->ends[0].sandbox_id, "%s", first);
    (void)snprintf(row->ends[1].sandbox_id, sizeof row->ends[1].sandbox_id, "%s", second);
}

static int insert(struct store_txn *txn, void *argument, struct error *err)
{
    struct link_row *row = argument;
    return store_link_insert(txn, row, err) < 0 ? -1 : add_event(txn, row->id, err);
}

static int update(struct store_txn *txn, void *argument, struct error *err)
{
    struct link_row *row = argument;
    return store_link_update(txn, row, err) < 0 ? -1 : add_event(txn, row->id, err);
}

static int erase(struct store_txn *txn, void *argument, struct error *err)
{
    return store_link_delete(txn, argument, err) < 0 ? -1 : add_event(txn, argument, err);
}

static void put_link(struct store *store, const char *id, const char *first, const char *second,
                     enum link_row_state state)
{
    struct error err = ERROR_INIT;
    struct link_row row;
    fill_link(&row, id, first, second);
    row.state = state;
    ck_done(write_unit(store, insert, &row, &err), err);
}

/* 1 when found. */
static int get(struct store *store, const char *id, struct link_row *row)
{
    struct error err = ERROR_INIT;
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    const int found = store_link_get(view, id, row, &err);
    store_read_end(view);
    ck_assert_msg(found >= 0, "%s", err.detail);
    return found;
}

START_TEST(test_a_link_comes_back_as_it_was_stored)
{
    struct error err = ERROR_INIT;
    struct store *store = open_store("link_back.db");
    struct link_row row;
    struct link_row read;
    fill_link(&row, "l", "a", "");
    row.ends[0].mtu = 9000;
    row.ends[1].role = LINK_ROLE_CLIENT;
    memset(row.ends[1].socket_path, 'p', sizeof row.ends[1].socket_path - 1);
    ck_assert_int_eq(get(store, "l", &read), 0);
    ck_done(write_unit(store, insert, &row, &err), err);
    ck_assert_int_eq(get(store, "l", &read), 1);
    ck_assert_str_eq(read.id, "l");
    ck_assert_int_eq(read.state, LINK_CREATING);
    ck_assert_uint_eq(read.uid, 1000);
    ck_assert_uint_eq(read.gid, 100);
    ck_assert_int_eq(read.revision, row.revision);
    ck_assert_int_eq(read.created_ms, row.created_ms);
    ck_assert_int_eq(read.updated_ms, row.created_ms);
    for (size_t end = 0; end < 2; end++) {
        ck_assert_str_eq(read.ends[end].type, "vhost-user");
        ck_assert_str_eq(read.ends[end].sandbox_id, row.ends[end].sandbox_id);
        ck_assert_int_eq(read.ends[end].role, row.ends[end].role);
        ck_assert_str_eq(read.ends[end].socket_path, row.ends[end].socket_path);
        ck_assert_uint_eq(read.ends[end].mtu, row.ends[end].mtu);
    }
    ck_refused(write_unit(store, insert, &row, &err), err, REASON_STORE_FAILED); /* the id is taken */
    store_close(store);
}
END_TEST

START_TEST(test_only_the_state_changes)
{
    struct error err = ERROR_INIT;
    struct store *store = open_store("link_update.db");
    struct link_row row;
    struct link_row read;
    put_link(store, "l", "a", "b", LINK_CREATING);
    ck_assert_int_eq(get(store, "l", &row), 1);
    const int64_t created = row.revision;
    row.state = LINK_READY;
    row.ends[0].mtu = 1400;
    ck_done(write_unit(store, update, &row, &err), err);
    ck_assert_int_gt(row.revision, created);
    ck_assert_int_eq(get(store, "l", &read), 1);
    ck_assert_int_eq(read.state, LINK_READY);
    ck_assert_int_eq(read.revision, row.revision);
    ck_assert_uint_eq(read.ends[0].mtu, 0);
    char id[] = "l";
    ck_done(write_unit(store, erase, id, &err), err);
    ck_assert_int_eq(get(store, "l", &read), 0);
    ck_done(write_unit(store, erase, id, &err), err); /* not there: fine */
    ck_refused(write_unit(store, update, &row, &err), err, REASON_LINK_NOT_FOUND);
    char path[PATH_SIZE];
    path_of("link_update.db", path);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM link_end"), 0);
    store_close(store);
}
END_TEST

static void expect_ids(const struct link_row *rows, size_t count, const char *expected)
{
    char ids[64] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(ids + used, sizeof ids - used, "%s", rows[i].id);
    ck_assert_str_eq(ids, expected);
}

START_TEST(test_lists)
{
    struct error err = ERROR_INIT;
    struct store *store = open_store("link_list.db");
    struct store_view *view = NULL;
    struct link_row *rows = NULL;
    size_t count = 0;
    uint64_t counts[LINK_STATE_COUNT];
    put_link(store, "c", "x", "y", LINK_READY);
    put_link(store, "a", "x", "x", LINK_READY);
    put_link(store, "d", "", "", LINK_DELETING);
    put_link(store, "b", "y", "x", LINK_CREATING);
    ck_done(store_read_begin(store, &view, &err), err);
    static const struct {
        const char *sandbox_id, *after_id;
        size_t limit;
        const char *expected;
    } cases[] = {{NULL, NULL, 10, "abcd"}, {NULL, "a", 2, "bc"}, {"x", NULL, 10, "abc"}, {"x", "a", 1, "b"},
                 {"y", "", 10, "bc"},      {"z", "", 10, ""},    {"", "", 10, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (cases[i].sandbox_id == NULL)
            ck_done(store_link_list(view, cases[i].after_id, cases[i].limit, &rows, &count, &err), err);
        else
            ck_done(store_link_list_by_sandbox(view, cases[i].sandbox_id, cases[i].after_id, cases[i].limit,
                                               &rows, &count, &err),
                    err);
        expect_ids(rows, count, cases[i].expected);
        store_link_list_free(rows, count);
    }
    static const char *const by_state[LINK_STATE_COUNT] = {
        [LINK_CREATING] = "b", [LINK_READY] = "ac", [LINK_DELETING] = "d"};
    for (int state = 0; state < LINK_STATE_COUNT; state++) {
        ck_done(store_link_list_state(view, (enum link_row_state)state, NULL, 10, &rows, &count, &err), err);
        expect_ids(rows, count, by_state[state]);
        store_link_list_free(rows, count);
    }
    ck_done(store_count_links(view, counts, &err), err);
    ck_assert_uint_eq(counts[LINK_CREATING], 1);
    ck_assert_uint_eq(counts[LINK_READY], 2);
    ck_assert_uint_eq(counts[LINK_DELETING], 1);
    store_read_end(view);
    store_close(store);
}
END_TEST

START_TEST(test_a_sandbox_marks_its_links)
{
    struct error err = ERROR_INIT;
    struct store *store = open_store("link_mark.db");
    struct sandbox_row sandbox;
    struct link_row row;
    put_default_template(store);
    fill_sandbox(&sandbox, "x", "tpl", false);
    ck_done(insert_sandbox(store, &sandbox, &err), err);
    put_link(store, "first", "x", "y", LINK_READY);
    put_link(store, "second", "y", "x", LINK_CREATING);
    put_link(store, "other", "y", "", LINK_READY);
    ck_assert_int_eq(get(store, "first", &row), 1);
    const int64_t before = row.revision;
    ck_done(delete_sandbox(store, "x", &err), err);
    ck_assert_int_eq(get(store, "first", &row), 1);
    ck_assert_int_eq(row.state, LINK_DELETING);
    ck_assert_int_gt(row.revision, before);
    ck_assert_int_eq(get(store, "second", &row), 1);
    ck_assert_int_eq(row.state, LINK_DELETING);
    ck_assert_int_eq(get(store, "other", &row), 1);
    ck_assert_int_eq(row.state, LINK_READY);
    store_close(store);
}
END_TEST

TCase *link_case(void)
{
    TCase *tcase = tcase_create("links");
    tcase_add_test(tcase, test_a_link_comes_back_as_it_was_stored);
    tcase_add_test(tcase, test_only_the_state_changes);
    tcase_add_test(tcase, test_lists);
    tcase_add_test(tcase, test_a_sandbox_marks_its_links);
    return tcase;
}
