/* The table of links: order, limits, repetition, and that a failure leaves nothing. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/dataplane_control/fixture.h"

static struct error err;
static const struct link_entry *entry;
static bool created;

static int try_create(const struct link_specification *specification, int first, int second)
{
    const int listeners[2] = {first, second};
    err = ERROR_INIT;
    return link_table_create(table, specification, listeners, &entry, &created, &err);
}

START_TEST(links_are_in_the_order_of_their_ids)
{
    static const char *const made[] = {"m", "b", "z", "a", "mm", "B"};
    static const char *const expected[] = {"B", "a", "b", "m", "mm", "z"};
    for (unsigned i = 0; i < 6; i++)
        (void)create(made[i]);
    ck_assert_uint_eq(link_table_count(table), 6);
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_str_eq(link_table_at(table, i)->specification.id, expected[i]);
        ck_assert_uint_eq(link_table_find(table, expected[i]), i);
        ck_assert_uint_eq(link_table_after(table, expected[i]), i + 1);
    }
    ck_assert_ptr_null(link_table_at(table, 6));
    ck_assert_uint_eq(link_table_after(table, ""), 0);
    ck_assert_uint_eq(link_table_after(table, "c"), 3);
    ck_assert_uint_eq(link_table_after(table, "zz"), 6);
    ck_assert_uint_eq(link_table_find(table, "c"), 6);

    ck_assert_int_eq(link_table_delete(table, "m", &err), 0);
    ck_assert_int_eq(link_table_delete(table, "B", &err), 0);
    ck_assert_int_eq(link_table_delete(table, "z", &err), 0);
    ck_assert_uint_eq(link_table_count(table), 3);
    ck_assert_str_eq(link_table_at(table, 0)->specification.id, "a");
    ck_assert_str_eq(link_table_at(table, 1)->specification.id, "b");
    ck_assert_str_eq(link_table_at(table, 2)->specification.id, "mm");
    ck_assert_uint_eq(quiet_ends_alive(), 6);
}
END_TEST

START_TEST(links_are_shared_out_evenly)
{
    for (unsigned i = 0; i < 11; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "l%u", i);
        (void)create(id);
        const size_t first = worker_task_count(workers[0]);
        const size_t second = worker_task_count(workers[1]);
        ck_assert_msg(first + second == i + 1 && first - second + 1 <= 2, "%zu and %zu after %u links", first,
                      second, i + 1);
    }
}
END_TEST

START_TEST(so_many_and_no_more)
{
    char id[8];
    for (unsigned i = 0; i < FIXTURE_LINKS; i++) {
        (void)snprintf(id, sizeof id, "l%u", i);
        ck_assert_uint_eq(create(id)->slot, i);
    }
    const struct link_specification one_more = specification_of("more");
    ck_assert_int_eq(try_create(&one_more, -1, -1), -1);
    ck_assert_int_eq(err.reason, REASON_QUOTA_EXCEEDED);
    ck_assert_uint_eq(quiet_ends_alive(), (size_t)2 * FIXTURE_LINKS);
    ck_assert_int_eq(link_table_delete(table, "l77", &err), 0);
    ck_assert_int_eq(try_create(&one_more, -1, -1), 0);
    ck_assert_uint_eq(entry->slot, 77);
}
END_TEST

/* _i: which end cannot be made. */
START_TEST(an_end_that_cannot_be_made_leaves_nothing)
{
    struct link_specification specification = specification_of("l");
    strcpy(specification.ends[_i].socket_path, QUIET_END_REFUSED);
    const int first = some_descriptor();
    const int second = some_descriptor();
    ck_assert_int_eq(try_create(&specification, first, second), -1);
    ck_assert_int_eq(err.reason, REASON_SOCKET_FAILED);
    char expected[64];
    (void)snprintf(expected, sizeof expected, "link \"l\": end %d: this end is refused", _i);
    ck_assert_str_eq(err.detail, expected);
    ck_assert(!is_open(first));
    ck_assert(!is_open(second));
    ck_assert_uint_eq(quiet_ends_alive(), 0);
    ck_assert_uint_eq(link_table_count(table), 0);
    ck_assert_uint_eq(worker_task_count(workers[0]) + worker_task_count(workers[1]), 0);
    ck_assert_uint_eq(create("l")->slot, 0);
}
END_TEST

