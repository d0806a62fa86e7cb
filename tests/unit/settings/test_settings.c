#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "daemon/options.h"
#include "daemon/settings.h"
#include "daemon/startup.h"

static char directory[] = "/tmp/chan-unit-settings-XXXXXX";
static char file_path[64];
static struct settings settings;
static struct error err;

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    (void)snprintf(file_path, sizeof file_path, "%s/chand.conf", directory);
    err = ERROR_INIT;
    ck_assert_int_eq(settings_init(&settings, &err), 0);
}

static void teardown(void)
{
    settings_clear(&settings);
    (void)unlink(file_path);
    char path[96];
    (void)snprintf(path, sizeof path, "%s/chand.lock", directory);
    (void)unlink(path);
    (void)rmdir(directory);
}

static void write_file(const char *text)
{
    FILE *file = fopen(file_path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static int set(const char *key, const char *value)
{
    enum setting setting;
    err = ERROR_INIT;
    if (settings_find(key, &setting, &err) != 0)
        return -1;
    return settings_set(&settings, setting, value, &err);
}

static void assert_detail_has(const char *part)
{
    ck_assert_msg(strstr(err.detail, part) != NULL, "expected \"%s\" in \"%s\"", part, err.detail);
}

static int parse(enum action *action, const char *a, const char *b, const char *c, const char *d)
{
    char *words[] = {strdup("chand"), a != NULL ? strdup(a) : NULL, b != NULL ? strdup(b) : NULL,
                     c != NULL ? strdup(c) : NULL, d != NULL ? strdup(d) : NULL};
    int count = 1;
    while (count < 5 && words[count] != NULL)
        count++;
    err = ERROR_INIT;
    int result = options_parse(count, words, action, &settings, &err);
    for (int i = 0; i < count; i++)
        free(words[i]);
    return result;
}

START_TEST(defaults_are_valid_and_as_documented)
{
    ck_assert_int_eq(settings_check(&settings, &err), 0);
    ck_assert_str_eq(settings_text(&settings, SETTING_STATE_DIR), "/var/lib/chan");
    ck_assert_str_eq(settings_text(&settings, SETTING_RUNTIME_DIR), "/run/chan");
    ck_assert_str_eq(settings_text(&settings, SETTING_SHM_DIR), "/dev/shm");
    ck_assert_ptr_null(settings_text(&settings, SETTING_LISTEN_TCP));
    ck_assert_uint_eq(settings_number(&settings, SETTING_DEFAULT_REGION_SIZE), 1048576);
}
END_TEST

START_TEST(sizes_take_suffixes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"4096", 4096}, {"64K", 65536}, {"2m", 2097152}, {"1G", 1073741824}, {"1T", 1099511627776}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(set("max-region-size", cases[i].text) == 0, "%s: %s", cases[i].text, err.detail);
        ck_assert_uint_eq(settings_number(&settings, SETTING_MAX_REGION_SIZE), cases[i].bytes);
    }
}
END_TEST

START_TEST(bad_numbers_are_refused_and_change_nothing)
{
    static const char *const cases[][3] = {
        {"workers", "0", "out of range: 1 to 256"},
        {"workers", "257", "out of range"},
        {"workers", "-1", "not a number"},
        {"workers", "+1", "not a number"},
        {"workers", "4K", "not a number of threads"},
        {"workers", "4 threads", "not a number"},
        {"workers", "", "has no value"},
        {"max-region-size", "1KB", "not a number of bytes"},
        {"max-region-size", "K", "not a number"},
        {"max-region-size", "2T", "out of range"},
        {"max-region-size", "18446744073709551616", "out of range"},
        {"max-region-size", "18446744073709551615T", "out of range"},
    };
    uint64_t workers = settings_number(&settings, SETTING_WORKERS);
    uint64_t size = settings_number(&settings, SETTING_MAX_REGION_SIZE);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(set(cases[i][0], cases[i][1]) == -1, "%s = %s was taken", cases[i][0], cases[i][1]);
        assert_detail_has(cases[i][0]);
        assert_detail_has(cases[i][2]);
    }
    ck_assert_uint_eq(settings_number(&settings, SETTING_WORKERS), workers);
    ck_assert_uint_eq(settings_number(&settings, SETTING_MAX_REGION_SIZE), size);
}
END_TEST

