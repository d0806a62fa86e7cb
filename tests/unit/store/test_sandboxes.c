/* Sandboxes, their regions and the usage. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/store/support.h"

static void check_usage(struct store *store, uint64_t node_regions, uint64_t node_bytes, uint64_t uid_regions,
                        uint64_t uid_bytes)
{
    struct error err = ERROR_INIT;
    struct store_view *view = NULL;
    struct usage_row usage;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_done(store_usage_node(view, &usage, &err), err);
    ck_assert_uint_eq(usage.regions, node_regions);
    ck_assert_uint_eq(usage.bytes, node_bytes);
    ck_done(store_usage_uid(view, 1000, &usage, &err), err);
    ck_assert_uint_eq(usage.regions, uid_regions);
    ck_assert_uint_eq(usage.bytes, uid_bytes);
    store_read_end(view);
}

START_TEST(test_insert_get)
{
    struct store *store = open_store("sandbox-get.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    fill_sandbox(&row, "sb", "tpl", true);
    row.region.epoch = UINT64_MAX; /* all 64 bits are kept */
    row.region.identity =
        (struct region_identity){.device = 7, .inode = UINT64_MAX - 5, .birth_ns = 9, .boot_id = "b"};
    ck_done(insert_sandbox(store, &row, &err), err);
    ck_assert_int_eq(row.revision, 2);
    ck_assert_int_gt(row.created_ms, 0);
    ck_assert_int_eq(row.created_ms, row.updated_ms);

    struct store_view *view = NULL;
    struct sandbox_row found;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_sandbox_get(view, "none", &found, &err), 0);
    ck_assert_int_eq(store_sandbox_get(view, "sb", &found, &err), 1);
    store_read_end(view);
    ck_assert_str_eq(found.id, "sb");
    ck_assert_str_eq(found.template_id, "tpl");
    ck_assert_int_eq(found.state, SANDBOX_CREATING);
    ck_assert_str_eq(found.reason, "");
    ck_assert_int_eq(found.owner.kind, OWNER_PID);
    ck_assert_int_eq(found.owner.pid, 42);
    ck_assert_uint_eq(found.owner.start_time, UINT64_MAX - 1);
    ck_assert_str_eq(found.owner.boot_id, "boot");
    ck_assert_uint_eq(found.uid, 1000);
    ck_assert_uint_eq(found.gid, 1001);
    ck_assert_int_eq(found.revision, 2);
    ck_assert_int_eq(found.created_ms, row.created_ms);
    ck_assert(found.has_region);
    ck_assert_str_eq(found.region.sandbox_id, "sb");
    ck_assert_str_eq(found.region.name, "ivshmem-sb");
    ck_assert_str_eq(found.region.staging_token, "token-sb");
    ck_assert_uint_eq(found.region.settings.size_bytes, 1U << 20);
    ck_assert_int_eq(found.region.settings.layout, REGION_LAYOUT_RAW);
    ck_assert_int_eq(found.region.settings.on_rollback, ON_ROLLBACK_CLEAR);
    ck_assert_uint_eq(found.region.epoch, UINT64_MAX);
    ck_assert_int_eq(found.region.state, REGION_CREATING);
    ck_assert_uint_eq(found.region.uid, 1000);
    ck_assert_uint_eq(found.region.gid, 1001);
    ck_assert_uint_eq(found.region.identity.device, 7);
    ck_assert_uint_eq(found.region.identity.inode, UINT64_MAX - 5);
    ck_assert_int_eq(found.region.identity.birth_ns, 9);
    ck_assert_str_eq(found.region.identity.boot_id, "b");
    store_close(store);
}
END_TEST

START_TEST(test_longest_texts_fit)
{
    struct store *store = open_store("sandbox-long.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    char id[ID_SIZE];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    fill_sandbox(&row, id, "tpl", true);
    memset(row.region.name, 'n', sizeof row.region.name - 1);
    ck_done(insert_sandbox(store, &row, &err), err);
    struct store_view *view = NULL;
    struct sandbox_row found;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_sandbox_get(view, id, &found, &err), 1);
    store_read_end(view);
    ck_assert_str_eq(found.id, id);
    ck_assert_uint_eq(strlen(found.region.name), REGION_NAME_SIZE - 1);
    store_close(store);
}
END_TEST

START_TEST(test_without_region)
{
    char path[PATH_SIZE];
    path_of("sandbox-none.db", path);
    struct store *store = open_store("sandbox-none.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    fill_sandbox(&row, "sb", "tpl", false);
    ck_done(insert_sandbox(store, &row, &err), err);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM region"), 0);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM usage"), 0);
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_sandbox_get(view, "sb", &row, &err), 1);
    ck_assert(!row.has_region);
    ck_assert_str_eq(row.region.name, "");
    store_read_end(view);
    store_close(store);
}
END_TEST

