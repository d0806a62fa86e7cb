#include <string.h>

#include "base/cleanup.h"
#include "cli/link_body.h"
#include "cli/link_report.h"
#include "cli/link_stats.h"
#include "cli/output.h"
#include "tests/unit/cli/suites.h"

/* ---- ends on the command line ---- */

static const struct {
    const char *text;
    const char *json; /* NULL: refused */
    const char *detail;
} ends[] = {
    {"sb-1", "{\"sandboxID\":\"sb-1\"}", NULL},
    {"-", "{}", NULL},
    {"sandbox=a,role=client,socket=/x,mtu=9000",
     "{\"mtu\":9000,\"role\":\"client\",\"sandboxID\":\"a\",\"socketPath\":\"/x\"}", NULL},
    {"role=client,socket=/a,,b=c,,,,d", "{\"role\":\"client\",\"socketPath\":\"/a,b=c,,d\"}", NULL},
    {"type=vhost-user", "{\"type\":\"vhost-user\"}", NULL},
    {"mtu=68", "{\"mtu\":68}", NULL},
    {"", NULL, "write -"},
    {"colour=red", NULL, "'colour=red' is none of"},
    {"sandbox", "{\"sandboxID\":\"sandbox\"}", NULL},
    {"sandbox=a,b", NULL, "'b' is none of"},
    {"sandbox=a,", NULL, "'' is none of"},
    {"sandbox=", NULL, "sandbox has no value"},
    {"role=server,role=client", NULL, "role stands there twice"},
    {"mtu=67", NULL, "68 to 65535"},
    {"mtu=", NULL, "mtu"},
    {"mtu=1500x", NULL, "'1500x'"},
    {"sandbox=\xff", NULL, "sandboxID"},
};

START_TEST(an_end)
{
    auto_json json_t *end = json_object();
    struct error err = ERROR_INIT;
    int result = link_end_parse(ends[_i].text, end, &err);
    if (ends[_i].json == NULL) {
        ck_assert_int_eq(result, -1);
        ck_assert_msg(strstr(err.detail, ends[_i].detail) != NULL, "'%s' is not in: %s", ends[_i].detail,
                      err.detail);
        return;
    }
    ck_assert_msg(result == 0, "%s", err.detail);
    auto_free char *text = json_dumps(end, JSON_COMPACT | JSON_SORT_KEYS);
    ck_assert_str_eq(text, ends[_i].json);
}
END_TEST

START_TEST(one_mtu_for_both_ends)
{
    static const struct option options[] = {
        {"end", 0, VALUE_TEXT, "END", "", NULL}, {"mtu", 0, VALUE_TEXT, "NUMBER", "", NULL}, {0}};
    static const char *const argv[] = {"chanctl",           "--end", "a", "--mtu", "9000", "--end",
                                       "sandbox=b,mtu=1500"};
    static const struct option *const tables[] = {options};
    struct arguments arguments;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(arguments_init(&arguments, 7, &err), 0);
    ck_assert_int_eq(arguments_read(&arguments, 7, argv, tables, 1, false, &err), 0);
    auto_free char *body = link_body(&arguments, &err);
    arguments_clear(&arguments);
    ck_assert_str_eq(body,
                     "{\"ends\":[{\"sandboxID\":\"a\",\"mtu\":9000},{\"sandboxID\":\"b\",\"mtu\":1500}]}");
}
END_TEST

/* ---- what is shown ---- */

static json_t *link_with(int64_t frames, int64_t bytes, int64_t dropped)
{
    json_t *link = json_pack("{s:s,s:s,s:[{s:s,s:s,s:s,s:s,s:s,s:s,s:[s,s],s:i,s:i,s:i,s:i,s:i,s:{s:I,s:I,s:{"
                             "s:I,s:i},s:i},s:{s:[s,s]"
                             "}},{s:n,s:s,s:{}}],s:b,s:i,s:i}",
                             "linkID", "net-1", "state", "ready", "ends", "type", "vhost-user", "sandboxID",
                             "a", "role", "server", "socketPath", "/run/s", "state", "running", "reason",
                             "\033[31mred", "features", "csum", "mq", "mtu", 9000, "queuePairs", 1, "peerPID",
                             42, "connections", 1, "faults", 2, "counters", "frames", (json_int_t)frames,
                             "bytes", (json_int_t)bytes, "dropped", "noReceiver", (json_int_t)dropped,
                             "tooLarge", 0, "interrupts", 5, "vmm", "qemu", "-device", "a b", "sandboxID",
                             "state", "waiting", "counters", "paused", 1, "workerCPU", 3, "revision", 7);
    ck_assert_ptr_nonnull(link);
    return link;
}

