/* Log lines, read back from a pipe. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/base/cases.h"

static int pipe_ends[2];

static struct log open_log(enum log_level level)
{
    ck_assert_int_eq(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK), 0);
    return (struct log){.level = level, .fd = pipe_ends[1]};
}

/* What was logged, without the time, which is checked for its form; "" when nothing was. */
static const char *logged(void)
{
    static char text[8192];
    ssize_t got = read(pipe_ends[0], text, sizeof text - 1);
    if (got < 0) {
        return "";
    }
    text[got] = '\0';
    static const char start[] = "time=2";
    ck_assert_int_eq(strncmp(text, start, strlen(start)), 0);
    const char *space = strchr(text, ' ');
    ck_assert_ptr_nonnull(space);
    ck_assert_int_eq(space[-1], 'Z');
    return space + 1;
}

static void close_log(void)
{
    (void)close(pipe_ends[0]);
    (void)close(pipe_ends[1]);
}

START_TEST(test_line)
{
    struct log log = open_log(LOG_LEVEL_INFO);
    log_write(&log, LOG_LEVEL_INFO, "sandbox created", "sandboxID", "sb1", "size", "4096", NULL);
    ck_assert_str_eq(logged(), "level=info msg=\"sandbox created\" sandboxID=sb1 size=4096\n");
    log_write(&log, LOG_LEVEL_ERROR, "bad", NULL);
    ck_assert_str_eq(logged(), "level=error msg=bad\n");
    close_log();
}
END_TEST

START_TEST(test_levels)
{
    struct log log = open_log(LOG_LEVEL_WARNING);
    log_write(&log, LOG_LEVEL_INFO, "dropped", NULL);
    log_write(&log, LOG_LEVEL_DEBUG, "dropped", NULL);
    ck_assert_str_eq(logged(), "");
    log_write(&log, LOG_LEVEL_WARNING, "kept", NULL);
    ck_assert_str_eq(logged(), "level=warning msg=kept\n");
    log_write(NULL, LOG_LEVEL_ERROR, "nobody listens", NULL);
    close_log();
}
END_TEST

START_TEST(test_values_cannot_forge_lines)
{
    struct log log = open_log(LOG_LEVEL_DEBUG);
    log_write(&log, LOG_LEVEL_DEBUG, "m", "a", "x\nlevel=error msg=forged", "b", "q\"\\", "c", "", "d", "e=f",
              NULL);
    ck_assert_str_eq(logged(),
                     "level=debug msg=m a=\"x\\nlevel=error msg=forged\" b=\"q\\\"\\\\\" c=\"\" d=\"e=f\"\n");
    log_write(&log, LOG_LEVEL_DEBUG, "m", "a", "\x1b[31mred", NULL);
    ck_assert_str_eq(logged(), "level=debug msg=m a=\"\\x1b[31mred\"\n");
    log_write(&log, LOG_LEVEL_DEBUG, "m", "a", "\xc3\xa4\r", NULL);
    ck_assert_str_eq(logged(), "level=debug msg=m a=\"\xc3\xa4\\x0d\"\n");
    close_log();
}
END_TEST

START_TEST(test_long_line_is_cut)
{
    struct log log = open_log(LOG_LEVEL_INFO);
    char value[5000];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    log_write(&log, LOG_LEVEL_INFO, "m", "k", value, "after", "x", NULL);
    const char *line = logged();
    ck_assert_uint_lt(strlen(line), 2048);
    ck_assert_int_eq(line[strlen(line) - 1], '\n');
    ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
    close_log();
}
END_TEST

TCase *log_case(void)
{
    TCase *tcase = tcase_create("log");
    tcase_add_test(tcase, test_line);
    tcase_add_test(tcase, test_levels);
    tcase_add_test(tcase, test_values_cannot_forge_lines);
    tcase_add_test(tcase, test_long_line_is_cut);
    return tcase;
}
