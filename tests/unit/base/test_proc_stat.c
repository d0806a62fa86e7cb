/* What /proc says of a process. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "tests/unit/base/cases.h"

START_TEST(test_self)
{
    struct proc_stat self, by_pid;
    ck_assert_int_eq(proc_stat_read(0, &self), 0);
    ck_assert_int_eq(proc_stat_read(getpid(), &by_pid), 0);
    ck_assert_int_eq(self.state, 'R');
    ck_assert_uint_ge(self.threads, 1); /* ThreadSanitizer has one of its own */
    ck_assert_uint_gt(self.resident_pages, 0);
    ck_assert_uint_gt(self.virtual_bytes, 0);
    ck_assert_uint_gt(self.start_ticks, 0);
    ck_assert_uint_eq(self.start_ticks, by_pid.start_ticks);
    uint64_t boot_ticks = (uint64_t)(clock_boot_ms() * sysconf(_SC_CLK_TCK) / 1000);
    ck_assert_uint_le(self.start_ticks, boot_ticks + 1);
}
END_TEST

START_TEST(test_name_with_parentheses)
{
    struct proc_stat before, after;
    ck_assert_int_eq(proc_stat_read(0, &before), 0);
    ck_assert_int_eq(prctl(PR_SET_NAME, ") Z 1 (2) x"), 0); /* the name is the process's own choice */
    ck_assert_int_eq(proc_stat_read(0, &after), 0);
    ck_assert_int_eq(after.state, 'R');
    ck_assert_uint_eq(after.start_ticks, before.start_ticks);
}
END_TEST

START_TEST(test_ended_process)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(0);
    }
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    struct proc_stat stat;
    ck_assert_int_eq(proc_stat_read(child, &stat), 0);
    ck_assert_int_eq(stat.state, 'Z');
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    struct proc_stat untouched;
    memset(&untouched, 0x5a, sizeof untouched);
    struct proc_stat copy = untouched;
    int result = proc_stat_read(child, &untouched);
    ck_assert_msg(result == -ENOENT || result == -ESRCH, "expected -ENOENT or -ESRCH, got %d", result);
    ck_assert_mem_eq(&untouched, &copy, sizeof copy);
}
END_TEST

TCase *proc_stat_case(void)
{
    TCase *tcase = tcase_create("proc_stat");
    tcase_add_test(tcase, test_self);
    tcase_add_test(tcase, test_name_with_parentheses);
    tcase_add_test(tcase, test_ended_process);
    return tcase;
}
