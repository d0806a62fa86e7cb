#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

static int put(const char *id, const struct template_spec *spec, struct template_row *row, bool *created)
{
    return operations_template_put(fx.operations, &fx.caller, id, spec, row, created, &fx.err);
}

/* Expects success and hands the revision on. */
static int64_t put_ok(const char *id, const struct template_spec *spec, bool expect_created)
{
    struct template_row row;
    bool created = false;
    assert_works(put(id, spec, &row, &created));
    ck_assert_int_eq(created, expect_created);
    int64_t revision = row.revision;
    template_row_clear(&row);
    return revision;
}

static void put_fails(const struct template_spec *spec, const char *field, const char *part)
{
    struct template_row row;
    bool created;
    assert_fails(put("t", spec, &row, &created), REASON_INVALID_FIELD, "");
    assert_field(field, part);
}

START_TEST(defaults_are_filled_in)
{
    struct template_spec spec = {.enable_ivshmem = true};
    (void)put_ok("t", &spec, true);
    struct template_row row;
    assert_works(operations_template_get(fx.operations, &fx.caller, "t", &row, &fx.err));
    ck_assert_str_eq(row.id, "t");
    ck_assert(row.enable_ivshmem);
    ck_assert_uint_eq(row.region.size_bytes, 65536);
    ck_assert_int_eq(row.region.layout, REGION_LAYOUT_CHAN);
    ck_assert_int_eq(row.region.on_rollback, ON_ROLLBACK_RESTORE);
    ck_assert_uint_eq(row.region.vectors, 0);
    ck_assert_str_eq(row.annotations, "{}");
    template_row_clear(&row);
}
END_TEST

START_TEST(the_same_content_again_changes_nothing)
{
    struct string_pair there[] = {{"b", "2"}, {"a", "1"}};
    struct string_pair back[] = {{"a", "1"}, {"b", "2"}};
    struct template_spec spec = {.enable_ivshmem = true, .annotations = there, .annotation_count = 2};
    int64_t first = put_ok("t", &spec, true);
    int64_t before = newest_revision();
    spec.annotations = back;
    ck_assert_int_eq(put_ok("t", &spec, false), first);
    ck_assert_int_eq(newest_revision(), before);
    spec.enable_ivshmem = false;
    ck_assert_int_gt(put_ok("t", &spec, false), first);
    ck_assert_int_eq(newest_revision(), before + 1);
}
END_TEST

START_TEST(annotations_are_kept_in_canonical_form)
{
    struct string_pair pairs[] = {{"z", "\"quoted\""}, {"a", ""}, {"\xc3\xa4", "x\ny"}};
    struct template_spec spec = {.annotations = pairs, .annotation_count = 3};
    struct template_row row;
    bool created;
    assert_works(put("t", &spec, &row, &created));
    ck_assert_str_eq(row.annotations, "{\"a\":\"\",\"z\":\"\\\"quoted\\\"\",\"\xc3\xa4\":\"x\\ny\"}");
    template_row_clear(&row);
}
END_TEST

