#include <jansson.h>
#include <string.h>

#include "api/rest/call.h"
#include "suites.h"

static const char *text_of(const json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

static json_t *parse_answer(const struct answer *answer)
{
    json_error_t fault;
    json_t *json = json_loadb(answer->body, answer->body_length, 0, &fault);
    ck_assert_msg(json != NULL, "%s", fault.text);
    return json;
}

START_TEST(every_reason_has_a_problem)
{
    struct answer answer = ANSWER_INIT;
    for (int reason = REASON_NONE + 1; reason < REASON_COUNT; reason++) {
        const struct reason_info *info = reason_info((enum reason)reason);
        struct error err = ERROR_INIT;
        (void)error_set(&err, (enum reason)reason, "what %s", "happened");
        answer_problem(&answer, &err, "req-1");
        ck_assert_int_eq(answer.status, info->http_status);
        ck_assert_str_eq(answer.content_type, "application/problem+json");
        json_t *json = parse_answer(&answer);
        ck_assert_str_eq(text_of(json, "reason"), info->word);
        ck_assert_str_eq(text_of(json, "title"), info->title);
        ck_assert_str_eq(text_of(json, "detail"), "what happened");
        ck_assert_str_eq(text_of(json, "requestID"), "req-1");
        ck_assert_int_eq(strncmp(text_of(json, "type"), "urn:chan:problem:", 17), 0);
        ck_assert_str_eq(text_of(json, "type") + 17, info->word);
        ck_assert_int_eq(json_integer_value(json_object_get(json, "status")), info->http_status);
        ck_assert_uint_eq(json_array_size(json_object_get(json, "errors")), 0);
        json_decref(json);
        answer_clear(&answer);
    }
}
END_TEST

START_TEST(a_problem_replaces_a_half_made_answer)
{
    struct answer answer = {
        .status = 201, .body = strdup("{}"), .body_length = 2, .revision = 7, .created = true};
    struct error err = ERROR_INIT;
    (void)error_field(&err, REASON_INVALID_FIELD, "a.b", "is bad");
    (void)error_field(&err, REASON_INVALID_FIELD, "c", "is worse");
    answer_problem(&answer, &err, "r");
    ck_assert_int_eq(answer.status, 422);
    ck_assert_int_eq(answer.revision, 0);
    ck_assert(!answer.created);
    json_t *json = parse_answer(&answer);
    const json_t *errors = json_object_get(json, "errors");
    ck_assert_uint_eq(json_array_size(errors), 2);
    ck_assert_str_eq(text_of(json_array_get(errors, 1), "field"), "c");
    ck_assert_str_eq(text_of(json_array_get(errors, 1), "detail"), "is worse");
    json_decref(json);
    answer_clear(&answer);
}
END_TEST

TCase *answer_tests(void)
{
    TCase *tests = tcase_create("answer");
    tcase_add_test(tests, every_reason_has_a_problem);
    tcase_add_test(tests, a_problem_replaces_a_half_made_answer);
    return tests;
}