START_TEST(an_unknown_key_names_the_nearest)
{
    static const char *const cases[][2] = {
        {"statedir", "state-dir"}, {"wokers", "workers"}, {"max_region_size", "max-region-size"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(set(cases[i][0], "1"), -1);
        char expected[64];
        (void)snprintf(expected, sizeof expected, "nearest is \"%s\"", cases[i][1]);
        assert_detail_has(expected);
    }
    char endless[2000];
    memset(endless, 'x', sizeof endless);
    endless[sizeof endless - 1] = '\0';
    ck_assert_int_eq(set(endless, "1"), -1);
}
END_TEST

START_TEST(a_file_is_read)
{
    write_file("# a comment\n\n  workers =  3  \nregion-name=x-{sandboxID} = y\nlog-level = debug");
    ck_assert_msg(settings_load(&settings, file_path, &err) == 0, "%s", err.detail);
    ck_assert_uint_eq(settings_number(&settings, SETTING_WORKERS), 3);
    ck_assert_str_eq(settings_text(&settings, SETTING_REGION_NAME), "x-{sandboxID} = y");
    ck_assert_int_eq(settings_log_level(&settings), LOG_LEVEL_DEBUG);
}
END_TEST

START_TEST(faults_of_a_file_name_file_and_line)
{
    static const struct {
        const char *text;
        int line;
        const char *part;
    } cases[] = {
        {"workers = 3\nworker = 4\n", 2, "nearest is \"workers\""},
        {"\n\nworkers 3\n", 3, "key = value"},
        {"workers = 3\n# again\nworkers = 3\n", 3, "line 1 already"},
        {"workers = many\n", 1, "not a number"},
        {"state-dir =\n", 1, "no value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(cases[i].text);
        err = ERROR_INIT;
        ck_assert_int_eq(settings_load(&settings, file_path, &err), -1);
        char place[96];
        (void)snprintf(place, sizeof place, "%s:%d: ", file_path, cases[i].line);
        assert_detail_has(place);
        assert_detail_has(cases[i].part);
    }
    ck_assert_int_eq(settings_load(&settings, "/nonexistent/chand.conf", &err), -1);
    assert_detail_has("/nonexistent/chand.conf");
}
END_TEST

START_TEST(an_endless_line_is_refused)
{
    char *text = malloc(100001);
    ck_assert_ptr_nonnull(text);
    memset(text, 'a', 100000);
    text[100000] = '\0';
    write_file(text);
    free(text);
    ck_assert_int_eq(settings_load(&settings, file_path, &err), -1);
    assert_detail_has(":1: the line is longer");
}
END_TEST

START_TEST(sizes_are_checked_against_each_other)
{
    ck_assert_int_eq(set("max-region-size", "12288"), 0);
    ck_assert_int_eq(settings_check(&settings, &err), -1);
    assert_detail_has("max-region-size: 12288 is not a power of two");
    ck_assert_int_eq(set("max-region-size", "64K"), 0);
    ck_assert_int_eq(settings_check(&settings, &err), -1);
    assert_detail_has("default-region-size: 1048576 is above");
    ck_assert_int_eq(set("default-region-size", "64K"), 0);
    ck_assert_int_eq(settings_check(&settings, &err), 0);
}
END_TEST

START_TEST(words_are_checked)
{
    ck_assert_int_eq(set("log-level", "loud"), 0);
    ck_assert_int_eq(settings_check(&settings, &err), -1);
    assert_detail_has("log-level");
    ck_assert_int_eq(set("log-level", "error"), 0);
    ck_assert_int_eq(set("allow-remote", "true"), 0);
    ck_assert_int_eq(settings_check(&settings, &err), -1);
    assert_detail_has("allow-remote");
}
END_TEST

START_TEST(tcp_addresses)
{
    static const char *const good[][2] = {{"7880", "127.0.0.1:7880"},
                                          {"127.0.0.1:1", "127.0.0.1:1"},
                                          {"127.9.9.9:80", "127.9.9.9:80"},
                                          {"[::1]:65535", "[::1]:65535"}};
    static const char *const bad[] = {"0",      "65536",    "127.0.0.1", "127.0.0.1:",   ":80",
                                      "::1:80", "[::1]",    "[::1:80",   "localhost:80", "127.0.0.1:080000",
                                      "-1",     "1.2.3:80", "[]:80"};
    static const char *const remote[] = {"0.0.0.0:80", "10.0.0.1:80", "[::]:80", "[fe80::1]:80"};
    char address[TCP_ADDRESS_SIZE];
    ck_assert_int_eq(settings_tcp_address(&settings, address, &err), 0);
    ck_assert_str_eq(address, "");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_int_eq(set("listen-tcp", good[i][0]), 0);
        ck_assert_msg(settings_tcp_address(&settings, address, &err) == 0, "%s: %s", good[i][0], err.detail);
        ck_assert_str_eq(address, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(set("listen-tcp", bad[i]), 0);
        ck_assert_msg(settings_check(&settings, &err) == -1, "%s was taken", bad[i]);
        assert_detail_has("listen-tcp: ");
    }
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++) {
        ck_assert_int_eq(set("allow-remote", "no"), 0);
        ck_assert_int_eq(set("listen-tcp", remote[i]), 0);
        ck_assert_int_eq(settings_check(&settings, &err), -1);
        assert_detail_has("allow-remote = yes");
        ck_assert_int_eq(set("allow-remote", "yes"), 0);
        ck_assert_int_eq(settings_check(&settings, &err), 0);
    }
}
END_TEST

START_TEST(options_win_over_the_file_wherever_they_stand)
{
    enum action action;
    write_file("workers = 3\nidle-timeout = 7\n");
    ck_assert_msg(parse(&action, "--workers=5", "--config", file_path, NULL) == 0, "%s", err.detail);
    ck_assert_int_eq(action, ACTION_RUN);
    ck_assert_uint_eq(settings_number(&settings, SETTING_WORKERS), 5);
    ck_assert_uint_eq(settings_number(&settings, SETTING_IDLE_TIMEOUT), 7);
    ck_assert_msg(parse(&action, "--check-config", "--workers", "6", NULL) == 0, "%s", err.detail);
    ck_assert_int_eq(action, ACTION_CHECK_CONFIG);
    ck_assert_uint_eq(settings_number(&settings, SETTING_WORKERS), 6);
}
END_TEST

START_TEST(bad_command_lines_are_refused)
{
    enum action action;
    ck_assert_int_eq(parse(&action, "--wokers", "5", NULL, NULL), -1);
    assert_detail_has("--wokers");
    assert_detail_has("nearest is \"workers\"");
    ck_assert_int_eq(parse(&action, "--workers", NULL, NULL, NULL), -1);
    assert_detail_has("--workers needs a value");
    ck_assert_int_eq(parse(&action, "--config", NULL, NULL, NULL), -1);
    assert_detail_has("--config needs a value");
    ck_assert_int_eq(parse(&action, "workers", "5", NULL, NULL), -1);
    assert_detail_has("not an option");
    ck_assert_int_eq(parse(&action, "--", NULL, NULL, NULL), -1);
    ck_assert_int_eq(parse(&action, "--workers", "none", NULL, NULL), -1);
    assert_detail_has("--workers: \"none\" is not a number");
    ck_assert_int_eq(parse(&action, "--log-level", "loud", NULL, NULL), -1);
    ck_assert_int_eq(parse(&action, "--config", "/nonexistent", NULL, NULL), -1);
}
END_TEST

START_TEST(help_and_version_need_no_valid_settings)
{
    enum action action;
    ck_assert_int_eq(parse(&action, "--nonsense", "--help", NULL, NULL), 0);
    ck_assert_int_eq(action, ACTION_HELP);
    ck_assert_int_eq(parse(&action, "--version", NULL, NULL, NULL), 0);
    ck_assert_int_eq(action, ACTION_VERSION);
}
END_TEST

/* Captures what fn prints. */
static char *printed(void (*fn)(FILE *out))
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    fn(out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

static void print_settings(FILE *out)
{
    settings_print(&settings, out);
}

START_TEST(help_lists_every_setting)
{
    char *text = printed(options_help);
#define TEXT(name, key, ...)   ck_assert_msg(strstr(text, "--" key " ") != NULL, "no --%s in the help", key);
#define NUMBER(name, key, ...) ck_assert_msg(strstr(text, "--" key " ") != NULL, "no --%s in the help", key);
#include "daemon/settings.def"
#undef TEXT
#undef NUMBER
    free(text);
}
END_TEST

START_TEST(what_is_printed_can_be_read_again)
{
    ck_assert_int_eq(set("workers", "9"), 0);
    ck_assert_int_eq(set("listen-tcp", "80"), 0);
    char *text = printed(print_settings);
    write_file(text);
    struct settings again;
    ck_assert_int_eq(settings_init(&again, &err), 0);
    ck_assert_msg(settings_load(&again, file_path, &err) == 0, "%s", err.detail);
    ck_assert_uint_eq(settings_number(&again, SETTING_WORKERS), 9);
    ck_assert_str_eq(settings_text(&again, SETTING_LISTEN_TCP), "80");
    ck_assert_ptr_null(settings_text(&again, SETTING_SOCKET_GROUP));
    settings_clear(&again);
    free(text);
}
END_TEST

START_TEST(a_missing_directory_is_made_with_its_mode)
{
    char path[96];
    struct stat status;
    (void)snprintf(path, sizeof path, "%s/state", directory);
    (void)umask(0777);
    ck_assert_msg(startup_directory(path, 0755, false, &err) == 0, "%s", err.detail);
    (void)umask(022);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0755);
    ck_assert_int_eq(startup_directory(path, 0700, true, &err), 0);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0755);
    ck_assert_int_eq(chmod(path, 0757), 0);
    ck_assert_int_eq(startup_directory(path, 0700, false, &err), 0);
    ck_assert_int_eq(startup_directory(path, 0700, true, &err), -1);
    assert_detail_has("chmod o-w");
    ck_assert_int_eq(rmdir(path), 0);
    write_file("");
    ck_assert_int_eq(startup_directory(file_path, 0700, true, &err), -1);
    assert_detail_has("not a directory");
    (void)snprintf(path, sizeof path, "%s/no/such", directory);
    ck_assert_int_eq(startup_directory(path, 0700, true, &err), -1);
    assert_detail_has("No such file");
}
END_TEST

