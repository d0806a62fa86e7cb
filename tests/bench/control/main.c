/* chan-bench-control: what creating and deleting a sandbox costs, next to bare SQLite commits on the same
 * disk.
 *
 * Two daemons run side by side, one with few sandboxes and one with many, and are measured in turn, so that a
 * disk whose speed drifts does not decide between them. One client's calls alternate with bare commits;
 * before 16 clients are measured, bare commits run back to back for their rate. A ratio is taken within such
 * a pair, and the median of the rounds is printed. The targets are the project's budgets. A figure that
 * misses its target is shown and is no failure: this is a benchmark, not a test.
 */
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/control/bench.h"

enum { MAX_ROUNDS = 50, MANY_CLIENTS = 16, FILL_CLIENTS = 16 };
enum { FEW, MANY, POPULATIONS };
enum { ONE, SIXTEEN, CLIENT_COUNTS };

struct options {
    const char *program, *directory, *shm;
    size_t rounds, region_bytes, sandboxes[POPULATIONS];
};

/* One verb by one number of clients on one population. */
struct figure {
    struct samples samples;
    double per_bare[MAX_ROUNDS]; /* 1 client: p50 / p50 of the bare commits; 16: calls/s / bare commits/s */
    double rate[MAX_ROUNDS];
    double cost[MAX_ROUNDS]; /* the p50 of the round; 1 client: in bare commits */
};

struct bench {
    struct options options;
    struct bare *bare;
    struct samples paired, back_to_back; /* bare commits */
    struct samples file_make, file_remove;
    struct daemon daemons[POPULATIONS];
    struct figure figures[POPULATIONS][CLIENT_COUNTS][DELETE + 1];
};

static const size_t client_counts[CLIENT_COUNTS] = {1, MANY_CLIENTS};
enum { CALLS_OF_ONE = 200, CALLS_OF_EACH = 64, BARE_COMMITS = 300, BARE_FILES = 50, FILL_BYTES = 32 << 10 };

static void measure_one(struct bench *bench, size_t round, size_t population, enum verb verb)
{
    struct figure *figure = &bench->figures[population][ONE][verb];
    const struct load load = {.daemon = &bench->daemons[population],
                              .verb = verb,
                              .template_id = "measured",
                              .prefix = "m",
                              .clients = 1,
                              .count = CALLS_OF_ONE};
    struct samples bare = {.values = NULL};
    struct samples calls = {.values = NULL};
    figure->rate[round] = load_run_paired(&load, &calls, bench->bare, &bare);
    figure->per_bare[round] = (double)samples_quantile(&calls, 0.5) / (double)samples_quantile(&bare, 0.5);
    figure->cost[round] = figure->per_bare[round];
    samples_append(&bench->paired, &bare);
    samples_append(&figure->samples, &calls);
    samples_free(&bare);
    samples_free(&calls);
}

static void measure_many(struct bench *bench, size_t round, size_t population, enum verb verb)
{
    struct figure *figure = &bench->figures[population][SIXTEEN][verb];
    const struct load load = {.daemon = &bench->daemons[population],
                              .verb = verb,
                              .template_id = "measured",
                              .prefix = "m",
                              .clients = MANY_CLIENTS,
                              .count = CALLS_OF_EACH};
    double bare_rate = bare_commits(bench->bare, BARE_COMMITS, &bench->back_to_back);
    struct samples calls = {.values = NULL};
    figure->rate[round] = load_run(&load, &calls);
    figure->per_bare[round] = figure->rate[round] / bare_rate;
    figure->cost[round] = (double)samples_quantile(&calls, 0.5);
    samples_append(&figure->samples, &calls);
    samples_free(&calls);
}

static void run_round(struct bench *bench, size_t round)
{
    bare_files(bench->daemons[FEW].shm, bench->options.region_bytes, BARE_FILES, &bench->file_make,
               &bench->file_remove);
    for (size_t population = 0; population < POPULATIONS; population++) {
        measure_one(bench, round, population, CREATE);
        measure_one(bench, round, population, DELETE);
    }
    for (size_t population = 0; population < POPULATIONS; population++) {
        measure_many(bench, round, population, CREATE);
        measure_many(bench, round, population, DELETE);
    }
}

static double microseconds(int64_t nanoseconds)
{
    return (double)nanoseconds / 1000;
}