START_TEST(annotations_opt_in)
{
    static const struct {
        const char *value;
        bool expected;
    } cases[] = {{"true", true}, {"1", true}, {"false", false}, {"0", false}, {"TRUE", false}, {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct string_pair pair = {"cube.master.enable_ivshmem", cases[i].value};
        struct template_spec spec = {.annotations = &pair, .annotation_count = 1};
        struct template_row row;
        bool created;
        assert_works(put("t", &spec, &row, &created));
        ck_assert_msg(row.enable_ivshmem == cases[i].expected, "\"%s\" gave %d", cases[i].value,
                      row.enable_ivshmem);
        template_row_clear(&row);
        spec.enable_ivshmem = true; /* the annotation never opts out */
        assert_works(put("t", &spec, &row, &created));
        ck_assert(row.enable_ivshmem);
        template_row_clear(&row);
    }
}
END_TEST

START_TEST(annotations_are_bounded)
{
    struct string_pair pairs[65];
    char keys[65][16];
    for (int i = 0; i < 65; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "k%d", i);
        pairs[i] = (struct string_pair){keys[i], "v"};
    }
    struct template_spec spec = {.annotations = pairs, .annotation_count = 65};
    put_fails(&spec, "annotations", "at most 64");
    spec.annotation_count = 64;
    (void)put_ok("full", &spec, true);

    char key[258];
    memset(key, 'k', sizeof key - 1);
    key[257] = '\0';
    pairs[0].key = key;
    spec.annotation_count = 1;
    struct template_row row;
    bool created;
    assert_fails(put("t", &spec, &row, &created), REASON_INVALID_FIELD, "longer than 256");
    key[256] = '\0';
    (void)put_ok("longest-key", &spec, true);

    char *value = malloc(4098);
    ck_assert_ptr_nonnull(value);
    memset(value, 'v', 4097);
    value[4097] = '\0';
    pairs[0] = (struct string_pair){"k", value};
    put_fails(&spec, "annotations.k", "longer than 4096");
    value[4096] = '\0';
    (void)put_ok("longest-value", &spec, true);
    free(value);

    pairs[0] = (struct string_pair){"", "v"};
    put_fails(&spec, "annotations.", "empty");
    pairs[0] = (struct string_pair){"k", "\xff"};
    put_fails(&spec, "annotations.k", "UTF-8");
    pairs[0] = pairs[1] = (struct string_pair){"k", "v"};
    spec.annotation_count = 2;
    put_fails(&spec, "annotations.k", "twice");
}
END_TEST