START_TEST(a_state_directory_has_one_user)
{
    int first = -1;
    int second = -1;
    ck_assert_msg(startup_lock(directory, &first, &err) == 0, "%s", err.detail);
    ck_assert_int_eq(fcntl(first, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ck_assert_int_eq(startup_lock(directory, &second, &err), -1);
    char pid[32];
    (void)snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    assert_detail_has(pid);
    assert_detail_has(directory);
    ck_assert_int_eq(close(first), 0);
    ck_assert_int_eq(startup_lock(directory, &second, &err), 0);
    ck_assert_int_eq(close(second), 0);
}
END_TEST

START_TEST(the_descriptor_limit_rises_to_the_hard_one)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t hard = limit.rlim_max;
    limit.rlim_cur = 64;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    uint64_t raised = 0;
    ck_assert_int_eq(descriptors_limit(&raised, &err), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_eq(limit.rlim_cur, hard);
    ck_assert_uint_eq(raised, hard);
    limit.rlim_cur = limit.rlim_max = 255; /* each test is a process of its own */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(descriptors_limit(&raised, &err), -1);
    assert_detail_has("at least 256");
}
END_TEST

START_TEST(closed_standard_descriptors_are_taken)
{
    int old = dup(STDIN_FILENO);
    ck_assert_int_eq(close(STDIN_FILENO), 0);
    ck_assert_int_eq(descriptors_standard(&err), 0);
    struct stat status;
    struct stat null;
    ck_assert_int_eq(fstat(STDIN_FILENO, &status), 0);
    ck_assert_int_eq(stat("/dev/null", &null), 0);
    ck_assert_uint_eq(status.st_rdev, null.st_rdev);
    (void)dup2(old, STDIN_FILENO);
    (void)close(old);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("settings");
    TCase *tests = tcase_create("settings");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, defaults_are_valid_and_as_documented);
    tcase_add_test(tests, sizes_take_suffixes);
    tcase_add_test(tests, bad_numbers_are_refused_and_change_nothing);
    tcase_add_test(tests, an_unknown_key_names_the_nearest);
    tcase_add_test(tests, a_file_is_read);
    tcase_add_test(tests, faults_of_a_file_name_file_and_line);
    tcase_add_test(tests, an_endless_line_is_refused);
    tcase_add_test(tests, sizes_are_checked_against_each_other);
    tcase_add_test(tests, words_are_checked);
    tcase_add_test(tests, tcp_addresses);
    tcase_add_test(tests, options_win_over_the_file_wherever_they_stand);
    tcase_add_test(tests, bad_command_lines_are_refused);
    tcase_add_test(tests, help_and_version_need_no_valid_settings);
    tcase_add_test(tests, help_lists_every_setting);
    tcase_add_test(tests, what_is_printed_can_be_read_again);
    tcase_add_test(tests, a_missing_directory_is_made_with_its_mode);
    tcase_add_test(tests, a_state_directory_has_one_user);
    tcase_add_test(tests, the_descriptor_limit_rises_to_the_hard_one);
    tcase_add_test(tests, closed_standard_descriptors_are_taken);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
