/* One link: made, taken, deleted, undone. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/links_client/fixture.h"

static const struct store_actor actor = {
    .who = "test", .operation = "test", .object_id = "l", .result = "ok"};

static struct link_row read_row(const char *id)
{
    struct store_view *view = NULL;
    struct link_row row;
    ck_assert_int_eq(store_read_begin(fx.store, &view, NULL), 0);
    ck_assert_int_eq(store_link_get(view, id, &row, NULL), 1);
    store_read_end(view);
    return row;
}

START_TEST(the_dataplane_gets_what_the_row_says)
{
    start_fake();
    open_links(NULL, NULL);
    struct link_row row = make_row("l");
    struct fake_link there;
    row.ends[0].mtu = 9000;
    row.ends[1].role = LINK_ROLE_CLIENT;
    (void)snprintf(row.ends[1].socket_path, sizeof row.ends[1].socket_path, "/run/vm.sock");
    store_row(&row, LINK_READY);
    assert_works(apply_link(&row));
    ck_assert(fake_find(fx.fake, "l", &there));
    char path[256];
    path_in("links/l/0/vhost-user.sock", path);
    ck_assert_str_eq(there.ends[0].path, path);
    ck_assert_str_eq(there.ends[0].type, "vhost-user");
    ck_assert(!there.ends[0].is_client);
    ck_assert_uint_eq(there.ends[0].mtu, 9000);
    ck_assert_str_eq(there.ends[1].path, "/run/vm.sock");
    ck_assert(there.ends[1].is_client);
    ck_assert_int_eq(there.ends[1].listener, -1);
    /* What connects to the path comes out of the descriptor. */
    ck_assert_int_ge(there.ends[0].listener, 0);
    connects("links/l/0/vhost-user.sock");
    const int accepted = accept(there.ends[0].listener, NULL, NULL);
    ck_assert_msg(accepted >= 0, "the dataplane's descriptor does not listen at the path");
    (void)close(accepted);
}
END_TEST

START_TEST(removing_leaves_nothing)
{
    start_fake();
    open_links(NULL, NULL);
    (void)make_link("l");
    assert_works(links_remove(fx.links, "l", &fx.err));
    ck_assert(!fake_has("l"));
    ck_assert(!exists("links/l"));
    assert_works(links_remove(fx.links, "l", &fx.err)); /* done too when there was none */
}
END_TEST

START_TEST(a_refusal_leaves_nothing)
{
    static const struct {
        Chan__Control__V1__Code code;
        enum reason reason;
    } cases[] = {
        {CHAN__CONTROL__V1__CODE__SOCKET_FAILED, REASON_SOCKET_FAILED},
        {CHAN__CONTROL__V1__CODE__LIMIT_REACHED, REASON_RESOURCE_LIMIT},
        {CHAN__CONTROL__V1__CODE__RESOURCES, REASON_RESOURCE_LIMIT},
        {CHAN__CONTROL__V1__CODE__INTERNAL, REASON_INTERNAL},
    };
    start_fake();
    open_links(NULL, NULL);
    const struct link_row row = make_row("l");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fx.fake->refusal = cases[i].code;
        assert_fails(apply_link(&row), cases[i].reason, "as the test has it");
        ck_assert(!exists("links/l"));
    }
}
END_TEST

/* A link that is left from before listens at sockets that are no longer there. */
START_TEST(an_older_link_of_the_same_id_is_replaced)
{
    start_fake();
    open_links(NULL, NULL);
    (void)make_link("l");
    const struct link_row same = make_row("l");
    struct link_row other = make_row("l");
    other.ends[0].mtu = 1400;
    struct fake_link there;
    assert_works(apply_link(&same));
    ck_assert(fake_find(fx.fake, "l", &there));
    connects("links/l/0/vhost-user.sock");
    int accepted = accept(there.ends[0].listener, NULL, NULL);
    ck_assert_int_ge(accepted, 0);
    (void)close(accepted);
    assert_works(apply_link(&other));
    ck_assert(fake_find(fx.fake, "l", &there));
    ck_assert_uint_eq(there.ends[0].mtu, 1400);
}
END_TEST

START_TEST(without_a_dataplane_nothing_is_made_and_the_reason_is_said)
{
    open_links(NULL, NULL);
    const struct link_row row = make_row("l");
    const int64_t before = clock_monotonic_ns();
    assert_fails(apply_link(&row), REASON_DATAPLANE_UNAVAILABLE, "none may be started");
    ck_assert_msg(clock_monotonic_ns() - before < INT64_C(2000000000), "it did not fail at once");
    ck_assert(!exists("links/l"));
    assert_works(links_remove(fx.links, "l", &fx.err));
}
END_TEST

