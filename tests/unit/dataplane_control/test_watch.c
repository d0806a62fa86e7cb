/* The log of what becomes of the ends: changes only, and never too many lines at once. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dataplane/control/watch.h"
#include "tests/unit/dataplane_control/fixture.h"

static int output[2];
static struct watch watch;

static void setup(void)
{
    fixture_setup();
    ck_assert_int_eq(pipe(output), 0);
    static struct log log;
    log = (struct log){.level = LOG_LEVEL_INFO, .fd = output[1]};
    watch_start(&watch, loop, table, &log);
}

static void teardown(void)
{
    watch_stop(&watch);
    (void)close(output[0]);
    (void)close(output[1]);
    fixture_teardown();
}

/* Looks, and answers what was written. */
static const char *look(unsigned expected_lines)
{
    static char text[65536];
    const unsigned lines = watch_look(&watch);
    ck_assert_uint_eq(lines, expected_lines);
    text[0] = '\0';
    if (lines > 0) {
        const ssize_t got = read(output[0], text, sizeof text - 1);
        ck_assert_int_gt((int)got, 0);
        text[got] = '\0';
    }
    unsigned newlines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        newlines++;
    ck_assert_uint_eq(newlines, expected_lines);
    return text;
}

static void assert_has(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in: %s", part, text);
}

START_TEST(each_change_is_said_once)
{
    struct end *end = link_end(create("l")->link, 1);
    const char *text = look(2);
    assert_has(text, "level=info msg=\"end waiting\" link=l end=0 socket=/l0 why=\"nobody is there\"");
    assert_has(text, "level=info msg=\"end waiting\" link=l end=1 socket=/l1 why=\"nobody is there\"");
    (void)look(0);
    quiet_end_set_status(end, END_RUNNING, "");
    assert_has(look(1), "msg=\"end running\" link=l end=1 socket=/l1 peer=4294967295\n");
    (void)look(0);
    quiet_end_set_status(end, END_FAULTED, "it wrote nonsense");
    assert_has(look(1),
               "level=warning msg=\"end faulted\" link=l end=1 socket=/l1 why=\"it wrote nonsense\"");
    quiet_end_set_status(end, END_FAULTED, "other nonsense");
    assert_has(look(1), "why=\"other nonsense\"");
    (void)look(0);
}
END_TEST

START_TEST(lines_are_bounded_and_none_is_lost)
{
    for (unsigned i = 0; i < 100; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "l%u", i);
        (void)create(id);
    }
    for (unsigned left = 200; left > 0; left -= left < WATCH_LINES_MAX ? left : WATCH_LINES_MAX)
        (void)look(left < WATCH_LINES_MAX ? left : WATCH_LINES_MAX);
    (void)look(0);
}
END_TEST

START_TEST(an_end_that_changes_all_the_time_keeps_no_other_one_back)
{
    enum { LINKS = 50 };
    for (unsigned i = 0; i < LINKS; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "l%02u", i);
        (void)create(id);
    }
    (void)look(64);
    (void)look(36);
    /* All but the last one change between any two looks. */
    struct link_entry *last = link_table_at(table, LINKS - 1);
    quiet_end_set_status(link_end(last->link, 0), END_FAULTED, "said at last");
    bool said = false;
    for (unsigned pass = 0; pass < 3 && !said; pass++) {
        for (unsigned i = 0; i < LINKS - 1; i++) {
            struct link_entry *entry = link_table_at(table, i);
            char reason[24];
            (void)snprintf(reason, sizeof reason, "reason %u", pass);
            quiet_end_set_status(link_end(entry->link, 0), END_CONNECTED, reason);
            quiet_end_set_status(link_end(entry->link, 1), END_CONNECTED, reason);
        }
        char text[65536];
        (void)watch_look(&watch);
        const ssize_t got = read(output[0], text, sizeof text - 1);
        ck_assert_int_gt((int)got, 0);
        text[got] = '\0';
        said = strstr(text, "said at last") != NULL;
    }
    ck_assert(said);
}
END_TEST

TCase *watch_tcase(void)
{
    TCase *tcase = tcase_create("watch");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, each_change_is_said_once);
    tcase_add_test(tcase, lines_are_bounded_and_none_is_lost);
    tcase_add_test(tcase, an_end_that_changes_all_the_time_keeps_no_other_one_back);
    return tcase;
}