START_TEST(sizes)
{
    static const struct {
        uint64_t size;
        const char *layout;
        const char *fault;
    } cases[] = {
        {4096, "raw", NULL},
        {16384, "raw", NULL},
        {16384, "chan", "raw or a larger"},
        {32768, "chan", NULL},
        {1048576, "chan", NULL},
        {0, "raw", "not a power of two"},
        {2048, "raw", "below the minimum of 4096"},
        {4097, "raw", "not a power of two"},
        {196608, "chan", "not a power of two"},
        {2097152, "chan", "above this host's maximum of 1048576"},
        {UINT64_MAX, "chan", "not a power of two"},
        {UINT64_C(1) << 63, "chan", "above this host's maximum"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct template_spec spec = {
            .has_size = true, .size_bytes = cases[i].size, .has_layout = true, .layout = cases[i].layout};
        struct template_row row;
        bool created;
        fx.err = ERROR_INIT;
        int result = put("t", &spec, &row, &created);
        ck_assert_msg((result == 0) == (cases[i].fault == NULL), "%llu %s: %d %s",
                      (unsigned long long)cases[i].size, cases[i].layout, result, fx.err.detail);
        if (result == 0)
            template_row_clear(&row);
        else
            assert_field("ivshmem.sizeBytes", cases[i].fault);
    }
}
END_TEST

START_TEST(all_bad_fields_are_reported_together)
{
    struct string_pair pair = {"k", "\xff"};
    struct template_spec spec = {.has_size = true,
                                 .size_bytes = 5,
                                 .has_layout = true,
                                 .layout = "ring",
                                 .has_on_rollback = true,
                                 .on_rollback = "forget",
                                 .has_vectors = true,
                                 .vectors = 2,
                                 .annotations = &pair,
                                 .annotation_count = 1};
    put_fails(&spec, "ivshmem.sizeBytes", "power of two");
    assert_field("ivshmem.layout", "\"chan\" or \"raw\"");
    assert_field("ivshmem.onRollback", "\"restore\", \"keep\" or \"clear\"");
    assert_field("ivshmem.vectors", "must be 0");
    assert_field("annotations.k", "UTF-8");
    ck_assert_uint_eq(fx.err.field_count, 5);
}
END_TEST

START_TEST(on_rollback_words)
{
    for (int value = ON_ROLLBACK_RESTORE; value <= ON_ROLLBACK_CLEAR; value++) {
        struct template_spec spec = {.has_on_rollback = true,
                                     .on_rollback = on_rollback_word((enum on_rollback)value)};
        struct template_row row;
        bool created;
        assert_works(put("t", &spec, &row, &created));
        ck_assert_int_eq(row.region.on_rollback, value);
        template_row_clear(&row);
    }
}
END_TEST

START_TEST(if_match)
{
    struct template_spec spec = {.enable_ivshmem = true};
    struct template_row row;
    bool created;
    fx.caller.has_if_match = true;
    fx.caller.if_match = 1;
    assert_fails(put("t", &spec, &row, &created), REASON_REVISION_STALE, "does not exist");
    fx.caller.has_if_match = false;
    int64_t revision = put_ok("t", &spec, true);
    fx.caller.has_if_match = true;
    fx.caller.if_match = revision + 1;
    spec.enable_ivshmem = false;
    assert_fails(put("t", &spec, &row, &created), REASON_REVISION_STALE, "is at revision");
    assert_fails(operations_template_delete(fx.operations, &fx.caller, "t", &fx.err), REASON_REVISION_STALE,
                 "");
    fx.caller.if_match = revision;
    fx.caller.if_match = put_ok("t", &spec, false);
    assert_works(operations_template_delete(fx.operations, &fx.caller, "t", &fx.err));
}
END_TEST

START_TEST(a_template_in_use_stays)
{
    put_template("t", false, 0);
    (void)create_sandbox("s", "t");
    assert_fails(operations_template_delete(fx.operations, &fx.caller, "t", &fx.err), REASON_TEMPLATE_IN_USE,
                 "t");
    delete_sandbox("s");
    assert_works(operations_template_delete(fx.operations, &fx.caller, "t", &fx.err));
    assert_fails(operations_template_delete(fx.operations, &fx.caller, "t", &fx.err),
                 REASON_TEMPLATE_NOT_FOUND, "no template t");
    struct template_row row;
    assert_fails(operations_template_get(fx.operations, &fx.caller, "t", &row, &fx.err),
                 REASON_TEMPLATE_NOT_FOUND, "");
}
END_TEST

START_TEST(pages_are_complete_and_without_repeats)
{
    enum { COUNT = 7 };
    for (int i = 0; i < COUNT; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "t%d", i);
        put_template(id, false, 0);
    }
    for (size_t limit = 1; limit <= COUNT + 1; limit++) {
        char token[PAGE_TOKEN_SIZE] = "";
        int seen = 0;
        do {
            char used[PAGE_TOKEN_SIZE];
            memcpy(used, token, sizeof used);
            struct page_request page = {.limit = limit, .page_token = used[0] != '\0' ? used : NULL};
            struct template_row *rows = NULL;
            size_t count = 0;
            assert_works(
                operations_template_list(fx.operations, &fx.caller, &page, &rows, &count, token, &fx.err));
            ck_assert_uint_le(count, limit);
            for (size_t i = 0; i < count; i++) {
                char id[16];
                (void)snprintf(id, sizeof id, "t%d", seen++);
                ck_assert_str_eq(rows[i].id, id);
            }
            store_template_list_free(rows, count);
        } while (token[0] != '\0');
        ck_assert_int_eq(seen, COUNT);
    }
}
END_TEST

/* 24 templates of 64 times 4 KiB are 6 MiB, whatever limit is asked for. */
START_TEST(long_annotations_make_short_pages)
{
    enum { COUNT = 24, PAIRS = 64, VALUE = 4096 };
    static char keys[PAIRS][8];
    static char value[VALUE + 1];
    struct string_pair pairs[PAIRS];
    memset(value, 'v', VALUE);
    for (int i = 0; i < PAIRS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "k%d", i);
        pairs[i] = (struct string_pair){.key = keys[i], .value = value};
    }
    struct template_spec spec = {.annotations = pairs, .annotation_count = PAIRS};
    char id[16];
    for (int i = 0; i < COUNT; i++) {
        struct template_row row;
        bool created = false;
        (void)snprintf(id, sizeof id, "t%02d", i);
        assert_works(operations_template_put(fx.operations, &fx.caller, id, &spec, &row, &created, &fx.err));
        template_row_clear(&row);
    }
    char token[PAGE_TOKEN_SIZE] = "";
    int seen = 0;
    do {
        char used[PAGE_TOKEN_SIZE];
        memcpy(used, token, sizeof used);
        struct page_request page = {.limit = 1000, .page_token = used[0] != '\0' ? used : NULL};
        struct template_row *rows = NULL;
        size_t count = 0;
        assert_works(
            operations_template_list(fx.operations, &fx.caller, &page, &rows, &count, token, &fx.err));
        ck_assert_uint_le(count, 4);
        for (size_t i = 0; i < count; i++) {
            (void)snprintf(id, sizeof id, "t%02d", seen++);
            ck_assert_str_eq(rows[i].id, id);
        }
        store_template_list_free(rows, count);
    } while (token[0] != '\0');
    ck_assert_int_eq(seen, COUNT);
}
END_TEST