START_TEST(test_update)
{
    struct store *store = open_store("sandbox-update.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    struct sandbox_row row, found;
    fill_sandbox(&row, "sb", "tpl", true);
    ck_done(insert_sandbox(store, &row, &err), err);

    row.state = SANDBOX_ORPHANED;
    (void)snprintf(row.reason, sizeof row.reason, "lease_expired");
    row.owner = (struct owner_row){
        .kind = OWNER_LEASE, .lease_seconds = 30, .lease_expires_boot_ms = 123456, .boot_id = "boot2"};
    row.orphaned_boot_ms = 777;
    row.region.state = REGION_LOST;
    (void)snprintf(row.region.reason, sizeof row.region.reason, "file_missing");
    row.region.epoch = 2;
    row.region.identity =
        (struct region_identity){.device = 1, .inode = 2, .birth_ns = 3, .boot_id = "boot2"};
    row.region.settings.size_bytes = 1; /* not one of the changeable columns */
    ck_done(update_sandbox(store, &row, &err), err);
    ck_assert_int_eq(row.revision, 3);

    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_sandbox_get(view, "sb", &found, &err), 1);
    uint64_t lost = 0;
    ck_done(store_count_lost_regions(view, &lost, &err), err);
    ck_assert_uint_eq(lost, 1);
    store_read_end(view);
    ck_assert_int_eq(found.state, SANDBOX_ORPHANED);
    ck_assert_str_eq(found.reason, "lease_expired");
    ck_assert_int_eq(found.owner.kind, OWNER_LEASE);
    ck_assert_int_eq(found.owner.pid, 0);
    ck_assert_int_eq(found.owner.lease_seconds, 30);
    ck_assert_int_eq(found.owner.lease_expires_boot_ms, 123456);
    ck_assert_str_eq(found.owner.boot_id, "boot2");
    ck_assert_int_eq(found.orphaned_boot_ms, 777);
    ck_assert_int_eq(found.revision, 3);
    ck_assert_int_eq(found.region.state, REGION_LOST);
    ck_assert_str_eq(found.region.reason, "file_missing");
    ck_assert_uint_eq(found.region.epoch, 2);
    ck_assert_uint_eq(found.region.identity.inode, 2);
    ck_assert_uint_eq(found.region.settings.size_bytes, 1U << 20);

    row.has_region = false; /* leaves the region's row as it is */
    row.state = SANDBOX_RUNNING;
    ck_done(update_sandbox(store, &row, &err), err);
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_sandbox_get(view, "sb", &found, &err), 1);
    store_read_end(view);
    ck_assert_int_eq(found.state, SANDBOX_RUNNING);
    ck_assert(found.has_region);
    ck_assert_int_eq(found.region.state, REGION_LOST);
    store_close(store);
}
END_TEST

START_TEST(test_update_of_what_is_gone)
{
    struct store *store = open_store("sandbox-gone.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    fill_sandbox(&row, "sb", "tpl", false);
    ck_refused(update_sandbox(store, &row, &err), err, REASON_SANDBOX_NOT_FOUND);
    ck_done(insert_sandbox(store, &row, &err), err);
    row.has_region = true; /* its row never was */
    row.state = SANDBOX_PAUSED;
    ck_refused(update_sandbox(store, &row, &err), err, REASON_STORE_FAILED);
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_sandbox_get(view, "sb", &row, &err), 1);
    ck_assert_int_eq(row.state, SANDBOX_CREATING);
    store_read_end(view);
    store_close(store);
}
END_TEST

START_TEST(test_what_the_schema_refuses)
{
    struct store *store = open_store("sandbox-refused.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    fill_sandbox(&row, "sb", "no-such-template", true);
    ck_refused(insert_sandbox(store, &row, &err), err, REASON_STORE_FAILED);
    ck_assert_msg(strstr(err.detail, "FOREIGN KEY") != NULL, "unclear detail: %s", err.detail);
    check_usage(store, 0, 0, 0, 0);

    fill_sandbox(&row, "sb", "tpl", true);
    ck_done(insert_sandbox(store, &row, &err), err);
    ck_refused(insert_sandbox(store, &row, &err), err, REASON_STORE_FAILED);

    /* Two regions never share a file: the second sandbox fails whole. */
    fill_sandbox(&row, "sb2", "tpl", true);
    (void)snprintf(row.region.name, sizeof row.region.name, "ivshmem-sb");
    ck_refused(insert_sandbox(store, &row, &err), err, REASON_STORE_FAILED);
    ck_assert_msg(strstr(err.detail, "region.name") != NULL, "unclear detail: %s", err.detail);
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_sandbox_get(view, "sb2", &row, &err), 0);
    store_read_end(view);
    check_usage(store, 1, 1U << 20, 1, 1U << 20);
    store_close(store);
}
END_TEST