START_TEST(listeners_go_to_the_ends)
{
    const struct link_specification specification = specification_of("l");
    const int first = some_descriptor();
    const int second = some_descriptor();
    ck_assert_int_eq(try_create(&specification, first, second), 0);
    ck_assert(created && is_open(first) && is_open(second));
    /* Once more: it is there, so the new ones are of no use. */
    const int surplus = some_descriptor();
    ck_assert_int_eq(try_create(&specification, -1, surplus), 0);
    ck_assert(!created && !is_open(surplus) && is_open(first) && is_open(second));
    ck_assert_int_eq(link_table_delete(table, "l", &err), 0);
    ck_assert(!is_open(first) && !is_open(second));
}
END_TEST

START_TEST(another_specification_is_another_link)
{
    (void)create("l");
    for (unsigned change = 0; change < 5; change++) {
        struct link_specification other = specification_of("l");
        struct end_specification *end = &other.ends[change % 2];
        switch (change) {
        case 0:
            end->mtu = 1500;
            break;
        case 1:
            end->offloads_off = 1;
            break;
        case 2:
            end->role = END_CLIENT;
            break;
        case 3:
            strcpy(end->socket_path, "/elsewhere");
            break;
        default:
            strcpy(end->type, "loud");
            break;
        }
        ck_assert_msg(try_create(&other, -1, -1) == -1, "change %u was taken for the same link", change);
        ck_assert_int_eq(err.reason, REASON_LINK_EXISTS);
    }
    ck_assert_int_eq(link_table_set_offloads(table, "l", 1, 128, &err), 0);
    struct link_specification changed = specification_of("l");
    ck_assert_int_eq(try_create(&changed, -1, -1), -1);
    changed.ends[1].offloads_off = 128;
    ck_assert_int_eq(try_create(&changed, -1, -1), 0);
    ck_assert(!created);
}
END_TEST

START_TEST(ids_that_are_allowed)
{
    static const char *const good[] = {"a", "_", "0", "A.b_c-d", "a..b"};
    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
        (void)create(good[i]);
    static const char *const bad[] = {"", ".", "-", ".a", "-a", "a/b", "a b", "a\n", "\xc3\xa4", "a,", "a\""};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct link_specification specification = specification_of(bad[i]);
        ck_assert_msg(try_create(&specification, -1, -1) == -1, "the id \"%s\" was allowed", bad[i]);
        ck_assert_int_eq(err.reason, REASON_INVALID_REQUEST);
    }
}
END_TEST

START_TEST(pause)
{
    (void)create("l");
    const struct link_entry *there = link_table_at(table, 0);
    ck_assert_int_eq(link_table_pause(table, "l", true, &err), 0);
    ck_assert(link_is_paused(there->link));
    ck_assert_int_eq(link_table_pause(table, "l", false, &err), 0);
    ck_assert(!link_is_paused(there->link));
    ck_assert_int_eq(link_table_pause(table, "k", true, &err), -1);
    ck_assert_int_eq(err.reason, REASON_LINK_NOT_FOUND);
}
END_TEST

TCase *link_table_tcase(void)
{
    TCase *tcase = tcase_create("link table");
    tcase_add_checked_fixture(tcase, fixture_setup, fixture_teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, links_are_in_the_order_of_their_ids);
    tcase_add_test(tcase, links_are_shared_out_evenly);
    tcase_add_test(tcase, so_many_and_no_more);
    tcase_add_loop_test(tcase, an_end_that_cannot_be_made_leaves_nothing, 0, 2);
    tcase_add_test(tcase, listeners_go_to_the_ends);
    tcase_add_test(tcase, another_specification_is_another_link);
    tcase_add_test(tcase, ids_that_are_allowed);
    tcase_add_test(tcase, pause);
    return tcase;
}
