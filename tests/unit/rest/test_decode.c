#include "api/rest/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suites.h"

static json_t *parse(const char *text)
{
    json_error_t fault;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(json != NULL, "%s: %s", text, fault.text);
    return json;
}

START_TEST(a_full_template)
{
    json_t *json = parse("{\"enableIvshmem\":true,\"ivshmem\":{\"sizeBytes\":65536,\"layout\":\"raw\","
                         "\"onRollback\":\"keep\",\"vectors\":2},\"annotations\":{\"a\":\"1\",\"b\":\"\"}}");
    struct template_spec spec;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(decode_template(json, &spec, &err), 0);
    ck_assert(spec.enable_ivshmem && spec.has_size && spec.has_layout && spec.has_on_rollback &&
              spec.has_vectors);
    ck_assert_uint_eq(spec.size_bytes, 65536);
    ck_assert_str_eq(spec.layout, "raw");
    ck_assert_str_eq(spec.on_rollback, "keep");
    ck_assert_uint_eq(spec.vectors, 2);
    ck_assert_uint_eq(spec.annotation_count, 2);
    free((void *)(uintptr_t)spec.annotations);
    json_decref(json);
}
END_TEST

START_TEST(null_is_absent)
{
    static const char *const bodies[] = {
        "{}", "{\"enableIvshmem\":null,\"ivshmem\":null,\"annotations\":null}",
        "{\"ivshmem\":{\"sizeBytes\":null,\"layout\":null,\"onRollback\":null,\"vectors\":null}}"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        json_t *json = parse(bodies[i]);
        struct template_spec spec;
        struct error err = ERROR_INIT;
        ck_assert_msg(decode_template(json, &spec, &err) == 0, "%s: %s", bodies[i], err.detail);
        ck_assert(!spec.enable_ivshmem && !spec.has_size && !spec.has_layout && !spec.has_on_rollback &&
                  !spec.has_vectors && spec.annotation_count == 0);
        json_decref(json);
    }
}
END_TEST

enum kind { TEMPLATE, SANDBOX, LINK, PAUSE, RESUME, RENEW };

static int decode(enum kind kind, const json_t *json, struct error *err)
{
    struct template_spec template = {.annotations = NULL};
    struct sandbox_spec sandbox;
    struct link_spec link;
    struct link_end_spec ends[LINK_ENDS];
    struct owner_spec owner;
    int64_t lease_seconds;
    int result = -1;
    switch (kind) {
    case TEMPLATE:
        result = decode_template(json, &template, err);
        free((void *)(uintptr_t) template.annotations);
        break;
    case SANDBOX:
        result = decode_sandbox(json, &sandbox, err);
        break;
    case LINK:
        result = decode_link(json, &link, ends, err);
        break;
    case PAUSE:
        result = decode_pause(json, err);
        break;
    case RESUME:
        result = decode_resume(json, &owner, err);
        break;
    case RENEW:
        result = decode_renew(json, &lease_seconds, err);
        break;
    }
    return result;
}

