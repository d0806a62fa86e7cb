/* What the thread does: after a restart of either side the dataplane has what the store wants. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/links_client/fixture.h"

static bool row_is_gone(const void *id)
{
    return !row_exists(id);
}

static bool is_remade(const void *links)
{
    return fake_count(fx.fake) == *(const size_t *)links;
}

static void make_many(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "link-%03zu", i);
        (void)make_link(id);
    }
}

START_TEST(a_dataplane_that_starts_anew_gets_all_links_again)
{
    const size_t count = 150; /* more than a page */
    start_fake();
    open_links(NULL, NULL);
    make_many(count);
    const ino_t before = status_of("links/link-007/0/vhost-user.sock").st_ino;
    stop_fake();
    wait_for(is_disconnected, NULL, "chand has noticed");
    start_fake();
    wait_for(is_remade, &count, "the new dataplane has all links");
    struct fake_link there;
    ck_assert(fake_find(fx.fake, "link-007", &there));
    ck_assert_int_ge(there.ends[1].listener, 0);
    ck_assert_uint_ne(status_of("links/link-007/0/vhost-user.sock").st_ino, before);
    connects("links/link-007/1/vhost-user.sock");
    const int accepted = accept(there.ends[1].listener, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    (void)close(accepted);
    struct links_report report;
    links_report(fx.links, &report);
    ck_assert(report.connected);
    ck_assert(!report.started_here);
    ck_assert_str_eq(report.software, "fake 1");
    ck_assert_uint_eq(report.pid, (uint32_t)getpid());
    ck_assert_uint_eq(report.reconnects, 1);
    ck_assert_uint_eq(report.starts, 0);
}
END_TEST

START_TEST(a_start_of_chand_changes_nothing_that_is_as_wanted)
{
    start_fake();
    open_links(NULL, NULL);
    make_many(150);
    const ino_t before = status_of("links/link-007/0/vhost-user.sock").st_ino;
    close_links();
    const unsigned creates = fx.fake->creates;
    const unsigned deletes = fx.fake->deletes;
    open_links(NULL, NULL);
    ck_assert_msg(is_connected(NULL), "the start has not waited for the dataplane");
    ck_assert_uint_eq(fx.fake->creates, creates);
    ck_assert_uint_eq(fx.fake->deletes, deletes);
    ck_assert_uint_eq(fake_count(fx.fake), 150);
    ck_assert_uint_eq(status_of("links/link-007/0/vhost-user.sock").st_ino, before);
}
END_TEST

START_TEST(what_differs_is_made_anew_and_nothing_else)
{
    char path[256];
    start_fake();
    open_links(NULL, NULL);
    make_many(3);
    close_links();
    path_in("links/link-001/0/vhost-user.sock", path);
    ck_assert_int_eq(unlink(path), 0);
    const ino_t before = status_of("links/link-002/0/vhost-user.sock").st_ino;
    open_links(NULL, NULL);
    connects("links/link-001/0/vhost-user.sock");
    ck_assert_uint_eq(status_of("links/link-002/0/vhost-user.sock").st_ino, before);
    ck_assert_uint_eq(fake_count(fx.fake), 3);
}
END_TEST

START_TEST(links_that_nobody_wants_go)
{
    start_fake();
    fake_add(fx.fake, "stranger-1");
    fake_add(fx.fake, "stranger-2");
    open_links(NULL, NULL);
    wait_for(fake_has_not, "stranger-1", "the first unknown link is gone");
    wait_for(fake_has_not, "stranger-2", "the second unknown link is gone");
}
END_TEST

