#include "api/rest/target.h"

#include <string.h>

#include "api/rest/routes.h"
#include "suites.h"

static const char *const two_names[] = {"limit", "pageToken", NULL};

static struct target parse(const char *raw)
{
    struct target target;
    ck_assert_int_eq(target_parse(raw, &target), 0);
    return target;
}

START_TEST(segments_are_decoded_once_and_after_splitting)
{
    struct target target = parse("/v1/a%2Fb/%2541/%3F?x=1");
    ck_assert_str_eq(target.path, "/v1/a%2Fb/%2541/%3F");
    ck_assert_uint_eq(target.segment_count, 4);
    ck_assert_str_eq(target.segments[0].text, "v1");
    ck_assert_str_eq(target.segments[1].text, "a/b");
    ck_assert_str_eq(target.segments[2].text, "%41");
    ck_assert_str_eq(target.segments[3].text, "?");
    for (int i = 0; i < 4; i++)
        ck_assert(!target.segments[i].malformed);
    target_clear(&target);
}
END_TEST

START_TEST(malformed_segments)
{
    static const char *const raw[] = {"/%00", "/a%00b", "/%", "/%4", "/%zz", "/%4g", "/a%"};
    for (size_t i = 0; i < sizeof raw / sizeof raw[0]; i++) {
        struct target target = parse(raw[i]);
        ck_assert_msg(target.segment_count == 1 && target.segments[0].malformed, "%s", raw[i]);
        target_clear(&target);
    }
}
END_TEST

START_TEST(not_a_path)
{
    static const char *const raw[] = {
        "", "*", "v1/node", "http://localhost/livez", "?a=b", "/1/2/3/4/5/6/7/8/9"};
    for (size_t i = 0; i < sizeof raw / sizeof raw[0]; i++) {
        struct target target = parse(raw[i]);
        ck_assert_msg(target.segment_count == 0, "%s", raw[i]);
        target_clear(&target);
    }
}
END_TEST

START_TEST(a_good_query)
{
    struct target target = parse("/v1/x?&limit=5&&pageToken=a%26b%3D+c&");
    struct error err = ERROR_INIT;
    ck_assert_int_eq(target_query(&target, two_names, &err), 0);
    ck_assert_str_eq(target_parameter(&target, "limit"), "5");
    ck_assert_str_eq(target_parameter(&target, "pageToken"), "a&b= c");
    ck_assert_ptr_null(target_parameter(&target, "since"));
    target_clear(&target);
}
END_TEST

static const struct {
    const char *raw;
    enum reason reason;
    const char *named;
} bad_queries[] = {
    {"/x?other=1", REASON_UNKNOWN_PARAMETER, "other"},
    {"/x?Limit=1", REASON_UNKNOWN_PARAMETER, "Limit"},
    {"/x?limit=1&other", REASON_UNKNOWN_PARAMETER, "other"},
    {"/x?=1", REASON_UNKNOWN_PARAMETER, "\"\""},
    {"/x?limit=1&limit=1", REASON_INVALID_PARAMETER, "limit"},
    {"/x?limit=%", REASON_INVALID_PARAMETER, "percent"},
    {"/x?limit=%00", REASON_INVALID_PARAMETER, "percent"},
    {"/x?lim%00it=1", REASON_INVALID_PARAMETER, "percent"},
};

START_TEST(bad_queries_are_named)
{
    struct target target = parse(bad_queries[_i].raw);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(target_query(&target, two_names, &err), -1);
    ck_assert_int_eq(err.reason, bad_queries[_i].reason);
    ck_assert_msg(strstr(err.detail, bad_queries[_i].named) != NULL, "%s", err.detail);
    target_clear(&target);
}
END_TEST