static void print_row(const char *what, const char *existing, size_t clients, struct samples *samples)
{
    printf("%-24s %8s %8zu %9.0f %9.0f %9.0f", what, existing, clients,
           microseconds(samples_quantile(samples, 0.5)), microseconds(samples_quantile(samples, 0.99)),
           microseconds(samples_quantile(samples, 1)));
}

static void print_figures(struct bench *bench)
{
    static const char *const verbs[] = {[CREATE] = "create", [DELETE] = "delete"};
    printf("\n%-24s %8s %8s %9s %9s %9s %9s\n", "", "existing", "clients", "p50 us", "p99 us", "max us",
           "calls/s");
    print_row("bare commit, alternating", "", 1, &bench->paired);
    printf("\n");
    print_row("bare commit, in a row", "", 1, &bench->back_to_back);
    printf("\n");
    print_row("bare file, making", "", 1, &bench->file_make);
    printf("\n");
    print_row("bare file, removing", "", 1, &bench->file_remove);
    printf("\n");
    for (size_t verb = 0; verb <= DELETE; verb++) {
        for (size_t clients = 0; clients < CLIENT_COUNTS; clients++) {
            for (size_t population = 0; population < POPULATIONS; population++) {
                struct figure *figure = &bench->figures[population][clients][verb];
                char existing[24];
                (void)snprintf(existing, sizeof existing, "%zu", bench->options.sandboxes[population]);
                print_row(verbs[verb], existing, client_counts[clients], &figure->samples);
                printf(" %9.0f\n", median(figure->rate, bench->options.rounds));
            }
        }
    }
}

static void print_ratio(const char *what, double value, const char *sign, double target)
{
    bool met = sign[0] == '<' ? value <= target : value >= target;
    printf("%-46s %8.2f   target %s %-5g %s\n", what, value, sign, target, met ? "met" : "MISSED");
}

static double p99_ms(struct figure *figure)
{
    return microseconds(samples_quantile(&figure->samples, 0.99)) / 1000;
}

static void print_population(struct bench *bench, size_t population)
{
    struct figure(*figures)[DELETE + 1] = bench->figures[population];
    size_t rounds = bench->options.rounds;
    char what[128];
    (void)snprintf(what, sizeof what, "With %zu existing:", bench->options.sandboxes[population]);
    printf("%s\n", what);
    print_ratio("  1 client: create p50 / bare commit p50", median(figures[ONE][CREATE].per_bare, rounds),
                "<=", 3);
    print_ratio("  16 clients: creates/s / bare commits/s", median(figures[SIXTEEN][CREATE].per_bare, rounds),
                ">=", 1);
    print_ratio("  1 client: create p99, ms", p99_ms(&figures[ONE][CREATE]), "<", 5);
    print_ratio("  1 client: delete p99, ms", p99_ms(&figures[ONE][DELETE]), "<", 5);
    print_ratio("  16 clients: create p99, ms", p99_ms(&figures[SIXTEEN][CREATE]), "<", 5);
    print_ratio("  16 clients: delete p99, ms", p99_ms(&figures[SIXTEEN][DELETE]), "<", 5);
}

static void print_growth(struct bench *bench)
{
    static const char *const verbs[] = {[CREATE] = "create", [DELETE] = "delete"};
    printf("With %zu existing / with %zu:\n", bench->options.sandboxes[MANY], bench->options.sandboxes[FEW]);
    for (size_t verb = 0; verb <= DELETE; verb++) {
        for (size_t clients = 0; clients < CLIENT_COUNTS; clients++) {
            char what[64];
            (void)snprintf(what, sizeof what, "  %s p50, clients: %zu", verbs[verb], client_counts[clients]);
            double ratios[MAX_ROUNDS];
            for (size_t round = 0; round < bench->options.rounds; round++) {
                ratios[round] = bench->figures[MANY][clients][verb].cost[round] /
                                bench->figures[FEW][clients][verb].cost[round];
            }
            print_ratio(what, median(ratios, bench->options.rounds), "<=", 1.2);
        }
    }
}