START_TEST(a_start_settles_what_is_half_done)
{
    struct link_row creating = make_row("creating");
    struct link_row deleting = make_row("deleting");
    char path[256];
    store_row(&creating, LINK_CREATING);
    store_row(&deleting, LINK_DELETING);
    path_in("links", path);
    ck_assert_int_eq(mkdir(path, 0711), 0);
    path_in("links/creating", path);
    ck_assert_int_eq(mkdir(path, 0711), 0);
    path_in("links/forgotten", path);
    ck_assert_int_eq(mkdir(path, 0711), 0);
    start_fake();
    fake_add(fx.fake, "creating");
    fake_add(fx.fake, "deleting");
    open_links(NULL, NULL);
    ck_assert(!row_exists("creating"));
    ck_assert(!row_exists("deleting"));
    ck_assert(!exists("links/creating"));
    ck_assert(!exists("links/forgotten"));
    ck_assert_uint_eq(count_events("link.create_failed"), 1);
    ck_assert_uint_eq(count_events("link.deleted"), 1);
    wait_for(fake_has_not, "creating", "the half made link is gone from the dataplane");
    wait_for(fake_has_not, "deleting", "the half deleted link is gone from the dataplane");
}
END_TEST

START_TEST(a_link_that_goes_with_its_sandbox_is_deleted)
{
    start_fake();
    open_links(NULL, NULL);
    (void)make_link("kept");
    ck_assert(links_may_exist(fx.links));
    /* As the store marks it when the sandbox goes. */
    struct link_row marked = make_row("marked");
    store_row(&marked, LINK_DELETING);
    wait_for(row_is_gone, "marked", "the link that says deleting is gone");
    ck_assert(row_exists("kept"));
    ck_assert(fake_has("kept"));
}
END_TEST

START_TEST(another_version_of_the_protocol_is_refused)
{
    start_fake();
    fx.fake->version = 2;
    open_links("/nonexistent/chan-dataplane", NULL); /* it is not started beside the one that listens */
    const struct link_row row = make_row("l");
    assert_fails(apply_link(&row), REASON_DATAPLANE_UNAVAILABLE,
                 "speaks version 2 of the control protocol, and chand 1");
    struct links_report report;
    links_report(fx.links, &report);
    ck_assert(!report.connected);
    ck_assert_uint_eq(report.starts, 0);
}
END_TEST

START_TEST(without_links_nothing_is_started_and_nothing_waits)
{
    open_links(FAKE_DATAPLANE, "0");
    struct links_report report;
    links_report(fx.links, &report);
    ck_assert(!report.connected);
    ck_assert_uint_eq(report.starts, 0);
    ck_assert(!links_may_exist(fx.links));
    ck_assert(!exists("dataplane.log"));
}
END_TEST

START_TEST(a_missing_dataplane_does_not_keep_chand_from_starting)
{
    struct link_row row = make_row("l");
    store_row(&row, LINK_READY);
    open_links(NULL, NULL);
    struct link_state state;
    links_state(fx.links, &row, &state);
    ck_assert(!state.known);
    ck_assert_str_eq(state.ends[0].state, "unknown");
    ck_assert_ptr_nonnull(strstr(state.ends[1].reason, "none may be started"));
    start_fake(); /* it is made as soon as there is one */
    wait_for(fake_has, "l", "the dataplane has the link");
}
END_TEST

TCase *keeper_tests(void)
{
    TCase *tcase = tcase_create("keeper");
    tcase_add_test(tcase, a_dataplane_that_starts_anew_gets_all_links_again);
    tcase_add_test(tcase, a_start_of_chand_changes_nothing_that_is_as_wanted);
    tcase_add_test(tcase, what_differs_is_made_anew_and_nothing_else);
    tcase_add_test(tcase, links_that_nobody_wants_go);
    tcase_add_test(tcase, a_start_settles_what_is_half_done);
    tcase_add_test(tcase, a_link_that_goes_with_its_sandbox_is_deleted);
    tcase_add_test(tcase, another_version_of_the_protocol_is_refused);
    tcase_add_test(tcase, without_links_nothing_is_started_and_nothing_waits);
    tcase_add_test(tcase, a_missing_dataplane_does_not_keep_chand_from_starting);
    return tcase;
}
