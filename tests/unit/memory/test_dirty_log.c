/* The log of dirty pages: which bits are set, and that nothing is written beyond it. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "dataplane/memory/dirty_log.h"
#include "tests/unit/memory/support.h"

/* An empty file for a log. */
static int make_file(uint64_t size)
{
    const int fd = memfd_create("log", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    return fd;
}

static struct dirty_log *make_log(int fd, uint64_t size, uint64_t offset)
{
    struct dirty_log *log = NULL;
    struct error err = ERROR_INIT;
    ck_assert_msg(dirty_log_new(fd, size, offset, &log, &err) == 0, "%s", err.detail);
    return log;
}

enum { LOG_SIZE = 8, FILE_SIZE = 24, LOG_OFFSET = 8, LOG_PAGES = 64 };

/* Exactly the bits [first, end) of the log are set, and the file is untouched before and behind it. */
static void check_bits(int fd, uint64_t first, uint64_t end)
{
    uint8_t file[FILE_SIZE];
    ck_assert_int_eq(pread(fd, file, sizeof file, 0), (ssize_t)sizeof file);
    for (uint64_t bit = 0; bit < UINT64_C(8) * FILE_SIZE; bit++) {
        const uint64_t page = bit - (uint64_t)LOG_OFFSET * 8;
        const bool expected = bit >= (uint64_t)LOG_OFFSET * 8 && page >= first && page < end;
        ck_assert_msg(((file[bit / 8] >> (bit % 8)) & 1) == expected, "[%u, %u): page %d should be %sset",
                      (unsigned)first, (unsigned)end, (int)page, expected ? "" : "un");
    }
}

START_TEST(test_every_range_of_pages)
{
    for (uint64_t first = 0; first < LOG_PAGES; first++) {
        for (uint64_t end = first + 1; end <= LOG_PAGES + 3; end++) {
            auto_close int fd = make_file(FILE_SIZE);
            struct dirty_log *log = make_log(fd, LOG_SIZE, LOG_OFFSET);
            /* from the last byte of the first page to the first byte of the last, or one page's middle */
            if (end - first == 1)
                dirty_log_mark(log, first * PAGE + 7, 1);
            else
                dirty_log_mark(log, (first + 1) * PAGE - 1, (end - first - 2) * PAGE + 2);
            check_bits(fd, first, end < LOG_PAGES ? end : LOG_PAGES);
            dirty_log_free(log);
        }
    }
}
END_TEST

START_TEST(test_nothing_is_written_beyond_the_log)
{
    auto_close int fd = make_file(FILE_SIZE);
    struct dirty_log *log = make_log(fd, LOG_SIZE, LOG_OFFSET);
    dirty_log_mark(NULL, 0, 100);
    dirty_log_mark(log, 100, 0);
    dirty_log_mark(log, UINT64_MAX, 0);
    dirty_log_mark(log, LOG_PAGES * PAGE, 1);
    dirty_log_mark(log, LOG_PAGES * PAGE, UINT64_MAX);
    dirty_log_mark(log, UINT64_MAX, 1);
    dirty_log_mark(log, UINT64_MAX, UINT64_MAX);
    dirty_log_mark(log, UINT64_MAX - 10, 100);
    check_bits(fd, 0, 0);
    dirty_log_mark(log, LOG_PAGES * PAGE - 1, UINT64_MAX);
    check_bits(fd, LOG_PAGES - 1, LOG_PAGES);
    dirty_log_mark(log, 0, UINT64_MAX);
    check_bits(fd, 0, LOG_PAGES);
    dirty_log_free(log);
    dirty_log_free(NULL);
}
END_TEST

START_TEST(test_bits_stay_and_can_be_set_again)
{
    auto_close int fd = make_file(FILE_SIZE);
    struct dirty_log *log = make_log(fd, LOG_SIZE, LOG_OFFSET);
    dirty_log_mark(log, 3 * PAGE, 1);
    dirty_log_mark(log, 4 * PAGE, 1);
    dirty_log_mark(log, 3 * PAGE, 1);
    check_bits(fd, 3, 5);
    /* as the front-end does when it has seen them */
    const uint8_t none[LOG_SIZE] = {0};
    ck_assert_int_eq(pwrite(fd, none, sizeof none, LOG_OFFSET), (ssize_t)sizeof none);
    dirty_log_mark(log, 4 * PAGE, 1);
    check_bits(fd, 4, 5);
    dirty_log_free(log);
}
END_TEST

START_TEST(test_logs_that_cannot_be_are_refused)
{
    auto_close int fd = make_file(FILE_SIZE);
    static const uint64_t cases[][2] = {{0, 0},          {FILE_SIZE + 1, 0},   {FILE_SIZE, 1},
                                        {UINT64_MAX, 1}, {16, UINT64_MAX - 8}, {1, FILE_SIZE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dirty_log *log = NULL;
        struct error err = ERROR_INIT;
        ck_assert_msg(dirty_log_new(fd, cases[i][0], cases[i][1], &log, &err) == -1, "case %u", (unsigned)i);
        ck_assert_uint_eq(err.reason, REASON_INVALID_REQUEST);
        ck_assert_ptr_null(log);
    }
    ck_assert_uint_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_a_lost_log_is_noticed)
{
    struct error err = ERROR_INIT;
    ck_assert_int_eq(memory_guard_install(&err), 0);
    auto_close int fd = make_file(FILE_SIZE);
    struct dirty_log *log = make_log(fd, LOG_SIZE, LOG_OFFSET);
    ck_assert(!dirty_log_lost(log));
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    dirty_log_mark(log, 0, 1);
    ck_assert(dirty_log_lost(log));
    dirty_log_mark(log, 0, UINT64_MAX);
    dirty_log_free(log);
}
END_TEST

TCase *dirty_log_tcase(void)
{
    TCase *tcase = tcase_create("dirty log");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_every_range_of_pages);
    tcase_add_test(tcase, test_nothing_is_written_beyond_the_log);
    tcase_add_test(tcase, test_bits_stay_and_can_be_set_again);
    tcase_add_test(tcase, test_logs_that_cannot_be_are_refused);
    tcase_add_test(tcase, test_a_lost_log_is_noticed);
    return tcase;
}
