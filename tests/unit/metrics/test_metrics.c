/* Metrics: what is counted is what is rendered, in Prometheus' text format. */
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/proc_stat.h"
#include "daemon/metrics.h"

static struct metrics *metrics;

static void setup(void)
{
    struct error err = ERROR_INIT;
    ck_assert_msg(metrics_new("1.2.3", &metrics, &err) == 0, "%s", err.detail);
}

static void teardown(void)
{
    metrics_free(metrics);
}

static char *render(struct metrics *from)
{
    char *text = NULL;
    size_t length = 0;
    struct error err = ERROR_INIT;
    ck_assert_msg(metrics_render(from, &text, &length, &err) == 0, "%s", err.detail);
    ck_assert_uint_eq(strlen(text), length);
    return text;
}

/* Is there a line that is exactly this? */
static bool has_line(const char *text, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = text; (at = strstr(at, line)) != NULL; at += length)
        if ((at == text || at[-1] == '\n') && at[length] == '\n')
            return true;
    return false;
}

static void expect_line(const char *line)
{
    auto_free char *text = render(metrics);
    ck_assert_msg(has_line(text, line), "expected the line\n%s\nin\n%s", line, text);
}

/* The value of the sample that begins with this name and labels. */
static double sample(const char *text, const char *series)
{
    char start[256];
    (void)snprintf(start, sizeof start, "\n%s ", series);
    const char *at = strstr(text, start);
    ck_assert_msg(at != NULL, "expected a sample %s in\n%s", series, text);
    return strtod(at + strlen(start), NULL);
}

START_TEST(every_metric_has_help_and_type)
{
    auto_free char *text = render(metrics);
    static const struct {
        const char *name, *type, *help;
    } expected[] = {
#define COUNTER(id, name, help)                 {name, "counter", help},
#define GAUGE(id, name, help)                   {name, "gauge", help},
#define STATE_GAUGE(id, name, label, help)      {name, "gauge", help},
#define LABELED_COUNTER(id, name, labels, help) {name, "counter", help},
#define HISTOGRAM(id, name, label, help)        {name, "histogram", help},
#define SAMPLES(id, name, type, labels, help)   {name, type, help},
#include "daemon/metrics.def"
        {"chan_build_info", "gauge", "The version that runs; always 1."},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char line[320];
        (void)snprintf(line, sizeof line, "# HELP %s %s", expected[i].name, expected[i].help);
        ck_assert_msg(has_line(text, line), "expected the line\n%s\nin\n%s", line, text);
        (void)snprintf(line, sizeof line, "# TYPE %s %s", expected[i].name, expected[i].type);
        ck_assert_msg(has_line(text, line), "expected the line\n%s\nin\n%s", line, text);
    }
    ck_assert_int_eq(text[strlen(text) - 1], '\n');
}
END_TEST

START_TEST(counters_and_gauges)
{
    expect_line("chan_reclaimed_sandboxes_total 0");
    metrics_add(metrics, METRIC_RECLAIMED, 2);
    metrics_add(metrics, METRIC_RECLAIMED, 3);
    expect_line("chan_reclaimed_sandboxes_total 5");
    metrics_set(metrics, METRIC_FOREIGN_FILES, 7);
    metrics_set(metrics, METRIC_FOREIGN_FILES, 4);
    expect_line("chan_foreign_files 4");
}
END_TEST

START_TEST(a_call_for_another_kind_of_metric_changes_nothing)
{
    auto_free char *before = render(metrics);
    metrics_add(metrics, METRIC_FOREIGN_FILES, 1);
    metrics_set(metrics, METRIC_RECLAIMED, 1);
    metrics_observe(metrics, METRIC_API_SECONDS, 1);
    metrics_observe(metrics, METRIC_RECLAIMED, 1);
    metrics_set_state(metrics, METRIC_RECLAIMED, "x", 1);
    auto_free char *after = render(metrics);
    const char *process = strstr(before, "# HELP process_");
    ck_assert_ptr_nonnull(process);
    ck_assert_msg(strncmp(before, after, (size_t)(process - before)) == 0, "expected no change:\n%s", after);
}
END_TEST

START_TEST(states)
{
    metrics_set_state(metrics, METRIC_SANDBOXES, "running", 3);
    metrics_set_state(metrics, METRIC_SANDBOXES, "paused", 1);
    metrics_set_state(metrics, METRIC_SANDBOXES, "running", 2);
    expect_line("chan_sandboxes{state=\"running\"} 2");
    expect_line("chan_sandboxes{state=\"paused\"} 1");
}
END_TEST

