/* States and counters of links. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/links_client/fixture.h"

START_TEST(a_state_has_what_the_dataplane_says_and_its_counters)
{
    start_fake();
    open_links(NULL, NULL);
    const struct link_row row = make_link("l");
    struct statistics_direction *sent = fake_slot(fx.fake, 0)->directions;
    statistics_add(&sent[0].frames, 17);
    statistics_add(&sent[0].bytes, 1700);
    statistics_add(&sent[1].dropped[STATISTICS_DROP_TOO_LARGE], 3);
    statistics_add(&sent[1].stalls, 4);
    struct link_state state;
    char path[256];
    links_state(fx.links, &row, &state);
    path_in("links/l/1/vhost-user.sock", path);
    ck_assert(state.known);
    ck_assert_uint_eq(state.worker_cpu, 7);
    ck_assert_str_eq(state.ends[0].state, "running");
    ck_assert_str_eq(state.ends[0].reason, "");
    ck_assert_str_eq(state.ends[1].state, "waiting");
    ck_assert_str_eq(state.ends[1].reason, "nobody has connected yet");
    ck_assert_str_eq(state.ends[1].socket_path, path);
    ck_assert_uint_eq(state.ends[0].features, UINT64_C(1) << 32);
    ck_assert_uint_eq(state.ends[0].connections, 3);
    ck_assert_uint_eq(state.ends[0].sent.frames, 17);
    ck_assert_uint_eq(state.ends[0].sent.bytes, 1700);
    ck_assert_uint_eq(state.ends[1].sent.dropped[STATISTICS_DROP_TOO_LARGE], 3);
    ck_assert_uint_eq(state.ends[1].sent.stalls, 4);
}
END_TEST

START_TEST(many_states_take_few_calls)
{
    enum { COUNT = 200 };
    start_fake();
    open_links(NULL, NULL);
    struct link_row *rows = calloc(COUNT, sizeof *rows);
    struct link_state *states = calloc(COUNT, sizeof *states);
    ck_assert(rows != NULL && states != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "link-%03zu", i);
        rows[i] = make_link(id);
    }
    (void)pthread_mutex_lock(&fx.fake->lock);
    for (size_t i = 0; i < COUNT; i++)
        statistics_add(&fake_slot(fx.fake, i)->directions[0].frames, i);
    const unsigned lists = fx.fake->lists;
    (void)pthread_mutex_unlock(&fx.fake->lock);
    links_states(fx.links, rows, COUNT, states);
    ck_assert_uint_le(fx.fake->lists - lists, 2 + COUNT / 64);
    for (size_t i = 0; i < COUNT; i++) {
        ck_assert_msg(states[i].known, "the state of %s is not known", rows[i].id);
        ck_assert_uint_eq(states[i].ends[0].sent.frames, i);
    }
    /* Rows that lie apart, and some that the dataplane does not have. */
    struct link_row apart[] = {rows[0], make_row("link-000x"), rows[130], rows[199], make_row("zzz")};
    links_states(fx.links, apart, 5, states);
    static const bool known[] = {true, false, true, true, false};
    for (size_t i = 0; i < 5; i++)
        ck_assert_msg(states[i].known == known[i], "%s is known: %d", apart[i].id, states[i].known);
    ck_assert_str_eq(states[1].ends[0].state, "unknown");
    ck_assert_ptr_nonnull(strstr(states[1].ends[0].reason, "does not have this link"));
    free(rows);
    free(states);
}
END_TEST

static void expect_line(const char *text, const char *line)
{
    char whole[256];
    (void)snprintf(whole, sizeof whole, "\n%s\n", line);
    ck_assert_msg(strstr(text, whole) != NULL, "expected the line %s in\n%s", line, text);
}