static void print_large(struct bench *bench)
{
    struct daemon *daemon = &bench->daemons[MANY];
    const struct load empty = {.daemon = daemon,
                               .verb = DELETE,
                               .prefix = "fill",
                               .clients = FILL_CLIENTS,
                               .count = bench->options.sandboxes[MANY] / FILL_CLIENTS};
    printf("With %zu sandboxes:\n", bench->options.sandboxes[MANY]);
    print_ratio("  resident memory of chand, MiB", (double)daemon_resident_kib(daemon) / 1024, "<", 64);
    print_ratio("  restart to ready after SIGTERM, s", (double)daemon_restart(daemon, SIGTERM) / 1e9, "<", 1);
    print_ratio("  restart to ready after SIGKILL, s", (double)daemon_restart(daemon, SIGKILL) / 1e9, "<", 1);
    print_ratio("  resident memory after the restart, MiB", (double)daemon_resident_kib(daemon) / 1024, "<",
                64);
    double rate = load_run(&empty, NULL);
    printf("Deleted them with %d clients at %.0f/s\n", FILL_CLIENTS, rate);
    print_ratio("  resident memory after that, MiB", (double)daemon_resident_kib(daemon) / 1024, "<", 64);
}

static void fill(const struct daemon *daemon, size_t clients, size_t sandboxes)
{
    const struct load load = {.daemon = daemon,
                              .verb = CREATE,
                              .template_id = "fill",
                              .prefix = "fill",
                              .clients = clients,
                              .count = sandboxes / clients};
    double rate = load_run(&load, NULL);
    printf("made %zu sandboxes of %d KiB with %zu client%s at %.0f/s\n", sandboxes, FILL_BYTES >> 10, clients,
           clients == 1 ? "" : "s", rate);
}

static size_t number(const char *text)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value == 0 || value > 1000000) {
        die("not a number that makes sense here: %s", text);
    }
    return value;
}

static void parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"chand", required_argument, NULL, 'c'},    {"directory", required_argument, NULL, 'd'},
        {"shm", required_argument, NULL, 's'},      {"rounds", required_argument, NULL, 'r'},
        {"existing", required_argument, NULL, 'e'}, {"region-kib", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    int letter;
    while ((letter = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (letter) {
        case 'c':
            options->program = optarg;
            break;
        case 'd':
            options->directory = optarg;
            break;
        case 's':
            options->shm = optarg;
            break;
        case 'r':
            options->rounds = number(optarg);
            break;
        case 'k':
            options->region_bytes = number(optarg) << 10;
            break;
        case 'e':
            options->sandboxes[MANY] = number(optarg);
            break;
        default:
            printf("usage: chan-bench-control --chand PROGRAM [--directory DIR] [--shm DIR] [--rounds N]"
                   " [--existing N] [--region-kib N]\n");
            exit(letter == 'h' ? 0 : 2);
        }
    }
    if (options->program == NULL || optind != argc) {
        die("see --help");
    }
    if (options->rounds > MAX_ROUNDS) {
        die("at most %d rounds", MAX_ROUNDS);
    }
}

int main(int argc, char **argv)
{
    static struct bench bench = {.options = {.directory = "/tmp",
                                             .shm = "/dev/shm",
                                             .rounds = 7,
                                             .region_bytes = 1 << 20,
                                             .sandboxes = {10, 10000}}};
    struct options *options = &bench.options;
    parse(argc, argv, options);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    options->sandboxes[MANY] -= options->sandboxes[MANY] % FILL_CLIENTS;

    for (size_t i = 0; i < POPULATIONS; i++) {
        daemon_start(&bench.daemons[i], options->program, options->directory, options->shm);
        load_template(&bench.daemons[i], "measured", options->region_bytes);
        load_template(&bench.daemons[i], "fill", FILL_BYTES);
    }
    bench.bare = bare_open(bench.daemons[FEW].directory);
    fill(&bench.daemons[FEW], 1, options->sandboxes[FEW]);
    fill(&bench.daemons[MANY], FILL_CLIENTS, options->sandboxes[MANY]);
    for (size_t round = 0; round < options->rounds; round++) {
        run_round(&bench, round);
    }
    printf("%zu rounds, regions of %zu KiB in %s, state in %s\n", options->rounds,
           options->region_bytes >> 10, options->shm, options->directory);
    print_figures(&bench);
    printf("\n");
    print_population(&bench, FEW);
    print_population(&bench, MANY);
    print_growth(&bench);
    print_large(&bench);
    bare_close(bench.bare);
    daemon_end_all();
    return 0;
}
