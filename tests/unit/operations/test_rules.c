/* Ids, readiness, VMM arguments, words. */
#include <stdio.h>
#include <stdlib.h>

#include "fixture.h"

START_TEST(good_ids)
{
    char longest[ID_SIZE];
    memset(longest, 'z', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const good[] = {"a",
                                "0",
                                "_x",
                                "A.b-c_d",
                                "tpl-0123456789abcdef01234567",
                                "tpl-0123456789abcdef01234567_0",
                                "0123456789abcdef0123456789abcdef",
                                "a.",
                                longest};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(check_id(good[i], "sandboxID", &fx.err) == 0, "%s: %s", good[i], fx.err.detail);
}
END_TEST

START_TEST(bad_ids)
{
    char too_long[ID_SIZE + 1];
    memset(too_long, 'z', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    const char *const bad[] = {"",    ".a",       "-a", "a..b", "..",    ".",     "a/b",   "a b",
                               "a\n", "\xc3\xa4", "a%", "a,b",  "a\x7f", "a\x01", too_long};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(check_id(bad[i], "sandboxID", &fx.err), REASON_INVALID_ID, "sandboxID is not allowed: ");
}
END_TEST

START_TEST(nothing_but_node_answers_before_it_is_ready)
{
    struct template_spec template_spec = {.enable_ivshmem = true};
    struct sandbox_spec sandbox_spec = {.template_id = "t"};
    struct page_request page = {.limit = 0};
    struct template_row template;
    struct template_row *templates;
    struct sandbox_view view;
    struct sandbox_view *views;
    struct event_row *events;
    struct node_view node;
    char token[PAGE_TOKEN_SIZE];
    size_t count;
    int64_t last;
    int64_t newest;
    bool created;
    struct operations *ops = fx.operations;
    const struct caller *caller = &fx.caller;
    struct error *err = &fx.err;
    operations_set_ready(ops, false);
    assert_fails(operations_template_put(ops, caller, "t", &template_spec, &template, &created, err),
                 REASON_NOT_READY, "repairing");
    assert_fails(operations_template_get(ops, caller, "t", &template, err), REASON_NOT_READY, "");
    assert_fails(operations_template_delete(ops, caller, "t", err), REASON_NOT_READY, "");
    assert_fails(operations_template_list(ops, caller, &page, &templates, &count, token, err),
                 REASON_NOT_READY, "");
    assert_fails(operations_sandbox_create(ops, caller, "s", &sandbox_spec, &view, &created, err),
                 REASON_NOT_READY, "");
    assert_fails(operations_sandbox_get(ops, caller, "s", &view, err), REASON_NOT_READY, "");
    assert_fails(operations_sandbox_list(ops, caller, &page, &views, &count, token, err), REASON_NOT_READY,
                 "");
    assert_fails(operations_sandbox_delete(ops, caller, "s", err), REASON_NOT_READY, "");
    assert_fails(operations_sandbox_pause(ops, caller, "s", &view, err), REASON_NOT_READY, "");
    assert_fails(operations_sandbox_resume(ops, caller, "s", NULL, &view, err), REASON_NOT_READY, "");
    assert_fails(operations_sandbox_renew(ops, caller, "s", 0, &view, err), REASON_NOT_READY, "");
    assert_fails(operations_event_list(ops, caller, 0, 0, &events, &count, &last, &newest, err),
                 REASON_NOT_READY, "");
    assert_works(operations_node_get(ops, caller, &node, err));
    ck_assert(!node.ready);
}
END_TEST

START_TEST(vmm_arguments)
{
    struct sandbox_view view = {.row = {.has_region = true, .region = {.settings = {.size_bytes = 1048576}}}};
    (void)snprintf(view.path, sizeof view.path, "/dev/shm/ivshmem-a");
    char **list = NULL;
    ck_assert_int_eq(sandbox_qemu_arguments(&view, &list), 0);
    ck_assert_str_eq(list[0], "-object");
    ck_assert_str_eq(list[1],
                     "memory-backend-file,id=ivshmem-mem0,mem-path=/dev/shm/ivshmem-a,size=1048576,share=on");
    ck_assert_str_eq(list[2], "-device");
    ck_assert_str_eq(list[3], "ivshmem-plain,memdev=ivshmem-mem0,id=ivshmem0");
    ck_assert_ptr_null(list[4]);
    free(list);
    ck_assert_int_eq(sandbox_cloud_hypervisor_arguments(&view, &list), 0);
    ck_assert_str_eq(list[0], "--ivshmem");
    ck_assert_str_eq(list[1], "path=/dev/shm/ivshmem-a,size=1048576");
    ck_assert_ptr_null(list[2]);
    free(list);
}
END_TEST

START_TEST(commas_of_a_path_are_escaped)
{
    struct sandbox_view view = {.row = {.has_region = true, .region = {.settings = {.size_bytes = 4096}}}};
    (void)snprintf(view.path, sizeof view.path, "/a,b,,c");
    char **list = NULL;
    ck_assert_int_eq(sandbox_qemu_arguments(&view, &list), 0);
    ck_assert_ptr_nonnull(strstr(list[1], "mem-path=/a,,b,,,,c,size=4096"));
    free(list);
    ck_assert_int_eq(sandbox_cloud_hypervisor_arguments(&view, &list), 0);
    ck_assert_str_eq(list[1], "path=\"/a,b,,c\",size=4096");
    free(list);
    memset(view.path, ',', sizeof view.path - 1);
    ck_assert_int_eq(sandbox_qemu_arguments(&view, &list), 0);
    free(list);
}
END_TEST

START_TEST(no_arguments_without_a_region)
{
    struct sandbox_view view = {.row = {.has_region = false}};
    char **list = NULL;
    ck_assert_int_eq(sandbox_qemu_arguments(&view, &list), -1);
    ck_assert_int_eq(sandbox_cloud_hypervisor_arguments(&view, &list), -1);
}
END_TEST

START_TEST(words)
{
    ck_assert_str_eq(operation_word(OPERATION_SANDBOX_CREATE), "sandbox.create");
    ck_assert_str_eq(operation_word(OPERATION_OPENAPI), "openapi");
    ck_assert_str_eq(sandbox_state_word(SANDBOX_ORPHANED), "orphaned");
    ck_assert_str_eq(region_state_word(REGION_LOST), "lost");
    ck_assert_str_eq(region_layout_word(REGION_LAYOUT_CHAN), "chan");
    ck_assert_str_eq(on_rollback_word(ON_ROLLBACK_CLEAR), "clear");
}
END_TEST

TCase *rules_tests(void)
{
    TCase *tests = tcase_create("rules");
    tcase_add_checked_fixture(tests, fixture_setup, fixture_teardown);
    tcase_add_test(tests, good_ids);
    tcase_add_test(tests, bad_ids);
    tcase_add_test(tests, nothing_but_node_answers_before_it_is_ready);
    tcase_add_test(tests, vmm_arguments);
    tcase_add_test(tests, commas_of_a_path_are_escaped);
    tcase_add_test(tests, no_arguments_without_a_region);
    tcase_add_test(tests, words);
    return tests;
}
