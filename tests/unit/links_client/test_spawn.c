/* Starting a dataplane, with a real process. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/links_client/fixture.h"

static pid_t pid_of_dataplane(void)
{
    struct links_report report;
    links_report(fx.links, &report);
    return (pid_t)report.pid;
}

static bool is_another(const void *before)
{
    const pid_t now = pid_of_dataplane();
    return now != 0 && now != *(const pid_t *)before && is_connected(NULL);
}

static bool has_the_link(const void *row)
{
    struct link_state state;
    links_state(fx.links, row, &state);
    return state.known;
}

static bool has_ended(const void *pid)
{
    return kill(*(const pid_t *)pid, 0) != 0;
}

START_TEST(it_is_started_when_it_is_needed)
{
    open_links(FAKE_DATAPLANE, "0");
    const struct link_row row = make_link("l");
    struct links_report report;
    links_report(fx.links, &report);
    ck_assert(report.connected);
    ck_assert(report.started_here);
    ck_assert_uint_eq(report.starts, 1);
    ck_assert(has_the_link(&row));
    ck_assert_int_eq(status_of("dataplane.log").st_size, 0);
    const pid_t pid = (pid_t)report.pid;
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
}
END_TEST

START_TEST(one_that_is_killed_is_replaced_with_all_its_links)
{
    open_links(FAKE_DATAPLANE, "0");
    const struct link_row row = make_link("l");
    const pid_t first = pid_of_dataplane();
    const int64_t before = clock_monotonic_ns();
    ck_assert_int_eq(kill(first, SIGKILL), 0);
    wait_for(is_another, &first, "there is another dataplane");
    wait_for(has_the_link, &row, "the new dataplane has the link");
    const int64_t took_ms = (clock_monotonic_ns() - before) / 1000000;
    ck_assert_msg(took_ms < 5000, "it took %lld ms", (long long)took_ms);
    const pid_t second = pid_of_dataplane();
    ck_assert_int_eq(kill(second, SIGKILL), 0);
}
END_TEST

START_TEST(it_outlives_chand_and_is_adopted)
{
    open_links(FAKE_DATAPLANE, "0");
    const struct link_row row = make_link("l");
    const pid_t pid = pid_of_dataplane();
    close_links();
    ck_assert_int_eq(kill(pid, 0), 0);
    open_links(FAKE_DATAPLANE, "0");
    ck_assert_int_eq(pid_of_dataplane(), pid);
    struct links_report report;
    links_report(fx.links, &report);
    ck_assert(!report.started_here);
    ck_assert_uint_eq(report.starts, 0);
    ck_assert(has_the_link(&row));
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    wait_for(is_another, &pid, "there is another dataplane");
    ck_assert_int_eq(kill(pid_of_dataplane(), SIGKILL), 0);
}
END_TEST

START_TEST(one_that_dies_at_once_is_not_started_in_a_loop)
{
    open_links(FAKE_DATAPLANE, "dies");
    const struct link_row row = make_row("l");
    assert_fails(apply_link(&row), REASON_DATAPLANE_UNAVAILABLE, "ended with status 6");
    ck_assert_msg(strstr(fx.err.detail, "see dataplane.log") != NULL, "it says \"%s\"", fx.err.detail);
    ck_assert(!exists("links/l"));
    const int64_t end = clock_monotonic_ns() + INT64_C(1500000000);
    while (clock_monotonic_ns() < end)
        (void)apply_link(&row);
    struct links_report report;
    links_report(fx.links, &report);
    ck_assert_msg(report.starts >= 3 && report.starts <= 7, "%llu starts in 1.5 s, 3 to 7 were expected",
                  (unsigned long long)report.starts);
    char path[256];
    char line[64] = "";
    path_in("dataplane.log", path);
    FILE *log = fopen(path, "r");
    ck_assert_ptr_nonnull(log);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, log));
    (void)fclose(log);
    ck_assert_str_eq(line, "told to die\n");
}
END_TEST

START_TEST(one_that_does_not_exist_is_reported)
{
    open_links("/nonexistent/chan-dataplane", NULL);
    const struct link_row row = make_row("l");
    assert_fails(apply_link(&row), REASON_DATAPLANE_UNAVAILABLE, "/nonexistent/chan-dataplane");
    ck_assert(!exists("links/l"));
}
END_TEST

START_TEST(its_end_is_noticed)
{
    char socket_path[256];
    char log_path[256];
    path_in("other.sock", socket_path);
    path_in("other.log", log_path);
    struct spawn spawn = SPAWN_INIT;
    const struct spawn_config config = {
        .program = FAKE_DATAPLANE, .cpus = "0", .socket_path = socket_path, .log_path = log_path};
    assert_works(spawn_start(&spawn, &config, &fx.err));
    ck_assert(!spawn_reap(&spawn));
    const pid_t pid = spawn.pid;
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    const int64_t end = clock_monotonic_ns() + INT64_C(10000000000);
    while (!spawn_reap(&spawn))
        ck_assert_msg(clock_monotonic_ns() < end, "the end of the process is not noticed");
    ck_assert_str_eq(spawn.ended,
                     "the dataplane was ended by SIGKILL; see dataplane.log in the runtime directory");
    ck_assert_int_eq(spawn.pid, 0);
    ck_assert_int_eq(spawn.pidfd, -1);
    ck_assert(has_ended(&pid));
}
END_TEST

TCase *spawn_tests(void)
{
    TCase *tcase = tcase_create("spawn");
    tcase_add_test(tcase, it_is_started_when_it_is_needed);
    tcase_add_test(tcase, one_that_is_killed_is_replaced_with_all_its_links);
    tcase_add_test(tcase, it_outlives_chand_and_is_adopted);
    tcase_add_test(tcase, one_that_dies_at_once_is_not_started_in_a_loop);
    tcase_add_test(tcase, one_that_does_not_exist_is_reported);
    tcase_add_test(tcase, its_end_is_noticed);
    return tcase;
}
