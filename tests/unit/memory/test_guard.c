/* Memory that vanishes under a mapping: costs the one that it belonged to, and nobody else. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "dataplane/memory/internal.h"
#include "tests/unit/memory/support.h"

static void install(void)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(memory_guard_install(&err) == 0, "%s", err.detail);
}

static struct guest_memory *one_region(int fd, uint64_t size, uint64_t offset)
{
    const struct guest_region_spec spec = {.size = size, .mmap_offset = offset};
    return make_table(&spec, &fd, 1);
}

static uint8_t *host_of(const struct guest_memory *memory)
{
    return memory->regions[0].host;
}

START_TEST(test_truncated_memory_reads_as_zeros)
{
    install();
    auto_close int fd = make_memory(8 * MIB);
    auto_close int other_fd = make_memory(8 * MIB);
    struct guest_memory *memory = one_region(fd, 8 * MIB, 0);
    struct guest_memory *other = one_region(other_fd, 8 * MIB, 0);
    ck_assert(!guest_memory_lost(memory));
    ck_assert_int_eq(ftruncate(fd, 4 * PAGE), 0);
    /* what is left is still there, and nothing was noticed */
    ck_assert_uint_eq(number_at(host_of(memory) + PAGE), 2);
    ck_assert(!guest_memory_lost(memory));
    errno = 4711;
    ck_assert_uint_eq(number_at(host_of(memory) + 5 * MIB), 0);
    ck_assert_int_eq(errno, 4711);
    ck_assert(guest_memory_lost(memory));
    ck_assert(guest_memory_lost(memory));
    /* all of it can be used */
    memset(host_of(memory), 0x5a, 8 * MIB);
    ck_assert_int_eq(host_of(memory)[8 * MIB - 1], 0x5a);
    /* the other one is whole */
    ck_assert(!guest_memory_lost(other));
    ck_assert_uint_eq(number_at(host_of(other) + 5 * MIB), 5 * MIB / PAGE + 1);
    guest_memory_free(memory);
    guest_memory_free(other);
    ck_assert_uint_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_writing_finds_the_hole_too)
{
    install();
    auto_close int fd = make_memory(4 * PAGE);
    struct guest_memory *memory = one_region(fd, 3 * PAGE - 100, PAGE + 100);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    memset(host_of(memory), 1, 3 * PAGE - 100);
    ck_assert(guest_memory_lost(memory));
    guest_memory_free(memory);
}
END_TEST

START_TEST(test_a_table_knows_of_what_was_lost_before_it_was_made)
{
    install();
    auto_close int fd = make_memory(2 * PAGE);
    auto_close int other_fd = make_memory(2 * PAGE);
    struct guest_memory *memory = one_region(fd, 2 * PAGE, 0);
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    ck_assert_uint_eq(number_at(host_of(memory)), 0);
    struct guest_memory *larger = NULL;
    struct guest_memory *smaller = NULL;
    struct error err = ERROR_INIT;
    const struct guest_region_spec lost = {.size = 2 * PAGE};
    const struct guest_region_spec more = {
        .guest_address = MIB, .size = 2 * PAGE, .user_address = MIB, .mmap_offset = 0};
    ck_assert_msg(guest_memory_add(memory, &more, other_fd, &larger, &err) == 0, "%s", err.detail);
    ck_assert(guest_memory_lost(larger));
    ck_assert_msg(guest_memory_remove(larger, &lost, &smaller, &err) == 0, "%s", err.detail);
    ck_assert(!guest_memory_lost(smaller));
    guest_memory_free(memory);
    guest_memory_free(larger);
    /* a new mapping in the place of the lost one begins whole */
    memory = one_region(other_fd, 2 * PAGE, 0);
    ck_assert(!guest_memory_lost(memory));
    guest_memory_free(memory);
    guest_memory_free(smaller);
}
END_TEST

struct toucher {
    struct guest_memory *memory;
    pthread_barrier_t *barrier;
    size_t first;
    uint64_t sum;
};

static void *touch(void *argument)
{
    struct toucher *toucher = argument;
    (void)pthread_barrier_wait(toucher->barrier);
    for (size_t at = toucher->first; at < MIB; at += 2 * PAGE)
        toucher->sum += number_at(host_of(toucher->memory) + at);
    return NULL;
}