START_TEST(a_report)
{
    auto_json json_t *link = link_with(10, 2048, 3);
    auto_free char *text = NULL;
    CAPTURE(text, link_report(out, link, 0));
    ck_assert_str_eq(text, "Link net-1: ready, paused\n"
                           "  Revision:    7, made - ago\n"
                           "  Worker CPU:  3\n"
                           "\n"
                           "End 0: sandbox a, vhost-user server\n"
                           "  State:       running\n"
                           "  Why:         ?[31mred\n"
                           "  Socket:      /run/s\n"
                           "  Peer:        pid 42 (1 connection, 2 faults so far)\n"
                           "  MTU:         9000\n"
                           "  Queue pairs: 1\n"
                           "  Features:    csum mq\n"
                           "  Sent:        10 frames, 2 KiB; dropped: 3 (noReceiver 3)\n"
                           "  QEMU:        -device 'a b'\n"
                           "  Cloud-H.:    -\n"
                           "\n"
                           "End 1: no sandbox,  \n"
                           "  State:       waiting\n"
                           "  Why:         -\n"
                           "  Socket:      \n"
                           "  Peer:        nobody (0 connections, 0 faults so far)\n"
                           "  Queue pairs: 0\n"
                           "  Features:    -\n"
                           "  Sent:        0 frames, 0 B; dropped: 0\n"
                           "  QEMU:        -\n"
                           "  Cloud-H.:    -\n");
}
END_TEST

static const int64_t second = 1000000000;

/* The counters as JSON, of which the rates of the first end are what is asked for. */
static json_t *look(struct link_stats *stats, int64_t frames, int64_t bytes, int64_t dropped, int64_t now_ns)
{
    auto_json json_t *link = link_with(frames, bytes, dropped);
    auto_free char *text = NULL;
    struct context context = {.format = FORMAT_JSON};
    CAPTURE(text, context.out = out;
            ck_assert_int_eq(link_stats_output(&context, link, now_ns, stats), EXIT_CODE_OK));
    json_t *shown = json_loads(text, 0, NULL);
    ck_assert_str_eq(json_text(shown, "linkID"), "net-1");
    const json_t *end = json_array_get(json_object_get(shown, "ends"), 0);
    ck_assert_int_eq(json_number(json_object_get(end, "counters"), "frames"), frames);
    json_t *rates = json_incref(json_object_get(end, "perSecond"));
    json_decref(shown);
    return rates;
}

static double rate(const json_t *rates, const char *name)
{
    const json_t *value = json_object_get(rates, name);
    ck_assert_msg(json_is_real(value), "%s is no real number", name);
    return json_real_value(value);
}

START_TEST(rates_between_two_looks)
{
    struct link_stats stats = {.watching = true};
    auto_json json_t *none = look(&stats, 100, 1000, 1, 5 * second);
    ck_assert(json_is_null(none));
    auto_json json_t *rates = look(&stats, 300, 501000, 2, 7 * second);
    ck_assert_double_eq_tol(rate(rates, "frames"), 100, 0.01);
    ck_assert_double_eq_tol(rate(rates, "bytes"), 250000, 0.01);
    ck_assert_double_eq_tol(rate(rates, "dropped"), 0.5, 0.01);
    auto_json json_t *anew = look(&stats, 3, 100, 0, 8 * second); /* another dataplane counts from 0 */
    ck_assert(json_is_null(anew));
    auto_json json_t *after = look(&stats, 13, 200, 0, 9 * second);
    ck_assert_double_eq_tol(rate(after, "frames"), 10, 0.01);
}
END_TEST

START_TEST(counters_as_a_table)
{
    struct link_stats stats = {.watching = true};
    auto_json json_t *first = link_with(100, 1000, 1);
    auto_json json_t *then = link_with(1300, 126000, 1);
    auto_free char *text = NULL;
    struct context context = {.format = FORMAT_TABLE};
    CAPTURE(text, context.out = out; (void)link_stats_output(&context, first, 0, &stats);
            (void)link_stats_output(&context, then, second, &stats));
    ck_assert_ptr_nonnull(strstr(text, "FRAMES/S"));

    ck_assert_ptr_nonnull(strstr(text, "0    a        running  100     -"));
    ck_assert_ptr_nonnull(strstr(text, "0    a        running  1300    1.2k      123 KiB  1M "));
    ck_assert_ptr_nonnull(strstr(text, "1    -        waiting  0       0         0 B "));
}
END_TEST

START_TEST(a_link_without_ends_is_refused)
{
    struct link_stats stats = {.watching = false};
    auto_json json_t *link = json_pack("{s:s,s:[]}", "linkID", "x", "ends");
    auto_free char *text = NULL;
    struct context context = {.format = FORMAT_JSON};
    CAPTURE(text, context.out = out;
            ck_assert_int_eq(link_stats_output(&context, link, 0, &stats), EXIT_CODE_FAILED));
    ck_assert_str_eq(text, "");
}
END_TEST

Suite *link_suite(void)
{
    Suite *suite = suite_create("link");
    TCase *tests = tcase_create("link");
    tcase_add_loop_test(tests, an_end, 0, sizeof ends / sizeof ends[0]);
    tcase_add_test(tests, one_mtu_for_both_ends);
    tcase_add_test(tests, a_report);
    tcase_add_test(tests, rates_between_two_looks);
    tcase_add_test(tests, counters_as_a_table);
    tcase_add_test(tests, a_link_without_ends_is_refused);
    suite_add_tcase(suite, tests);
    return suite;
}