START_TEST(test_usage)
{
    char path[PATH_SIZE];
    path_of("usage.db", path);
    struct store *store = open_store("usage.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    check_usage(store, 0, 0, 0, 0);
    fill_sandbox(&row, "a", "tpl", true);
    ck_done(insert_sandbox(store, &row, &err), err);
    fill_sandbox(&row, "b", "tpl", true);
    row.region.uid = 2000;
    row.region.settings.size_bytes = 4096;
    ck_done(insert_sandbox(store, &row, &err), err);
    fill_sandbox(&row, "c", "tpl", true);
    ck_done(insert_sandbox(store, &row, &err), err);
    check_usage(store, 3, (2U << 20) + 4096, 2, 2U << 20);
    ck_done(delete_sandbox(store, "a", &err), err);
    check_usage(store, 2, (1U << 20) + 4096, 1, 1U << 20);
    ck_done(delete_sandbox(store, "a", &err), err); /* gone already: fine, and takes nothing */
    check_usage(store, 2, (1U << 20) + 4096, 1, 1U << 20);
    ck_done(delete_sandbox(store, "b", &err), err);
    ck_done(delete_sandbox(store, "c", &err), err);
    check_usage(store, 0, 0, 0, 0);
    ck_assert_int_eq(sql_int(path, "SELECT count(*) FROM usage WHERE uid >= 0"), 0); /* no rows pile up */
    store_close(store);
}
END_TEST

START_TEST(test_names_and_tokens)
{
    struct store *store = open_store("names.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    struct sandbox_row row;
    fill_sandbox(&row, "sb", "tpl", true);
    ck_done(insert_sandbox(store, &row, &err), err);
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_region_name_known(view, "ivshmem-sb", &err), 1);
    ck_assert_int_eq(store_region_name_known(view, "ivshmem-s", &err), 0);
    ck_assert_int_eq(store_staging_token_known(view, "token-sb", &err), 1);
    ck_assert_int_eq(store_staging_token_known(view, "token", &err), 0);
    store_read_end(view);
    store_close(store);
}
END_TEST

START_TEST(test_pages_and_states)
{
    struct store *store = open_store("sandbox-pages.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    for (int i = 0; i < 25; i++) {
        struct sandbox_row row;
        char id[16];
        (void)snprintf(id, sizeof id, "sb-%03d", (i * 7) % 25);
        fill_sandbox(&row, id, "tpl", i % 2 == 0);
        row.state = i % 5 == 0 ? SANDBOX_PAUSED : SANDBOX_RUNNING;
        ck_done(insert_sandbox(store, &row, &err), err);
    }
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    char after[ID_SIZE] = "";
    size_t seen = 0;
    for (;;) {
        struct sandbox_row *rows = NULL;
        size_t count = 0;
        ck_done(store_sandbox_list(view, seen == 0 ? NULL : after, 10, &rows, &count, &err), err);
        ck_assert_uint_le(count, 10);
        for (size_t i = 0; i < count; i++, seen++) {
            ck_assert_int_gt(strcmp(rows[i].id, after), 0);
            memcpy(after, rows[i].id, sizeof after);
        }
        store_sandbox_list_free(rows, count);
        if (count == 0) {
            break;
        }
    }
    ck_assert_uint_eq(seen, 25);

    struct sandbox_row *rows = NULL;
    size_t count = 0;
    ck_done(store_sandbox_list_state(view, SANDBOX_PAUSED, NULL, 3, &rows, &count, &err), err);
    ck_assert_uint_eq(count, 3);
    (void)snprintf(after, sizeof after, "%s", rows[2].id);
    store_sandbox_list_free(rows, count);
    ck_done(store_sandbox_list_state(view, SANDBOX_PAUSED, after, 100, &rows, &count, &err), err);
    ck_assert_uint_eq(count, 2);
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(rows[i].state, SANDBOX_PAUSED);
        ck_assert_int_gt(strcmp(rows[i].id, after), 0);
    }
    store_sandbox_list_free(rows, count);

    uint64_t counts[SANDBOX_STATE_COUNT];
    ck_done(store_count_sandboxes(view, counts, &err), err);
    ck_assert_uint_eq(counts[SANDBOX_PAUSED], 5);
    ck_assert_uint_eq(counts[SANDBOX_RUNNING], 20);
    ck_assert_uint_eq(counts[SANDBOX_CREATING] + counts[SANDBOX_ORPHANED] + counts[SANDBOX_DELETING], 0);
    store_read_end(view);
    store_close(store);
}
END_TEST

TCase *sandbox_case(void)
{
    TCase *tcase = tcase_create("sandboxes");
    tcase_add_test(tcase, test_insert_get);
    tcase_add_test(tcase, test_longest_texts_fit);
    tcase_add_test(tcase, test_without_region);
    tcase_add_test(tcase, test_update);
    tcase_add_test(tcase, test_update_of_what_is_gone);
    tcase_add_test(tcase, test_what_the_schema_refuses);
    tcase_add_test(tcase, test_usage);
    tcase_add_test(tcase, test_names_and_tokens);
    tcase_add_test(tcase, test_pages_and_states);
    return tcase;
}