START_TEST(test_two_threads_may_fault_at_once)
{
    install();
    for (unsigned round = 0; round < 50; round++) {
        auto_close int fd = make_memory(MIB);
        auto_close int other_fd = make_memory(MIB);
        pthread_barrier_t barrier;
        ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, 3), 0);
        /* two in the same memory, one in another's */
        struct guest_memory *memory = one_region(fd, MIB, 0);
        struct guest_memory *other = one_region(other_fd, MIB, 0);
        struct toucher touchers[3] = {{.memory = memory, .barrier = &barrier},
                                      {.memory = memory, .barrier = &barrier, .first = PAGE},
                                      {.memory = other, .barrier = &barrier}};
        ck_assert_int_eq(ftruncate(fd, 0), 0);
        ck_assert_int_eq(ftruncate(other_fd, 0), 0);
        pthread_t threads[3];
        for (unsigned i = 0; i < 3; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, touch, &touchers[i]), 0);
        for (unsigned i = 0; i < 3; i++) {
            ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
            ck_assert_uint_eq(touchers[i].sum, 0);
        }
        ck_assert(guest_memory_lost(memory));
        ck_assert(guest_memory_lost(other));
        guest_memory_free(memory);
        guest_memory_free(other);
        (void)pthread_barrier_destroy(&barrier);
    }
}
END_TEST

struct churner {
    int fd;
    atomic_bool stop;
};

static void *churn(void *argument)
{
    struct churner *churner = argument;
    while (!atomic_load(&churner->stop)) {
        struct guest_memory *memory = one_region(churner->fd, 2 * PAGE, 0);
        guest_memory_free(memory);
    }
    return NULL;
}

START_TEST(test_faults_while_others_are_mapped_and_unmapped)
{
    install();
    struct churner churner = {.fd = make_memory(2 * PAGE)};
    auto_close int stable_fd = make_memory(2 * PAGE);
    struct guest_memory *stable = one_region(stable_fd, 2 * PAGE, 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, churn, &churner), 0);
    for (unsigned round = 0; round < 300; round++) {
        auto_close int fd = make_memory(2 * PAGE);
        struct guest_memory *memory = one_region(fd, 2 * PAGE, 0);
        ck_assert_int_eq(ftruncate(fd, 0), 0);
        ck_assert_uint_eq(number_at(host_of(memory)), 0);
        ck_assert(guest_memory_lost(memory));
        ck_assert(!guest_memory_lost(stable));
        guest_memory_free(memory);
    }
    atomic_store(&churner.stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(number_at(host_of(stable)), 1);
    guest_memory_free(stable);
    (void)close(churner.fd);
}
END_TEST

/* How a child ended that did that. */
static int status_after(void (*act)(void))
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        struct error err = ERROR_INIT;
        if (memory_guard_install(&err) == 0)
            act();
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

static void fault_elsewhere(void)
{
    const int fd = memfd_create("own", MFD_CLOEXEC);
    const volatile uint8_t *own = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (own != MAP_FAILED && own[0] == 0)
        _exit(1);
}

static void be_sent_the_signal(void)
{
    (void)kill(getpid(), SIGBUS);
}

static void fault_after_unmapping(void)
{
    /* at the same address, but no longer a guest's */
    const int fd = make_memory(PAGE);
    struct guest_memory *memory = one_region(fd, PAGE, 0);
    uint8_t *host = host_of(memory);
    guest_memory_free(memory);
    if (ftruncate(fd, 0) != 0)
        _exit(1);
    const volatile uint8_t *again = mmap(host, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    if (again != MAP_FAILED && again[0] == 0)
        _exit(1);
}

START_TEST(test_a_bus_error_elsewhere_ends_the_process)
{
    void (*const acts[])(void) = {fault_elsewhere, be_sent_the_signal, fault_after_unmapping};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        const int status = status_after(acts[i]);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "case %u: status 0x%x", (unsigned)i,
                      (unsigned)status);
    }
}
END_TEST

START_TEST(test_the_guard_is_bounded)
{
    static unsigned entries[70000];
    unsigned count = 0;
    struct error err = ERROR_INIT;
    while (count < 70000 && guard_register((void *)(uintptr_t)(16 * PAGE), PAGE, &entries[count], &err) == 0)
        count++;
    ck_assert_uint_ge(count, 32000);
    ck_assert_msg(count < 65530, "%u mappings are more than Linux allows", count);
    ck_assert_uint_eq(err.reason, REASON_RESOURCE_LIMIT);
    /* what is given back can be had again */
    guard_unregister(entries[12345]);
    ck_assert_int_eq(guard_register((void *)(uintptr_t)(16 * PAGE), PAGE, &entries[12345], &err), 0);
    while (count > 0)
        guard_unregister(entries[--count]);
}
END_TEST

TCase *guard_tcase(void)
{
    TCase *tcase = tcase_create("guard");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_truncated_memory_reads_as_zeros);
    tcase_add_test(tcase, test_writing_finds_the_hole_too);
    tcase_add_test(tcase, test_a_table_knows_of_what_was_lost_before_it_was_made);
    tcase_add_test(tcase, test_two_threads_may_fault_at_once);
    tcase_add_test(tcase, test_faults_while_others_are_mapped_and_unmapped);
    tcase_add_test(tcase, test_a_bus_error_elsewhere_ends_the_process);
    tcase_add_test(tcase, test_the_guard_is_bounded);
    return tcase;
}