START_TEST(bad_pages_are_refused)
{
    struct template_row *rows = NULL;
    struct sandbox_view *views = NULL;
    size_t count = 0;
    char token[PAGE_TOKEN_SIZE];
    put_template("a", false, 0);
    put_template("b", false, 0);
    struct page_request page = {.limit = 1};
    assert_works(operations_template_list(fx.operations, &fx.caller, &page, &rows, &count, token, &fx.err));
    store_template_list_free(rows, count);
    ck_assert_str_ne(token, "");
    /* A token of one list is none of another. */
    char other[PAGE_TOKEN_SIZE];
    page.page_token = token;
    assert_fails(operations_sandbox_list(fx.operations, &fx.caller, &page, &views, &count, other, &fx.err),
                 REASON_INVALID_PAGE_TOKEN, "");
    char endless[1000];
    memset(endless, 'A', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    const char *const bad[] = {"", "a", "!", "MXQ", "MnRh", "MXQuLi9h", "MXRhAA", endless};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        page.page_token = bad[i];
        assert_fails(
            operations_template_list(fx.operations, &fx.caller, &page, &rows, &count, other, &fx.err),
            REASON_INVALID_PAGE_TOKEN, "");
    }
    page = (struct page_request){.limit = 1001};
    assert_fails(operations_template_list(fx.operations, &fx.caller, &page, &rows, &count, other, &fx.err),
                 REASON_INVALID_PARAMETER, "at most 1000");
}
END_TEST

START_TEST(the_longest_id_makes_a_token)
{
    char first[ID_SIZE];
    char second[ID_SIZE];
    memset(first, 'y', sizeof first - 1);
    memset(second, 'z', sizeof second - 1);
    first[ID_SIZE - 1] = second[ID_SIZE - 1] = '\0';
    put_template(first, false, 0);
    put_template(second, false, 0);
    struct page_request page = {.limit = 1};
    struct template_row *rows = NULL;
    size_t count = 0;
    char token[PAGE_TOKEN_SIZE];
    char next[PAGE_TOKEN_SIZE];
    assert_works(operations_template_list(fx.operations, &fx.caller, &page, &rows, &count, token, &fx.err));
    store_template_list_free(rows, count);
    page.page_token = token;
    assert_works(operations_template_list(fx.operations, &fx.caller, &page, &rows, &count, next, &fx.err));
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(rows[0].id, second);
    ck_assert_str_eq(next, "");
    store_template_list_free(rows, count);
}
END_TEST

TCase *templates_tests(void)
{
    TCase *tests = tcase_create("templates");
    tcase_add_checked_fixture(tests, fixture_setup, fixture_teardown);
    tcase_add_test(tests, defaults_are_filled_in);
    tcase_add_test(tests, the_same_content_again_changes_nothing);
    tcase_add_test(tests, annotations_are_kept_in_canonical_form);
    tcase_add_test(tests, annotations_opt_in);
    tcase_add_test(tests, annotations_are_bounded);
    tcase_add_test(tests, sizes);
    tcase_add_test(tests, all_bad_fields_are_reported_together);
    tcase_add_test(tests, on_rollback_words);
    tcase_add_test(tests, if_match);
    tcase_add_test(tests, a_template_in_use_stays);
    tcase_add_test(tests, pages_are_complete_and_without_repeats);
    tcase_add_test(tests, long_annotations_make_short_pages);
    tcase_add_test(tests, bad_pages_are_refused);
    tcase_add_test(tests, the_longest_id_makes_a_token);
    return tests;
}