START_TEST(requests_by_operation_and_code)
{
    char same_word[] = "sandbox.get"; /* another address than the literal below */
    metrics_count_request(metrics, "sandbox.get", 200, 1000);
    metrics_count_request(metrics, same_word, 200, 1000);
    metrics_count_request(metrics, "sandbox.get", 404, 1000);
    metrics_count_request(metrics, "sandbox.create", 507, 1000);
    expect_line("chan_api_requests_total{operation=\"sandbox.get\",code=\"200\"} 2");
    expect_line("chan_api_requests_total{operation=\"sandbox.get\",code=\"404\"} 1");
    expect_line("chan_api_requests_total{operation=\"sandbox.create\",code=\"507\"} 1");
    auto_free char *text = render(metrics);
    ck_assert_ptr_null(strstr(text, "{operation=\"sandbox.create\",code=\"200\"}"));
}
END_TEST

START_TEST(label_values_are_escaped)
{
    metrics_set_state(metrics, METRIC_SANDBOXES, "a\\b\"c\nd", 1);
    expect_line("chan_sandboxes{state=\"a\\\\b\\\"c\\nd\"} 1");
    struct metrics *odd = NULL;
    ck_assert_int_eq(metrics_new("1.0\"x\"", &odd, NULL), 0);
    auto_free char *text = render(odd);
    ck_assert_msg(has_line(text, "chan_build_info{version=\"1.0\\\"x\\\"\"} 1"), "%s", text);
    metrics_free(odd);
}
END_TEST

START_TEST(histogram_buckets_are_cumulative)
{
    metrics_observe(metrics, METRIC_COMMIT_SECONDS, -5);                   /* a clock's fault counts as 0 */
    metrics_observe(metrics, METRIC_COMMIT_SECONDS, 100000);               /* on the first bound */
    metrics_observe(metrics, METRIC_COMMIT_SECONDS, 100001);               /* just above it */
    metrics_observe(metrics, METRIC_COMMIT_SECONDS, INT64_C(3000000));     /* 3 ms */
    metrics_observe(metrics, METRIC_COMMIT_SECONDS, INT64_C(10000000000)); /* on the last bound */
    metrics_observe(metrics, METRIC_COMMIT_SECONDS, INT64_C(10000000000) + 1); /* beyond all */
    static const struct {
        const char *le;
        unsigned int count;
    } expected[] = {{"0.0001", 2}, {"0.00025", 3}, {"0.0005", 3}, {"0.001", 3}, {"0.0025", 3}, {"0.005", 4},
                    {"0.01", 4},   {"0.025", 4},   {"0.05", 4},   {"0.1", 4},   {"0.25", 4},   {"0.5", 4},
                    {"1", 4},      {"2.5", 4},     {"5", 4},      {"10", 5},    {"+Inf", 6}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "chan_store_commit_duration_seconds_bucket{le=\"%s\"} %u",
                       expected[i].le, expected[i].count);
        expect_line(line);
    }
    expect_line("chan_store_commit_duration_seconds_count 6");
    expect_line("chan_store_commit_duration_seconds_sum 20.003200002");
}
END_TEST

START_TEST(histogram_by_operation)
{
    metrics_count_request(metrics, "sandbox.get", 200, 200000);
    metrics_count_request(metrics, "sandbox.get", 500, 600000);
    metrics_count_request(metrics, "node.get", 200, INT64_C(20000000000));
    expect_line("chan_api_request_duration_seconds_bucket{operation=\"sandbox.get\",le=\"0.0001\"} 0");
    expect_line("chan_api_request_duration_seconds_bucket{operation=\"sandbox.get\",le=\"0.00025\"} 1");
    expect_line("chan_api_request_duration_seconds_bucket{operation=\"sandbox.get\",le=\"+Inf\"} 2");
    expect_line("chan_api_request_duration_seconds_count{operation=\"sandbox.get\"} 2");
    expect_line("chan_api_request_duration_seconds_sum{operation=\"sandbox.get\"} 0.000800000");
    expect_line("chan_api_request_duration_seconds_bucket{operation=\"node.get\",le=\"10\"} 0");
    expect_line("chan_api_request_duration_seconds_count{operation=\"node.get\"} 1");
}
END_TEST

START_TEST(labels_beyond_the_limit_are_counted_as_other)
{
    static char words[100][16];
    for (int i = 0; i < 100; i++) {
        (void)snprintf(words[i], sizeof words[i], "word%d", i);
        metrics_count_request(metrics, words[i], 200, 1000);
    }
    for (int code = 100; code < 200; code++)
        metrics_count_request(metrics, words[0], code, 1000);
    expect_line("chan_api_requests_total{operation=\"word62\",code=\"200\"} 1");
    expect_line("chan_api_requests_total{operation=\"other\",code=\"200\"} 37");
    expect_line("chan_api_request_duration_seconds_count{operation=\"other\"} 37");
    expect_line("chan_api_requests_total{operation=\"word0\",code=\"0\"} 38");
}
END_TEST