START_TEST(metrics_are_bounded_in_number)
{
    enum { COUNT = 103 };
    start_fake();
    open_links(NULL, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "link-%03zu", i);
        (void)make_link(id);
    }
    struct link_row absent = make_row("absent"); /* wanted, and the dataplane does not have it */
    store_row(&absent, LINK_READY);
    for (size_t i = 0; i < COUNT; i++) {
        struct statistics_direction *sent = fake_slot(fx.fake, i)->directions;
        statistics_add(&sent[0].frames, 1000 + i);
        statistics_add(&sent[1].bytes, 10);
        statistics_add(&sent[1].dropped[STATISTICS_DROP_NO_RECEIVER], 2);
        statistics_add(&sent[1].dropped[STATISTICS_DROP_TOO_LARGE], 3);
    }
    char *text = NULL;
    size_t length = 0;
    links_collect_metrics(fx.links);
    assert_works(metrics_render(fx.metrics, &text, &length, &fx.err));
    expect_line(text, "chan_link_frames_total{link=\"link-000\",end=\"0\"} 1000");
    expect_line(text, "chan_link_frames_total{link=\"link-099\",end=\"0\"} 1099");
    expect_line(text, "chan_link_frames_total{link=\"(others)\",end=\"0\"} 3303");
    expect_line(text, "chan_link_bytes_total{link=\"(others)\",end=\"1\"} 30");
    expect_line(text, "chan_link_dropped_frames_total{link=\"link-042\",end=\"1\"} 5");
    expect_line(text, "chan_dropped_frames_total{cause=\"too_large\"} 309");
    expect_line(text, "chan_dropped_frames_total{cause=\"malformed\"} 0");
    expect_line(text, "chan_link_ends{state=\"running\"} 103");
    expect_line(text, "chan_link_ends{state=\"waiting\"} 103");
    expect_line(text, "chan_link_ends{state=\"unknown\"} 2");
    expect_line(text, "chan_dataplane_up 1");
    expect_line(text, "chan_dataplane_connections_total 1");
    ck_assert_msg(strstr(text, "link-100") == NULL, "a link beyond the first 100 has samples of its own");
    free(text);
}
END_TEST

static int make_memory(int seals)
{
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const struct statistics_header header = {.magic = STATISTICS_MAGIC,
                                             .version = STATISTICS_VERSION,
                                             .slot_size = sizeof(struct statistics_slot),
                                             .slot_count = 2,
                                             .slots_offset = sizeof header};
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, sizeof header + 2 * sizeof(struct statistics_slot)), 0);
    ck_assert_int_eq(pwrite(fd, &header, sizeof header, 0), sizeof header);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void set_field(int fd, size_t offset, uint32_t value)
{
    ck_assert_int_eq(pwrite(fd, &value, sizeof value, (off_t)offset), sizeof value);
}

START_TEST(memory_that_is_not_as_it_should_be_is_not_mapped)
{
    static const struct {
        size_t offset;
        uint32_t value;
        const char *part;
    } cases[] = {
        {offsetof(struct statistics_header, magic), 1, "another layout"},
        {offsetof(struct statistics_header, version), 2, "another layout"},
        {offsetof(struct statistics_header, slot_size), 64, "another layout"},
        {offsetof(struct statistics_header, slot_count), 3, "shorter than they say"},
        {offsetof(struct statistics_header, slot_count), UINT32_MAX, "shorter than they say"},
        {offsetof(struct statistics_header, slots_offset), UINT32_MAX - 511, "shorter than they say"},
        {offsetof(struct statistics_header, slots_offset), 4097, "shorter than they say"},
    };
    struct statistics statistics = {.memory = NULL};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int fd = make_memory(F_SEAL_SHRINK);
        set_field(fd, cases[i].offset, cases[i].value);
        assert_fails(statistics_map(fd, &statistics, &fx.err), REASON_DATAPLANE_UNAVAILABLE, cases[i].part);
        (void)close(fd);
    }
    int fd = make_memory(0);
    assert_fails(statistics_map(fd, &statistics, &fx.err), REASON_DATAPLANE_UNAVAILABLE, "not sealed");
    (void)close(fd);
    fd = make_memory(F_SEAL_SHRINK);
    assert_works(statistics_map(fd, &statistics, &fx.err));
    struct link_counters counters[2];
    ck_assert(!statistics_read(&statistics, 0, "l", counters));
    ck_assert(!statistics_read(&statistics, 2, "l", counters));
    ck_assert(!statistics_read(&statistics, UINT32_MAX, "l", counters));
    statistics_unmap(&statistics);
    (void)close(fd);
}
END_TEST

TCase *states_tests(void)
{
    TCase *tcase = tcase_create("states");
    tcase_add_test(tcase, a_state_has_what_the_dataplane_says_and_its_counters);
    tcase_add_test(tcase, many_states_take_few_calls);
    tcase_add_test(tcase, metrics_are_bounded_in_number);
    tcase_add_test(tcase, memory_that_is_not_as_it_should_be_is_not_mapped);
    return tcase;
}
