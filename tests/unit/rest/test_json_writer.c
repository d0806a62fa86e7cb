#include "api/rest/json_writer.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "suites.h"

static char *finish(struct json_writer *writer)
{
    char *text = NULL;
    size_t length = 0;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(json_writer_finish(writer, &text, &length, &err), 0);
    char *terminated = strndup(text, length);
    free(text);
    return terminated;
}

START_TEST(structure)
{
    struct json_writer writer = JSON_WRITER_INIT;
    json_begin_object(&writer, NULL);
    json_put_string(&writer, "a", "x");
    json_begin_array(&writer, "b");
    json_put_integer(&writer, NULL, -1);
    json_put_bool(&writer, NULL, true);
    json_begin_object(&writer, NULL);
    json_end_object(&writer);
    json_begin_array(&writer, NULL);
    json_end_array(&writer);
    json_put_null(&writer, NULL);
    json_end_array(&writer);
    json_put_raw(&writer, "c", "{\"k\":\"v\"}");
    json_put_string(&writer, "d", NULL);
    json_put_time(&writer, "e", 1767323045678);
    json_end_object(&writer);
    auto_free char *text = finish(&writer);
    ck_assert_str_eq(text, "{\"a\":\"x\",\"b\":[-1,true,{},[],null],\"c\":{\"k\":\"v\"},\"d\":null,"
                           "\"e\":\"2026-01-02T03:04:05.678Z\"}");
}
END_TEST

START_TEST(extreme_numbers)
{
    struct json_writer writer = JSON_WRITER_INIT;
    json_begin_array(&writer, NULL);
    json_put_integer(&writer, NULL, INT64_MIN);
    json_put_integer(&writer, NULL, INT64_MAX);
    json_put_unsigned(&writer, NULL, UINT64_MAX);
    json_end_array(&writer);
    auto_free char *text = finish(&writer);
    ck_assert_str_eq(text, "[-9223372036854775808,9223372036854775807,18446744073709551615]");
}
END_TEST

/* Each text, and what a JSON reader finds after it was written. */
static const struct {
    const char *written, *read;
} texts[] = {
    {"", ""},
    {"plain", "plain"},
    {"quote \" backslash \\ slash /", "quote \" backslash \\ slash /"},
    {"\x01\x1f\n\r\t\x7f", "\x01\x1f\n\r\t\x7f"},
    {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf",
     "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"},
    {"ends, last", "ends, last"},
    {"\x80", "\xef\xbf\xbd"},                                                 /* a lone continuation */
    {"\xc3", "\xef\xbf\xbd"},                                                 /* cut off */
    {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},                                 /* cut off */
    {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                                 /* overlong */
    {"\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                 /* a surrogate */
    {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* beyond Unicode */
    {"a\xff"
     "b",
     "a\xef\xbf\xbd"
     "b"},
};

START_TEST(any_bytes_become_a_string)
{
    struct json_writer writer = JSON_WRITER_INIT;
    json_begin_object(&writer, NULL);
    json_put_string(&writer, "text", texts[_i].written);
    json_end_object(&writer);
    auto_free char *text = finish(&writer);
    json_error_t fault;
    json_t *read = json_loads(text, 0, &fault);
    ck_assert_msg(read != NULL, "%s: %s", text, fault.text);
    ck_assert_str_eq(json_string_value(json_object_get(read, "text")), texts[_i].read);
    json_decref(read);
}
END_TEST

START_TEST(grows)
{
    enum { COUNT = 20000 };
    struct json_writer writer = JSON_WRITER_INIT;
    json_begin_array(&writer, NULL);
    for (int i = 0; i < COUNT; i++)
        json_put_string(&writer, NULL, "0123456789");
    json_end_array(&writer);
    auto_free char *text = finish(&writer);
    ck_assert_uint_eq(strlen(text), COUNT * 13 + 1);
}
END_TEST

START_TEST(a_failure_is_told_at_the_end)
{
    struct json_writer writer = JSON_WRITER_INIT;
    json_begin_object(&writer, NULL);
    writer.failed = true;
    json_put_string(&writer, "a", "x");
    char *text = NULL;
    size_t length = 0;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(json_writer_finish(&writer, &text, &length, &err), -1);
    ck_assert_int_eq(err.reason, REASON_RESOURCE_LIMIT);
    ck_assert_ptr_null(text);
    ck_assert_ptr_null(writer.text);
}
END_TEST

TCase *json_writer_tests(void)
{
    TCase *tests = tcase_create("json_writer");
    tcase_add_test(tests, structure);
    tcase_add_test(tests, extreme_numbers);
    tcase_add_loop_test(tests, any_bytes_become_a_string, 0, sizeof texts / sizeof texts[0]);
    tcase_add_test(tests, grows);
    tcase_add_test(tests, a_failure_is_told_at_the_end);
    return tests;
}
