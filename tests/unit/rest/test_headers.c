#include "api/rest/headers.h"

#include <string.h>

#include "daemon/operations/operations.h"
#include "suites.h"

START_TEST(content_types)
{
    static const char *const good[] = {
        "application/json", "Application/JSON", "application/json ; charset=UTF-8",
        "application/json;charset=\"utf-8\"", "application/json; charset=utf-8 "};
    static const char *const bad[] = {"",
                                      "text/plain",
                                      "application/jsonp",
                                      "application/json, text/plain",
                                      "application/json; charset=latin-1",
                                      "application/json; charset=utf-8x",
                                      "application/json;",
                                      "application/x-www-form-urlencoded"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(header_is_json(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!header_is_json(bad[i]), "%s", bad[i]);
    ck_assert(!header_is_json(NULL));
}
END_TEST

START_TEST(if_match)
{
    int64_t revision = 0;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(header_if_match("\"17\"", &revision, &err), 0);
    ck_assert_int_eq(revision, 17);
    ck_assert_int_eq(header_if_match("*", &revision, &err), 0);
    ck_assert_int_eq(revision, IF_MATCH_ANY);
    ck_assert_int_eq(header_if_match("\"9223372036854775807\"", &revision, &err), 0);
    ck_assert_int_eq(revision, INT64_MAX);
    static const char *const bad[] = {"",        "17",
                                      "\"17",    "17\"",
                                      "\"\"",    "\"0\"",
                                      "\"a\"",   "\"1\",\"2\"",
                                      "W/\"1\"", "\"-1\"",
                                      "**",      "\"1\" ",
                                      "\" 1\"",  "\"9223372036854775808\""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(header_if_match(bad[i], &revision, &err) == -1, "%s was taken", bad[i]);
        ck_assert_int_eq(err.reason, REASON_INVALID_REQUEST);
    }
}
END_TEST

START_TEST(request_ids)
{
    char id[REQUEST_ID_SIZE];
    char longest[REQUEST_ID_SIZE];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    header_request_id("a.B-9_", id);
    ck_assert_str_eq(id, "a.B-9_");
    header_request_id(longest, id);
    ck_assert_str_eq(id, longest);

    char too_long[REQUEST_ID_SIZE + 1];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    const char *const bad[] = {NULL, "", "a b", "a/b", "\xc3\xa4", "a\n", too_long};
    char last[REQUEST_ID_SIZE] = "";
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        header_request_id(bad[i], id);
        ck_assert_uint_eq(strlen(id), 32);
        ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 32);
        ck_assert_str_ne(id, last);
        memcpy(last, id, sizeof last);
    }
}
END_TEST

TCase *headers_tests(void)
{
    TCase *tests = tcase_create("headers");
    tcase_add_test(tests, content_types);
    tcase_add_test(tests, if_match);
    tcase_add_test(tests, request_ids);
    return tests;
}
