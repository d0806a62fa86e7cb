#include "base/cleanup.h"
#include "cli/output.h"
#include "cli/yaml.h"
#include "tests/unit/cli/suites.h"

static const struct {
    const char *json, *yaml;
} cases[] = {
    {"{\"a\":\"b\",\"z\":null,\"t\":true,\"f\":false,\"i\":-5}", "a: b\nz: null\nt: true\nf: false\ni: -5\n"},
    {"{\"path\":\"/dev/shm/ivshmem-a\",\"e\":\"\",\"o\":{},\"l\":[]}",
     "path: /dev/shm/ivshmem-a\ne: \"\"\no: {}\nl: []\n"},
    {"{\"a\":{\"b\":{\"c\":1}}}", "a:\n  b:\n    c: 1\n"},
    {"{\"a\":[{\"b\":1,\"c\":[2,\"x\"]},[3,[]]]}",
     "a:\n  - b: 1\n    c:\n      - 2\n      - x\n  - - 3\n    - []\n"},
    /* Strings that would be read as something else are quoted. */
    {"[\"true\",\"No\",\"NULL\",\"~\",\"1\",\"1e3\",\"0x1\",\"2026-01-02\",\"-\",\"- a\",\"a: b\",\"a "
     "#b\",\"y\"]",
     "- \"true\"\n- \"No\"\n- \"NULL\"\n- \"~\"\n- \"1\"\n- \"1e3\"\n- \"0x1\"\n- \"2026-01-02\"\n- \"-\"\n"
     "- \"- a\"\n- \"a: b\"\n- \"a #b\"\n- \"y\"\n"},
    {"[\"a\\nb\",\"t\\tq\\\"s\\\\\",\"\\u0007\",\"\\u0085\",\"\\u2028\",\"\\ufeff\",\"ä😀\"]",
     "- \"a\\nb\"\n- \"t\\tq\\\"s\\\\\"\n- \"\\u0007\"\n- \"\\u0085\"\n- \"\\u2028\"\n- \"\\uFEFF\"\n- "
     "\"ä😀\"\n"},
    {"{\"true\":1,\"a b\":2,\"\":3}", "\"true\": 1\n\"a b\": 2\n\"\": 3\n"},
    {"[1.5,1e20,-2.0,1e-7]", "- 1.5\n- 1.0e+20\n- -2.0\n- 9.9999999999999995e-08\n"},
    {"{}", "{}\n"},
    {"[]", "[]\n"},
};

START_TEST(rendered)
{
    auto_free char *text = NULL;
    auto_json json_t *value = json_loads(cases[_i].json, 0, NULL);
    ck_assert_ptr_nonnull(value);
    CAPTURE(text, yaml_print(out, value));
    ck_assert_str_eq(text, cases[_i].yaml);
}
END_TEST

START_TEST(a_very_long_key_is_an_explicit_one)
{
    char key[2001];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    auto_free char *text = NULL;
    auto_json json_t *value = json_pack("{s: {s: i}}", "a", key, 1);
    CAPTURE(text, yaml_print(out, value));
    ck_assert_uint_eq(strlen(text), strlen("a:\n  ? ") + strlen(key) + strlen("\n  : 1\n"));
    ck_assert_ptr_nonnull(strstr(text, "k\n  : 1\n"));
}
END_TEST

Suite *yaml_suite(void)
{
    Suite *suite = suite_create("yaml");
    TCase *tests = tcase_create("yaml");
    tcase_add_loop_test(tests, rendered, 0, sizeof cases / sizeof cases[0]);
    tcase_add_test(tests, a_very_long_key_is_an_explicit_one);
    suite_add_tcase(suite, tests);
    return suite;
}