START_TEST(a_dataplane_that_is_silent_costs_a_bounded_time)
{
    start_fake();
    open_links(NULL, NULL);
    wait_for(is_connected, NULL, "chand is connected");
    const struct link_row row = make_row("l");
    (void)pthread_mutex_lock(&fx.fake->lock);
    fx.fake->silent = true;
    (void)pthread_mutex_unlock(&fx.fake->lock);
    const int64_t before = clock_monotonic_ns();
    assert_fails(apply_link(&row), REASON_DATAPLANE_UNAVAILABLE, "does not answer in time");
    const int64_t took_ms = (clock_monotonic_ns() - before) / 1000000;
    ck_assert_msg(took_ms < LINKS_CALL_MS + 3000, "it took %lld ms", (long long)took_ms);
    ck_assert(!exists("links/l"));
    (void)pthread_mutex_lock(&fx.fake->lock);
    fx.fake->silent = false;
    (void)pthread_mutex_unlock(&fx.fake->lock);
    /* The connection is made anew; what the silent one made is removed, as no row wants it. */
    wait_for(is_connected, NULL, "chand is connected again");
    wait_for(fake_has_not, "l", "the link that nobody wants is gone");
}
END_TEST

START_TEST(a_deletion_says_so_and_leaves_nothing)
{
    start_fake();
    open_links(NULL, NULL);
    const struct link_row row = make_link("l");
    struct link_lock lock = links_lock(fx.links, "l");
    assert_works(links_delete(fx.links, &row, &actor, &fx.err));
    links_unlock(&lock);
    ck_assert(!row_exists("l"));
    ck_assert(!exists("links/l"));
    ck_assert(!fake_has("l"));
    ck_assert_uint_eq(count_events("link.deleting"), 1);
    ck_assert_uint_eq(count_events("link.deleted"), 1);
}
END_TEST

START_TEST(a_deletion_without_a_dataplane_is_finished_when_there_is_one)
{
    start_fake();
    open_links(NULL, NULL);
    const struct link_row row = make_link("l");
    (void)pthread_mutex_lock(&fx.fake->lock);
    fx.fake->hang_up = true; /* it keeps the link, and is not heard of for a moment */
    (void)pthread_mutex_unlock(&fx.fake->lock);
    struct link_state state;
    links_state(fx.links, &row, &state);
    ck_assert(!state.known);
    struct link_lock lock = links_lock(fx.links, "l");
    assert_works(links_delete(fx.links, &row, &actor, &fx.err));
    links_unlock(&lock);
    ck_assert(!row_exists("l"));
    ck_assert(!exists("links/l"));
    wait_for(fake_has_not, "l", "the link that nobody wants is gone");
}
END_TEST

START_TEST(an_undone_creation_says_why)
{
    start_fake();
    open_links(NULL, NULL);
    struct link_row row = make_row("l");
    struct link_lock lock = links_lock(fx.links, "l");
    store_row(&row, LINK_CREATING);
    assert_works(links_apply(fx.links, &row, &fx.err));
    const struct link_row stored = read_row("l");
    assert_works(links_undo(fx.links, &stored, "interrupted", &actor, &fx.err));
    links_unlock(&lock);
    ck_assert(!row_exists("l"));
    ck_assert(!exists("links/l"));
    ck_assert(!fake_has("l"));
    ck_assert_uint_eq(count_events("link.create_failed"), 1);
}
END_TEST

START_TEST(the_id_may_be_as_long_as_the_path_allows)
{
    char id[ID_SIZE];
    char path[LINK_SOCKET_PATH_SIZE];
    open_links(NULL, NULL);
    const size_t room =
        LINK_SOCKET_PATH_SIZE - 1 - strlen(fx.directory) - strlen("/links//0/vhost-user.sock");
    memset(id, 'x', sizeof id);
    id[room] = '\0';
    assert_works(links_socket_path(fx.links, id, 1, path, &fx.err));
    ck_assert_uint_eq(strlen(path), LINK_SOCKET_PATH_SIZE - 1);
    id[room] = 'x';
    id[room + 1] = '\0';
    char expected[64];
    (void)snprintf(expected, sizeof expected, "may have %zu characters", room);
    assert_fails(links_socket_path(fx.links, id, 1, path, &fx.err), REASON_INVALID_ID, expected);
}
END_TEST

TCase *apply_tests(void)
{
    TCase *tcase = tcase_create("apply");
    tcase_add_test(tcase, the_dataplane_gets_what_the_row_says);
    tcase_add_test(tcase, removing_leaves_nothing);
    tcase_add_test(tcase, a_refusal_leaves_nothing);
    tcase_add_test(tcase, an_older_link_of_the_same_id_is_replaced);
    tcase_add_test(tcase, without_a_dataplane_nothing_is_made_and_the_reason_is_said);
    tcase_add_test(tcase, a_dataplane_that_is_silent_costs_a_bounded_time);
    tcase_add_test(tcase, a_deletion_says_so_and_leaves_nothing);
    tcase_add_test(tcase, a_deletion_without_a_dataplane_is_finished_when_there_is_one);
    tcase_add_test(tcase, an_undone_creation_says_why);
    tcase_add_test(tcase, the_id_may_be_as_long_as_the_path_allows);
    return tcase;
}
