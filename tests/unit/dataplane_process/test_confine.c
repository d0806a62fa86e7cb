/* What a confined process can and cannot do. Each try is a child: the filter is for good. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "dataplane/confine.h"

enum { REFUSED = 77, DONE = 0, CONFINE_FAILED = 99 };

/* Answers DONE or REFUSED, or does not return. */
typedef int (*deed)(void);

/* The wait status of a child that is confined by `confine` and then does `what`. */
static int confined(int (*confine)(struct error *err), deed what)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct error err = ERROR_INIT;
        _exit(confine(&err) == 0 ? what() : CONFINE_FAILED);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

static void assert_exits(int (*confine)(struct error *err), deed what, int code)
{
    const int status = confined(confine, what);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == code,
                  "the wait status is %#x, an exit with %d was expected", (unsigned)status, code);
}

static int use_a_privilege(void)
{
    const bool bounded = geteuid() != 0 || prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0) == 0;
    const bool none_to_come = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    const bool refused = chroot("/") != 0 && errno == EPERM;
    return bounded && none_to_come && refused ? REFUSED : DONE;
}

START_TEST(privileges_are_gone)
{
    assert_exits(confine_privileges, use_a_privilege, REFUSED);
}
END_TEST

#ifndef CHAN_SANITIZED

static int open_a_file(void)
{
    return open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == ENOSYS ? REFUSED : DONE;
}

/* One at a time, as links do. */
static int work_as_ever(void)
{
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *allocated = malloc(64 << 20);
    if (listener < 0 || memory == MAP_FAILED || allocated == NULL || mprotect(memory, 4096, PROT_READ) != 0 ||
        munmap(memory, 1 << 20) != 0 || clock_monotonic_ns() == 0)
        return REFUSED;
    free(allocated);
    return close(listener) == 0 ? DONE : REFUSED;
}

static int network_socket(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ? DONE : REFUSED;
}

static int netlink_socket(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0) >= 0 ? DONE : REFUSED;
}

static int start_a_program(void)
{
    return execl("/bin/true", "true", NULL);
}

static int start_a_process(void)
{
    return fork() < 0 ? REFUSED : DONE;
}

static int make_executable_memory(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? REFUSED
                                                                                                     : DONE;
}

static int make_memory_executable(void)
{
    static _Alignas(4096) char page[4096];
    return mprotect(page, sizeof page, PROT_READ | PROT_EXEC) == 0 ? DONE : REFUSED;
}

static int trace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? DONE : REFUSED;
}

static int new_namespace(void)
{
    return unshare(CLONE_NEWUSER) == 0 ? DONE : REFUSED;
}

static const deed deadly[] = {network_socket,  netlink_socket,         start_a_program,
                              start_a_process, make_executable_memory, make_memory_executable,
                              trace,           new_namespace};

START_TEST(an_intruders_deeds_end_the_process)
{
    const int status = confined(confine_system_calls, deadly[_i]);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS,
                  "the wait status is %#x, an end by SIGSYS was expected", (unsigned)status);
}
END_TEST

START_TEST(other_system_calls_are_refused)
{
    assert_exits(confine_system_calls, open_a_file, REFUSED);
}
END_TEST

START_TEST(what_links_need_is_allowed)
{
    assert_exits(confine_system_calls, work_as_ever, DONE);
}
END_TEST

/* A thread that was there before. */
static sem_t begun, go;

static void *open_in_thread(void *argument)
{
    int *result = argument;
    (void)sem_post(&begun);
    (void)sem_wait(&go);
    *result = open_a_file();
    return NULL;
}

START_TEST(every_thread_is_confined)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pthread_t thread;
        int result = DONE;
        (void)sem_init(&begun, 0, 0);
        (void)sem_init(&go, 0, 0);
        if (pthread_create(&thread, NULL, open_in_thread, &result) != 0 || sem_wait(&begun) != 0 ||
            confine_system_calls(NULL) != 0)
            _exit(CONFINE_FAILED);
        (void)sem_post(&go);
        (void)pthread_join(thread, NULL);
        _exit(result);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == REFUSED,
                  "the wait status is %#x, an exit with %d was expected", (unsigned)status, REFUSED);
}
END_TEST

#endif

int main(void)
{
    Suite *suite = suite_create("dataplane process");
    TCase *tcase = tcase_create("confine");
    tcase_add_test(tcase, privileges_are_gone);
#ifndef CHAN_SANITIZED
    tcase_add_loop_test(tcase, an_intruders_deeds_end_the_process, 0,
                        (int)(sizeof deadly / sizeof deadly[0]));
    tcase_add_test(tcase, other_system_calls_are_refused);
    tcase_add_test(tcase, what_links_need_is_allowed);
    tcase_add_test(tcase, every_thread_is_confined);
#endif
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