/* A bad body, and the fields that must be named, in any order. */
static const struct {
    enum kind kind;
    const char *body;
    const char *fields[4];
} bad[] = {
    {TEMPLATE, "{\"enableIvshmem\":1}", {"enableIvshmem"}},
    {TEMPLATE, "{\"enableIvshmem\":\"true\"}", {"enableIvshmem"}},
    {TEMPLATE, "{\"enableivshmem\":true}", {"enableivshmem"}},
    {TEMPLATE, "{\"ivshmem\":[]}", {"ivshmem"}},
    {TEMPLATE,
     "{\"ivshmem\":{\"size\":1,\"sizeBytes\":1.0,\"layout\":2}}",
     {"ivshmem.size", "ivshmem.sizeBytes", "ivshmem.layout"}},
    {TEMPLATE, "{\"ivshmem\":{\"sizeBytes\":-4096}}", {"ivshmem.sizeBytes"}},
    {TEMPLATE, "{\"ivshmem\":{\"sizeBytes\":\"4096\"}}", {"ivshmem.sizeBytes"}},
    {TEMPLATE, "{\"annotations\":{\"a\":1,\"b\":\"x\",\"c\":null}}", {"annotations.a", "annotations.c"}},
    {TEMPLATE, "{\"annotations\":\"x\",\"one\":1,\"two\":2}", {"annotations", "one", "two"}},
    {TEMPLATE, "{\"\":1}", {""}},
    {SANDBOX, "{}", {"templateID"}},
    {SANDBOX, "{\"templateID\":null}", {"templateID"}},
    {SANDBOX, "{\"templateID\":7}", {"templateID"}},
    {SANDBOX, "{\"templateID\":\"t\",\"owner\":{}}", {"owner"}},
    {SANDBOX, "{\"templateID\":\"t\",\"owner\":{\"pid\":null}}", {"owner"}},
    {SANDBOX, "{\"templateID\":\"t\",\"owner\":{\"pid\":1,\"leaseSeconds\":1}}", {"owner"}},
    {SANDBOX, "{\"templateID\":\"t\",\"owner\":{\"pid\":\"1\"}}", {"owner.pid"}},
    {SANDBOX, "{\"templateID\":\"t\",\"owner\":{\"ppid\":1}}", {"owner.ppid"}},
    {SANDBOX, "{\"templateID\":\"t\",\"owner\":5}", {"owner"}},
    {SANDBOX, "{\"templateID\":\"t\",\"uid\":-1,\"gid\":1.5}", {"uid", "gid"}},
    {SANDBOX, "{\"templateID\":\"t\",\"snapshotID\":\"s\"}", {"snapshotID"}},
    {LINK, "{}", {"ends"}},
    {LINK, "{\"ends\":null}", {"ends"}},
    {LINK, "{\"ends\":{}}", {"ends"}},
    {LINK, "{\"ends\":[]}", {"ends"}},
    {LINK, "{\"ends\":[{}]}", {"ends"}},
    {LINK, "{\"ends\":[{},{},{}]}", {"ends"}},
    {LINK, "{\"ends\":[{},7]}", {"ends[1]"}},
    {LINK, "{\"ends\":[null,{}]}", {"ends[0]"}},
    {LINK, "{\"ends\":[{\"foo\":1},{}]}", {"ends[0].foo"}},
    {LINK,
     "{\"ends\":[{\"type\":1,\"role\":true},{\"socketPath\":[],\"mtu\":-1}]}",
     {"ends[0].type", "ends[0].role", "ends[1].socketPath", "ends[1].mtu"}},
    {LINK,
     "{\"ends\":[{\"sandboxID\":{}},{\"mtu\":\"9000\"}],\"name\":\"x\"}",
     {"ends[0].sandboxID", "ends[1].mtu", "name"}},
    {PAUSE, "{\"force\":true}", {"force"}},
    {RESUME, "{\"owner\":{}}", {"owner"}},
    {RESUME, "{\"pid\":1}", {"pid"}},
    {RENEW, "{\"leaseSeconds\":0}", {"leaseSeconds"}},
    {RENEW, "{\"leaseSeconds\":\"1\"}", {"leaseSeconds"}},
    {RENEW, "{\"owner\":{\"leaseSeconds\":1}}", {"owner"}},
};

