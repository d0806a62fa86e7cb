/* Templates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/store/support.h"

START_TEST(test_put_get)
{
    struct store *store = open_store("template-get.db");
    struct template_row row;
    struct error err = ERROR_INIT;
    fill_template(&row, "t1", "{\"a\":\"b\"}");
    ck_done(put_template(store, &row, &err), err);
    ck_assert_int_eq(row.revision, 1);
    ck_assert_int_gt(row.created_ms, 0);

    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    struct template_row found = {.annotations = NULL};
    ck_assert_int_eq(store_template_get(view, "t1", &found, &err), 1);
    ck_assert_str_eq(found.id, "t1");
    ck_assert(found.enable_ivshmem);
    ck_assert_uint_eq(found.region.size_bytes, 1U << 20);
    ck_assert_int_eq(found.region.layout, REGION_LAYOUT_CHAN);
    ck_assert_int_eq(found.region.on_rollback, ON_ROLLBACK_KEEP);
    ck_assert_uint_eq(found.region.vectors, 2);
    ck_assert_str_eq(found.annotations, "{\"a\":\"b\"}");
    ck_assert_int_eq(found.revision, 1);
    ck_assert_int_eq(found.created_ms, row.created_ms);
    ck_assert_int_eq(found.updated_ms, row.updated_ms);
    ck_assert_int_eq(store_template_get(view, "t2", &found, &err), 0);
    store_read_end(view);
    template_row_clear(&found);
    template_row_clear(&row);
    store_close(store);
}
END_TEST

START_TEST(test_replace_keeps_creation_time)
{
    char path[PATH_SIZE];
    path_of("template-replace.db", path);
    struct store *store = open_store("template-replace.db");
    put_default_template(store);
    ck_assert_int_eq(sql_run(path, "UPDATE template SET created_ms = 5, updated_ms = 5"), 0);

    struct template_row row;
    struct error err = ERROR_INIT;
    fill_template(&row, "tpl", "{\"new\":\"1\"}");
    row.enable_ivshmem = false;
    row.region.size_bytes = 4096;
    ck_done(put_template(store, &row, &err), err);
    ck_assert_int_eq(row.created_ms, 5);
    ck_assert_int_gt(row.updated_ms, 5);
    ck_assert_int_eq(row.revision, 2);
    template_row_clear(&row);

    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_template_get(view, "tpl", &row, &err), 1);
    ck_assert(!row.enable_ivshmem);
    ck_assert_uint_eq(row.region.size_bytes, 4096);
    ck_assert_str_eq(row.annotations, "{\"new\":\"1\"}");
    ck_assert_int_eq(row.created_ms, 5);
    uint64_t count = 0;
    ck_done(store_count_templates(view, &count, &err), err);
    ck_assert_uint_eq(count, 1);
    store_read_end(view);
    template_row_clear(&row);
    store_close(store);
}
END_TEST

START_TEST(test_delete)
{
    struct store *store = open_store("template-delete.db");
    put_default_template(store);
    struct error err = ERROR_INIT;
    ck_done(delete_template(store, "tpl", &err), err);
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    struct template_row row;
    ck_assert_int_eq(store_template_get(view, "tpl", &row, &err), 0);
    store_read_end(view);
    ck_done(delete_template(store, "tpl", &err), err); /* what is not there is no error here */
    store_close(store);
}
END_TEST

START_TEST(test_used_one_cannot_be_deleted)
{
    struct store *store = open_store("template-used.db");
    put_default_template(store);
    struct sandbox_row sandbox;
    struct error err = ERROR_INIT;
    fill_sandbox(&sandbox, "sb", "tpl", false);
    ck_done(insert_sandbox(store, &sandbox, &err), err);
    ck_refused(delete_template(store, "tpl", &err), err, REASON_STORE_FAILED);
    ck_assert_msg(strstr(err.detail, "FOREIGN KEY") != NULL, "unclear detail: %s", err.detail);

    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_template_in_use(view, "tpl", &err), 1);
    ck_assert_int_eq(store_template_in_use(view, "other", &err), 0);
    ck_assert_int_eq(store_revision(view), 2);
    store_read_end(view);

    ck_done(delete_sandbox(store, "sb", &err), err);
    ck_done(store_read_begin(store, &view, &err), err);
    ck_assert_int_eq(store_template_in_use(view, "tpl", &err), 0);
    store_read_end(view);
    ck_done(delete_template(store, "tpl", &err), err);
    store_close(store);
}
END_TEST

START_TEST(test_pages)
{
    struct store *store = open_store("template-pages.db");
    struct error err = ERROR_INIT;
    for (int i = 10; i > 0; i--) { /* not in the order of the ids */
        struct template_row row;
        char id[8];
        (void)snprintf(id, sizeof id, "t%02d", i);
        fill_template(&row, id, "{}");
        ck_done(put_template(store, &row, &err), err);
        template_row_clear(&row);
    }
    struct store_view *view = NULL;
    ck_done(store_read_begin(store, &view, &err), err);
    char after[ID_SIZE] = "";
    size_t seen = 0, pages = 0;
    for (;; pages++) {
        struct template_row *rows = NULL;
        size_t count = 0;
        ck_done(store_template_list(view, after, 4, &rows, &count, &err), err);
        ck_assert_uint_le(count, 4);
        for (size_t i = 0; i < count; i++, seen++) {
            ck_assert_int_gt(strcmp(rows[i].id, after), 0);
            memcpy(after, rows[i].id, sizeof after);
        }
        store_template_list_free(rows, count);
        if (count == 0) {
            break;
        }
    }
    ck_assert_uint_eq(seen, 10);
    ck_assert_uint_eq(pages, 3);
    struct template_row *rows = NULL;
    size_t count = 0;
    ck_done(store_template_list(view, NULL, 100, &rows, &count, &err), err);
    ck_assert_uint_eq(count, 10);
    store_template_list_free(rows, count);
    store_read_end(view);
    store_close(store);
}
END_TEST

TCase *template_case(void)
{
    TCase *tcase = tcase_create("templates");
    tcase_add_test(tcase, test_put_get);
    tcase_add_test(tcase, test_replace_keeps_creation_time);
    tcase_add_test(tcase, test_delete);
    tcase_add_test(tcase, test_used_one_cannot_be_deleted);
    tcase_add_test(tcase, test_pages);
    return tcase;
}