START_TEST(samples_are_replaced)
{
    struct metric_sample samples[METRIC_SAMPLES_MAX + 1] = {{.first = "a", .second = "0", .value = 5},
                                                            {.first = "a\"b", .second = "1", .value = 6}};
    const struct metric_sample one = {.first = "no_receiver", .value = 7};
    metrics_set_samples(metrics, METRIC_LINK_FRAMES, samples, 2);
    metrics_set_samples(metrics, METRIC_DROPS, &one, 1);
    expect_line("chan_link_frames_total{link=\"a\",end=\"0\"} 5");
    expect_line("chan_link_frames_total{link=\"a\\\"b\",end=\"1\"} 6");
    expect_line("chan_dropped_frames_total{cause=\"no_receiver\"} 7");
    metrics_set_samples(metrics, METRIC_LINK_FRAMES, samples, 1);
    auto_free char *text = render(metrics);
    ck_assert_msg(strstr(text, "a\\\"b") == NULL, "an old sample is still there");
    metrics_set_samples(metrics, METRIC_LINK_FRAMES, samples, METRIC_SAMPLES_MAX + 1);
    auto_free char *many = render(metrics);
    size_t count = 0;
    for (const char *at = many; (at = strstr(at, "\nchan_link_frames_total{")) != NULL; at++)
        count++;
    ck_assert_uint_eq(count, METRIC_SAMPLES_MAX);
    metrics_set_samples(metrics, METRIC_LINK_FRAMES, NULL, 0);
    metrics_set_samples(metrics, METRIC_TEMPLATES, samples, 1); /* another kind: nothing happens */
    auto_free char *none = render(metrics);
    ck_assert_msg(strstr(none, "\nchan_link_frames_total{") == NULL, "samples are still there");
    expect_line("chan_templates 0");
}
END_TEST

START_TEST(process_metrics)
{
    auto_free char *text = render(metrics);
    ck_assert_double_ge(sample(text, "process_resident_memory_bytes"), 100000.0);
    ck_assert_double_ge(sample(text, "process_cpu_seconds_total"), 0.0);
    double now = (double)clock_real_ms() / 1000;
    double start = sample(text, "process_start_time_seconds");
    ck_assert_msg(start > now - 300 && start < now + 2, "expected a start shortly before %f, got %f", now,
                  start);
    double fds = sample(text, "process_open_fds");
    int pair[2];
    ck_assert_int_eq(pipe(pair), 0);
    auto_free char *later = render(metrics);
    ck_assert_double_eq(sample(later, "process_open_fds"), fds + 2);
    ck_assert_double_ge(sample(text, "process_max_fds"), fds);
    (void)close(pair[0]);
    (void)close(pair[1]);
}
END_TEST

START_TEST(no_metrics_is_fine)
{
    metrics_add(NULL, METRIC_RECLAIMED, 1);
    metrics_set(NULL, METRIC_FOREIGN_FILES, 1);
    metrics_count_request(NULL, "x", 200, 1);
    metrics_observe(NULL, METRIC_COMMIT_SECONDS, 1);
    metrics_set_state(NULL, METRIC_SANDBOXES, "x", 1);
    metrics_free(NULL);
}
END_TEST

enum { THREADS = 4, ROUNDS = 2000 };

static void *count_much(void *argument)
{
    static const char *const words[] = {"a", "b", "c", "d", "e"};
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        metrics_count_request(metrics, words[i % 5], 200 + i % 3, 1000);
        metrics_add(metrics, METRIC_STORE_UNITS, 1);
    }
    return NULL;
}

START_TEST(many_threads)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_much, NULL), 0);
    for (int i = 0; i < 20; i++) {
        auto_free char *while_counting = render(metrics);
        ck_assert_ptr_nonnull(while_counting);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    auto_free char *text = render(metrics);
    double total = 0;
    for (int word = 'a'; word <= 'e'; word++) {
        char series[96];
        (void)snprintf(series, sizeof series, "chan_api_request_duration_seconds_count{operation=\"%c\"}",
                       word);
        total += sample(text, series);
    }
    ck_assert_double_eq(total, THREADS * ROUNDS);
    ck_assert_double_eq(sample(text, "chan_store_units_total"), THREADS * ROUNDS);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("metrics");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_metric_has_help_and_type);
    tcase_add_test(tests, counters_and_gauges);
    tcase_add_test(tests, a_call_for_another_kind_of_metric_changes_nothing);
    tcase_add_test(tests, states);
    tcase_add_test(tests, requests_by_operation_and_code);
    tcase_add_test(tests, label_values_are_escaped);
    tcase_add_test(tests, histogram_buckets_are_cumulative);
    tcase_add_test(tests, histogram_by_operation);
    tcase_add_test(tests, labels_beyond_the_limit_are_counted_as_other);
    tcase_add_test(tests, samples_are_replaced);
    tcase_add_test(tests, process_metrics);
    tcase_add_test(tests, no_metrics_is_fine);
    tcase_add_test(tests, many_threads);
    Suite *suite = suite_create("metrics");
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
