/* Many threads at once, while the dataplane comes and goes. */
#include <stdlib.h>

#include "base/clock.h"
#include "tests/unit/links_client/fixture.h"

enum { THREADS = 4, ROUNDS = 30 };

static const struct store_actor actor = {
    .who = "test", .operation = "test", .object_id = "l", .result = "ok"};

/* Makes and deletes a link of its own; what fails for want of a dataplane is undone. */
static void *work(void *argument)
{
    const char *id = argument;
    for (int round = 0; round < ROUNDS; round++) {
        struct error err = ERROR_INIT;
        struct link_state state;
        struct link_row row = make_row(id);
        struct link_lock lock = links_lock(fx.links, id);
        store_row(&row, LINK_READY);
        if (links_apply(fx.links, &row, &err) != 0)
            ck_assert_msg(err.reason == REASON_DATAPLANE_UNAVAILABLE, "%s", err.detail);
        links_state(fx.links, &row, &state);
        err = ERROR_INIT;
        ck_assert_msg(links_delete(fx.links, &row, &actor, &err) == 0, "%s", err.detail);
        links_unlock(&lock);
    }
    return NULL;
}

static bool is_empty(const void *unused)
{
    (void)unused;
    return fake_count(fx.fake) == 0;
}

START_TEST(threads_do_not_disturb_each_other)
{
    static char ids[THREADS][4] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];
    start_fake();
    open_links(NULL, NULL);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, ids[i]), 0);
    for (int turn = 0; turn < 5; turn++) {
        wait_for(is_connected, NULL, "chand is connected");
        (void)pthread_mutex_lock(&fx.fake->lock);
        fx.fake->hang_up = true;
        (void)pthread_mutex_unlock(&fx.fake->lock);
    }
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert(!row_exists(ids[i]));
    wait_for(is_empty, NULL, "the dataplane has no link that nobody wants");
}
END_TEST

TCase *threads_tests(void)
{
    TCase *tcase = tcase_create("threads");
    tcase_add_test(tcase, threads_do_not_disturb_each_other);
    return tcase;
}
