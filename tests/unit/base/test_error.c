/* Errors and the table of reasons. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "tests/unit/base/cases.h"

START_TEST(test_set)
{
    struct error err = ERROR_INIT;
    ck_assert_int_eq(error_set(&err, REASON_NO_SPACE, "%d of %s", 7, "nine"), -1);
    ck_assert_int_eq(err.reason, REASON_NO_SPACE);
    ck_assert_int_eq(err.sys_errno, 0);
    ck_assert_str_eq(err.detail, "7 of nine");
    ck_assert_int_eq(error_set(NULL, REASON_NO_SPACE, "nobody listens"), -1);
}
END_TEST

START_TEST(test_set_errno)
{
    struct error err = ERROR_INIT;
    ck_assert_int_eq(error_set_errno(&err, REASON_INTERNAL, ENOENT, "cannot open %s", "x"), -1);
    ck_assert_int_eq(err.sys_errno, ENOENT);
    ck_assert_str_eq(err.detail, "cannot open x: No such file or directory");
    ck_assert_int_eq(error_set_errno(NULL, REASON_INTERNAL, ENOENT, "nobody listens"), -1);
    (void)error_set(&err, REASON_INTERNAL, "something else");
    ck_assert_int_eq(err.sys_errno, 0); /* nothing of the error before stays */
}
END_TEST

START_TEST(test_wrap)
{
    struct error err = ERROR_INIT;
    (void)error_set_errno(&err, REASON_FILE_EXISTS, EEXIST, "link");
    ck_assert_int_eq(error_wrap(&err, "creating %s: ", "sb"), -1);
    ck_assert_str_eq(err.detail, "creating sb: link: File exists");
    ck_assert_int_eq(err.reason, REASON_FILE_EXISTS);
    ck_assert_int_eq(err.sys_errno, EEXIST);
    ck_assert_int_eq(error_wrap(NULL, "nobody listens"), -1);
}
END_TEST

START_TEST(test_long_details_are_cut)
{
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct error err = ERROR_INIT;
    (void)error_set_errno(&err, REASON_INTERNAL, ENOENT, "%s", text);
    ck_assert_uint_eq(strlen(err.detail), sizeof err.detail - 1);
    (void)error_wrap(&err, "front ");
    ck_assert_uint_eq(strlen(err.detail), sizeof err.detail - 1);
    ck_assert_int_eq(strncmp(err.detail, "front aaa", 9), 0);
    (void)error_wrap(&err, "%s", text);
    ck_assert_uint_eq(strlen(err.detail), sizeof err.detail - 1);
    (void)error_field(&err, REASON_INVALID_FIELD, text, "%s", text);
    ck_assert_uint_eq(strlen(err.fields[0].field), sizeof err.fields[0].field - 1);
    ck_assert_uint_eq(strlen(err.fields[0].detail), sizeof err.fields[0].detail - 1);
}
END_TEST

START_TEST(test_fields)
{
    struct error err = ERROR_INIT;
    ck_assert_int_eq(error_field(&err, REASON_UNKNOWN_FIELD, "ivshmem.sise", "is not known"), -1);
    ck_assert_int_eq(err.reason, REASON_UNKNOWN_FIELD);
    ck_assert_str_eq(err.detail, "ivshmem.sise: is not known");
    ck_assert_int_eq(error_field(&err, REASON_INVALID_FIELD, "uid", "is %d", -1), -1);
    ck_assert_int_eq(err.reason, REASON_UNKNOWN_FIELD); /* the first one names the error */
    ck_assert_str_eq(err.detail, "ivshmem.sise: is not known");
    ck_assert_uint_eq(err.field_count, 2);
    ck_assert_str_eq(err.fields[1].field, "uid");
    ck_assert_str_eq(err.fields[1].detail, "is -1");
    for (int i = 0; i < 2 * ERROR_FIELDS_MAX; i++) {
        (void)error_field(&err, REASON_INVALID_FIELD, "more", "x");
    }
    ck_assert_uint_eq(err.field_count, ERROR_FIELDS_MAX);
    ck_assert_int_eq(error_field(NULL, REASON_INVALID_FIELD, "x", "y"), -1);
    (void)error_set(&err, REASON_INTERNAL, "x");
    ck_assert_uint_eq(err.field_count, 0);
}
END_TEST

START_TEST(test_reasons)
{
    for (int i = REASON_NONE + 1; i < REASON_COUNT; i++) {
        const struct reason_info *info = reason_info((enum reason)i);
        ck_assert_ptr_nonnull(info->word);
        ck_assert_msg(reason_by_word(info->word) == (enum reason)i, "%s stands twice in the table",
                      info->word);
        ck_assert_msg(info->http_status >= 400 && info->http_status <= 599, "%s: HTTP %d", info->word,
                      info->http_status);
        ck_assert_msg(info->grpc_code >= 1 && info->grpc_code <= 16, "%s: gRPC %d", info->word,
                      info->grpc_code);
        ck_assert_msg(info->exit_code != EXIT_CODE_OK, "%s: exit code 0", info->word);
        ck_assert_msg(info->title[0] != '\0', "%s has no title", info->word);
        ck_assert_msg(strspn(info->word, "abcdefghijklmnopqrstuvwxyz_") == strlen(info->word),
                      "%s is no word of lower-case letters", info->word);
    }
    ck_assert_int_eq(reason_by_word("no_such_reason"), REASON_NONE);
    ck_assert_ptr_eq(reason_info(REASON_COUNT), reason_info(REASON_INTERNAL));
    ck_assert_ptr_eq(reason_info(REASON_NONE), reason_info(REASON_INTERNAL));
}
END_TEST

TCase *error_case(void)
{
    TCase *tcase = tcase_create("error");
    tcase_add_test(tcase, test_set);
    tcase_add_test(tcase, test_set_errno);
    tcase_add_test(tcase, test_wrap);
    tcase_add_test(tcase, test_long_details_are_cut);
    tcase_add_test(tcase, test_fields);
    tcase_add_test(tcase, test_reasons);
    return tcase;
}
