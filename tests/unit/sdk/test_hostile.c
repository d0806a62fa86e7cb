/* A process that writes nonsense into the region, as fast as it can, while this side goes on using it: only
 * documented results may come, in bounded time, and under AddressSanitizer nothing may be touched that is not
 * ours. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/sdk/support.h"

enum { DURATION_MS = 2000, STEP_MS = 20, SLACK_MS = 2000 };

enum target {
    TARGET_HALF,      /* random words, in its own half */
    TARGET_REGION,    /* random words, everywhere, superblock and our half too */
    TARGET_HANDSHAKE, /* connects as a correct peer does, then sends nonsense that is nearly right */
    TARGETS,
};

static uint64_t load(volatile uint64_t *word)
{
    return *word;
}

/* Words that get past some of the checks more often than chance would. */
static uint64_t nasty(uint64_t *random, uint64_t sequence)
{
    uint64_t value = next_random(random);
    switch (value % 6) {
    case 0:
        return value;
    case 1:
        return 0;
    case 2:
        return value >> 8 & 0xffff; /* small */
    case 3:
        return value >> 8 & 0xfff8; /* and aligned */
    default:                        /* a header */
        return (value >> 32 & 0xffff) | (uint64_t)CHAN_RECORD_MESSAGE << 32 | (sequence & 0xffff) << 48;
    }
}

static _Noreturn void scribble(const char *path, enum target target)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct chan_region *region = open_path(path);
    volatile uint64_t *words = chan_region_base(region);
    volatile uint64_t *ring = (volatile uint64_t *)(void *)ring_of(region, CHAN_SIDE_GUEST);
    volatile struct chan_control *guest = control_of(region, CHAN_SIDE_GUEST);
    volatile struct chan_control *host = control_of(region, CHAN_SIDE_HOST);
    size_t region_words = chan_region_size(region) / 8;
    size_t half_words = (size_t)chan_region_superblock(region)->half_bytes / 8;
    size_t half_start = (size_t)chan_region_superblock(region)->half_b_offset / 8;
    uint64_t random = (uint64_t)getpid();
    for (;;) {
        uint64_t where = next_random(&random);
        if (target == TARGET_REGION) {
            words[where % 4 == 0 ? where % 64 : where % region_words] = nasty(&random, where);
            continue;
        }
        if (target == TARGET_HALF) {
            words[half_start + (where % 4 == 0 ? where % 64 : where % half_words)] = nasty(&random, where);
            continue;
        }
        guest->state = CHAN_STATE_RESET;
        guest->epoch = where | 1;
        guest->head = 0;
        guest->acknowledged = load(&host->epoch);
        guest->state = where % 2 ? CHAN_STATE_READY : CHAN_STATE_RUN;
        for (int i = 0; i < 2000; i++) {
            uint64_t value = next_random(&random);
            ring[value % 1024] = nasty(&random, where + value % 16);
            if (value % 64 == 0)
                guest->head = nasty(&random, 0);
            if (value % 16 == 0)
                guest->acknowledged = load(&host->epoch);
        }
    }
}

static bool is_documented(int r)
{
    switch (r) {
    case 0:
    case -EAGAIN:
    case -ETIMEDOUT:
    case -ENOTCONN:
    case -ECONNRESET:
    case -EPIPE:
    case -EPROTO:
    case -ESTALE:
    case -EMSGSIZE:
    case -ENOMSG:          /* opening: the superblock is gone, */
    case -EBADMSG:         /* damaged */
    case -EPROTONOSUPPORT: /* or of another version */
        return true;
    default:
        return false;
    }
}

struct tally {
    unsigned long calls, sessions, messages, poisoned;
};

static void expect_documented(struct tally *tally, int r, const char *call)
{
    ck_assert_msg(is_documented(r), "%s gave %d", call, r);
    tally->calls++;
    tally->poisoned += r == -EPROTO;
}

/* One session, as far as it gets. */
static void use(struct chan_channel *channel, struct tally *tally)
{
    static unsigned char buffer[65536];
    for (int i = 0; i < 200; i++) {
        size_t length = 0;
        int r = chan_recv(channel, buffer, sizeof buffer, &length, i % 8 == 0 ? 1 : 0);
        expect_documented(tally, r, "recv");
        if (r == 0) {
            ck_assert_uint_le(length, chan_max_message(channel));
            tally->messages++;
        }
        const void *message = NULL;
        r = chan_peek(channel, &message, &length, 0);
        expect_documented(tally, r, "peek");
        if (r == 0) {
            memcpy(buffer, message, length); /* all of it can be read */
            ck_assert_int_eq(chan_release(channel), 0);
            tally->messages++;
        }
        expect_documented(tally, chan_send(channel, buffer, (size_t)i * 17 % 2000, 0), "send");
        void *place = NULL;
        r = chan_reserve(channel, 300, &place, i % 8 == 0 ? 1 : 0);
        expect_documented(tally, r, "reserve");
        if (r == 0) {
            memset(place, 0xff, 300);
            expect_documented(tally, chan_commit(channel, 200), "commit");
        }
        (void)chan_peer_state(channel);
    }
}

static void connect_and_use(struct chan_region *region, struct tally *tally)
{
    const struct chan_options options = {.side = CHAN_SIDE_HOST};
    struct chan_channel *channel = NULL;
    int r = chan_open(region, &options, &channel, NULL);
    expect_documented(tally, r, "open");
    if (r < 0)
        return;
    for (int i = 0; i < 5; i++) {
        int64_t start = now_ms();
        r = i == 0 ? chan_connect(channel, STEP_MS) : chan_reconnect(channel, STEP_MS);
        ck_assert_int_lt(now_ms() - start, STEP_MS + SLACK_MS);
        expect_documented(tally, r, "connect");
        if (r == 0) {
            tally->sessions++;
            use(channel, tally);
        }
    }
    chan_close(channel);
}

START_TEST(test_scribbling_peer)
{
    enum target target = (enum target)_i;
    char path[PATH_BYTES];
    scratch_path(path, "hostile");
    make_region_file(path, SMALL_REGION, true);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        scribble(path, target);

    struct tally tally = {0};
    int64_t end = now_ms() + DURATION_MS;
    while (now_ms() < end) {
        struct chan_region *region = NULL;
        int r = chan_region_open_path(path, 0, &region, NULL);
        expect_documented(&tally, r, "opening the region");
        if (r == 0) {
            connect_and_use(region, &tally);
            chan_region_close(region);
        }
        if (target == TARGET_REGION) /* or it would never open again */
            replace_superblock(path, SMALL_REGION, 1);
    }
    (void)kill(child, SIGKILL);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status), "the scribbler ended by itself");
    ck_assert_uint_gt(tally.calls, 10);
    if (target ==
        TARGET_HANDSHAKE) { /* the one that gets past the door: the test would say nothing otherwise */
        ck_assert_uint_gt(tally.sessions, 0);
        ck_assert_uint_gt(tally.poisoned, 0);
    }
}
END_TEST

TCase *hostile_tests(void)
{
    TCase *tests = tcase_create("hostile");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_scribbling_peer, 0, TARGETS);
    return tests;
}
