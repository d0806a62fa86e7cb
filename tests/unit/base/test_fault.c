/* Fault points: nothing in a release build, and what CHAN_FAULT says in a test build. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "tests/unit/base/cases.h"

#ifdef CHAN_FAULT_POINTS

/* Each test runs in a process of its own, so each can arm anew. */

START_TEST(test_nothing_armed)
{
    (void)unsetenv("CHAN_FAULT");
    ck_assert_int_eq(fault_point("create.after_intent"), 0);
}
END_TEST

START_TEST(test_errno_once)
{
    (void)setenv("CHAN_FAULT", "region.after_open=ENOSPC", 1);
    ck_assert_int_eq(fault_point("region.after_owner"), 0);
    ck_assert_int_eq(fault_point("region.after_open"), ENOSPC);
    ck_assert_int_eq(fault_point("region.after_open"), 0);
}
END_TEST

START_TEST(test_errno_at_the_third_time)
{
    (void)setenv("CHAN_FAULT", "region.after_open:3=EIO", 1);
    ck_assert_int_eq(fault_point("region.after_open"), 0);
    ck_assert_int_eq(fault_point("region.after_open"), 0);
    ck_assert_int_eq(fault_point("region.after_open"), EIO);
    ck_assert_int_eq(fault_point("region.after_open"), 0);
}
END_TEST

START_TEST(test_kill)
{
    (void)setenv("CHAN_FAULT", "create.after_intent=kill", 1);
    (void)fault_point("create.after_intent");
    ck_abort_msg("it was to be killed");
}
END_TEST

START_TEST(test_unknown_point)
{
    (void)setenv("CHAN_FAULT", "no.such_point=kill", 1);
    (void)fault_point("create.after_intent");
    ck_abort_msg("a misspelt point was to be refused");
}
END_TEST

START_TEST(test_list)
{
    auto_free char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    ck_assert_ptr_nonnull(out);
    fault_list(out);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_ptr_nonnull(strstr(text, "create.after_intent\n"));
    ck_assert_ptr_nonnull(strstr(text, "delete.after_forget\n"));
}
END_TEST

#else

START_TEST(test_compiled_out)
{
    (void)setenv("CHAN_FAULT", "create.after_intent=kill", 1);
    ck_assert_int_eq(fault_point("create.after_intent"), 0);
}
END_TEST

#endif

TCase *fault_case(void)
{
    TCase *tcase = tcase_create("fault");
#ifdef CHAN_FAULT_POINTS
    tcase_add_test(tcase, test_nothing_armed);
    tcase_add_test(tcase, test_errno_once);
    tcase_add_test(tcase, test_errno_at_the_third_time);
    tcase_add_test_raise_signal(tcase, test_kill, SIGKILL);
    tcase_add_test_raise_signal(tcase, test_unknown_point, SIGABRT);
    tcase_add_test(tcase, test_list);
#else
    tcase_add_test(tcase, test_compiled_out);
#endif
    return tcase;
}