START_TEST(every_bad_field_is_named)
{
    json_t *json = parse(bad[_i].body);
    struct error err = ERROR_INIT;
    ck_assert_msg(decode(bad[_i].kind, json, &err) == -1, "%s was taken", bad[_i].body);
    ck_assert(err.reason == REASON_INVALID_FIELD || err.reason == REASON_UNKNOWN_FIELD);
    size_t expected = 0;
    for (; expected < 4 && bad[_i].fields[expected] != NULL; expected++) {
        bool named = false;
        for (size_t i = 0; i < err.field_count; i++)
            named = named || strcmp(err.fields[i].field, bad[_i].fields[expected]) == 0;
        ck_assert_msg(named, "%s: \"%s\" is not named, but %s", bad[_i].body, bad[_i].fields[expected],
                      err.detail);
    }
    ck_assert_msg(err.field_count == expected, "%s: %zu fields are named, first: %s", bad[_i].body,
                  err.field_count, err.detail);
    json_decref(json);
}
END_TEST

START_TEST(owners)
{
    json_t *json = parse(
        "{\"templateID\":\"t\",\"owner\":{\"pid\":7,\"leaseSeconds\":null},\"uid\":1,\"gid\":4294967294}");
    struct sandbox_spec spec;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(decode_sandbox(json, &spec, &err), 0);
    ck_assert_int_eq(spec.owner.kind, OWNER_PID);
    ck_assert_int_eq(spec.owner.pid, 7);
    ck_assert(spec.has_uid && spec.uid == 1 && spec.has_gid && spec.gid == 4294967294);
    json_decref(json);

    json = parse("{\"owner\":{\"leaseSeconds\":60}}");
    struct owner_spec owner;
    ck_assert_int_eq(decode_resume(json, &owner, &err), 0);
    ck_assert_int_eq(owner.kind, OWNER_LEASE);
    ck_assert_int_eq(owner.lease_seconds, 60);
    json_decref(json);

    ck_assert_int_eq(decode_resume(NULL, &owner, &err), 0);
    ck_assert_int_eq(owner.kind, OWNER_NONE);
}
END_TEST

START_TEST(a_link)
{
    json_t *json = parse("{\"ends\":[{\"type\":\"vhost-user\",\"sandboxID\":\"a\",\"role\":null},"
                         "{\"role\":\"client\",\"socketPath\":\"/x\",\"mtu\":9000}]}");
    struct link_spec spec;
    struct link_end_spec ends[LINK_ENDS];
    struct error err = ERROR_INIT;
    ck_assert_int_eq(decode_link(json, &spec, ends, &err), 0);
    ck_assert_ptr_eq(spec.ends, ends);
    ck_assert_uint_eq(spec.end_count, 2);
    ck_assert_str_eq(ends[0].type, "vhost-user");
    ck_assert_str_eq(ends[0].sandbox_id, "a");
    ck_assert(ends[0].role == NULL && ends[0].socket_path == NULL && !ends[0].has_mtu);
    ck_assert(ends[1].type == NULL && ends[1].sandbox_id == NULL);
    ck_assert_str_eq(ends[1].role, "client");
    ck_assert_str_eq(ends[1].socket_path, "/x");
    ck_assert(ends[1].has_mtu && ends[1].mtu == 9000);
    json_decref(json);
}
END_TEST

START_TEST(more_faults_than_fit)
{
    char body[512] = "{";
    for (int i = 0; i < 20; i++)
        (void)snprintf(body + strlen(body), sizeof body - strlen(body), "%s\"f%d\":1", i > 0 ? "," : "", i);
    (void)snprintf(body + strlen(body), sizeof body - strlen(body), "}");
    json_t *json = parse(body);
    struct error err = ERROR_INIT;
    ck_assert_int_eq(decode_pause(json, &err), -1);
    ck_assert_uint_eq(err.field_count, ERROR_FIELDS_MAX);
    json_decref(json);
}
END_TEST

TCase *decode_tests(void)
{
    TCase *tests = tcase_create("decode");
    tcase_add_test(tests, a_full_template);
    tcase_add_test(tests, null_is_absent);
    tcase_add_loop_test(tests, every_bad_field_is_named, 0, sizeof bad / sizeof bad[0]);
    tcase_add_test(tests, owners);
    tcase_add_test(tests, a_link);
    tcase_add_test(tests, more_faults_than_fit);
    return tests;
}