START_TEST(numbers)
{
    static const char *const bad[] = {"",
                                      "0",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "1e3",
                                      "0x10",
                                      "abc",
                                      "9223372036854775808",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct target target = {.parameters = {{"limit", bad[i]}}, .parameter_count = 1};
        long long value = 42;
        struct error err = ERROR_INIT;
        ck_assert_msg(target_number(&target, "limit", 1, &value, &err) == -1, "%s was taken", bad[i]);
        ck_assert_int_eq(err.reason, REASON_INVALID_PARAMETER);
        ck_assert_int_eq(value, 42);
    }
    struct target target = {.parameters = {{"limit", "9223372036854775807"}}, .parameter_count = 1};
    long long value = 42;
    ck_assert_int_eq(target_number(&target, "since", 0, &value, NULL), 0);
    ck_assert_int_eq(value, 42);
    ck_assert_int_eq(target_number(&target, "limit", 1, &value, NULL), 0);
    ck_assert_int_eq(value, INT64_MAX);
}
END_TEST

/* A path, a method, the operation (-1: none), the id (NULL: none) and the methods that are allowed. */
static const struct {
    const char *path, *method;
    int operation;
    const char *id, *allow;
} found[] = {
    {"/livez", "GET", OPERATION_LIVEZ, NULL, "GET, HEAD, OPTIONS"},
    {"/livez", "HEAD", OPERATION_LIVEZ, NULL, "GET, HEAD, OPTIONS"},
    {"/livez", "POST", -1, NULL, "GET, HEAD, OPTIONS"},
    {"/live%7a", "GET", OPERATION_LIVEZ, NULL, "GET, HEAD, OPTIONS"},
    {"/livez%00", "GET", -1, NULL, ""},
    {"/livez/", "GET", -1, NULL, ""},
    {"/Livez", "GET", -1, NULL, ""},
    {"/", "GET", -1, NULL, ""},
    {"//livez", "GET", -1, NULL, ""},
    {"/v1", "GET", -1, NULL, ""},
    {"/v1/sandboxes", "GET", OPERATION_SANDBOX_LIST, NULL, "GET, HEAD, OPTIONS"},
    {"/v1/sandboxes/", "GET", -1, NULL, ""},
    {"/v1/sandboxes/a%2Fb", "GET", OPERATION_SANDBOX_GET, "a/b", "GET, HEAD, PUT, DELETE, OPTIONS"},
    {"/v1/sandboxes/..", "DELETE", OPERATION_SANDBOX_DELETE, "..", "GET, HEAD, PUT, DELETE, OPTIONS"},
    {"/v1/sandboxes/a/b", "GET", -1, NULL, ""},
    {"/v1/sandboxes/a/pause", "POST", OPERATION_SANDBOX_PAUSE, "a", "POST, OPTIONS"},
    {"/v1/sandboxes/a/pause", "GET", -1, NULL, "POST, OPTIONS"},
    {"/v1/sandboxes//pause", "POST", -1, NULL, ""},
    {"/v1/sandboxes/pause", "PUT", OPERATION_SANDBOX_CREATE, "pause", "GET, HEAD, PUT, DELETE, OPTIONS"},
};

START_TEST(routes)
{
    struct target target = parse(found[_i].path);
    struct route_match match;
    route_find(found[_i].method, &target, &match);
    ck_assert_str_eq(match.allow, found[_i].allow);
    ck_assert_int_eq(match.route == NULL ? -1 : (int)match.route->operation, found[_i].operation);
    if (found[_i].id == NULL)
        ck_assert_ptr_null(match.id);
    else
        ck_assert_str_eq(match.id->text, found[_i].id);
    target_clear(&target);
}
END_TEST

TCase *target_tests(void)
{
    TCase *tests = tcase_create("target");
    tcase_add_test(tests, segments_are_decoded_once_and_after_splitting);
    tcase_add_test(tests, malformed_segments);
    tcase_add_test(tests, not_a_path);
    tcase_add_test(tests, a_good_query);
    tcase_add_loop_test(tests, bad_queries_are_named, 0, sizeof bad_queries / sizeof bad_queries[0]);
    tcase_add_test(tests, numbers);
    tcase_add_loop_test(tests, routes, 0, sizeof found / sizeof found[0]);
    return tests;
}
