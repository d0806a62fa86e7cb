/* chan-bench-control: what creating and deleting a sandbox costs, next to bare SQLite commits on the same
 * disk.
 *
 * Two daemons run side by side, one with few sandboxes and one with many, and are measured in turn, so that a
 * disk whose speed drifts does not decide between them. Before each measurement bare commits are measured; a
 * ratio is taken within such a pair, and the median of the rounds is printed. The targets are the project's
 * budgets. A figure that misses its target is shown and is no failure: this is a benchmark, not a test.
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
    size_t rounds, sandboxes[POPULATIONS];
};

/* One verb by one number of clients on one population. */
struct figure {
    struct samples samples;
    double per_bare_p50[MAX_ROUNDS];  /* p50 of the round / p50 of its bare commits */
    double per_bare_rate[MAX_ROUNDS]; /* calls/s / bare commits/s */
    double rate[MAX_ROUNDS];
};

struct bench {
    struct options options;
    struct bare *bare;
    struct samples bare_samples;
    struct daemon daemons[POPULATIONS];
    struct figure figures[POPULATIONS][CLIENT_COUNTS][DELETE + 1];
};

static const size_t client_counts[CLIENT_COUNTS] = {1, MANY_CLIENTS};
static const size_t calls_each[CLIENT_COUNTS] = {200, 64};
enum { BARE_COMMITS = 300, MEASURED_BYTES = 1 << 20, FILL_BYTES = 32 << 10 };

static void measure(struct bench *bench, size_t round, size_t population, size_t clients, enum verb verb)
{
    struct figure *figure = &bench->figures[population][clients][verb];
    struct samples bare = {.values = NULL};
    struct samples calls = {.values = NULL};
    double bare_rate = bare_commits(bench->bare, BARE_COMMITS, &bare);
    double rate = load_run(&bench->daemons[population], verb, "measured", "m", client_counts[clients],
                           calls_each[clients], &calls);
    figure->rate[round] = rate;
    figure->per_bare_rate[round] = rate / bare_rate;
    figure->per_bare_p50[round] =
        (double)samples_quantile(&calls, 0.5) / (double)samples_quantile(&bare, 0.5);
    samples_append(&bench->bare_samples, &bare);
    samples_append(&figure->samples, &calls);
    samples_free(&bare);
    samples_free(&calls);
}

static void run_round(struct bench *bench, size_t round)
{
    for (size_t clients = 0; clients < CLIENT_COUNTS; clients++) {
        for (size_t population = 0; population < POPULATIONS; population++) {
            measure(bench, round, population, clients, CREATE);
            measure(bench, round, population, clients, DELETE);
        }
    }
}

static double microseconds(int64_t nanoseconds)
{
    return (double)nanoseconds / 1000;
}

static void print_figures(struct bench *bench)
{
    printf("\n%-8s %9s %8s %9s %9s %9s %9s %11s %11s\n", "call", "existing", "clients", "p50 us", "p99 us",
           "max us", "calls/s", "p50/bare", "rate/bare");
    printf("%-8s %9s %8d %9.0f %9.0f %9.0f %9s %11s %11s\n", "bare", "", 1,
           microseconds(samples_quantile(&bench->bare_samples, 0.5)),
           microseconds(samples_quantile(&bench->bare_samples, 0.99)),
           microseconds(samples_quantile(&bench->bare_samples, 1)), "", "1", "1");
    static const char *const verbs[] = {[CREATE] = "create", [DELETE] = "delete"};
    for (size_t verb = 0; verb <= DELETE; verb++) {
        for (size_t clients = 0; clients < CLIENT_COUNTS; clients++) {
            for (size_t population = 0; population < POPULATIONS; population++) {
                struct figure *figure = &bench->figures[population][clients][verb];
                size_t rounds = bench->options.rounds;
                printf("%-8s %9zu %8zu %9.0f %9.0f %9.0f %9.0f %11.2f %11.2f\n", verbs[verb],
                       bench->options.sandboxes[population], client_counts[clients],
                       microseconds(samples_quantile(&figure->samples, 0.5)),
                       microseconds(samples_quantile(&figure->samples, 0.99)),
                       microseconds(samples_quantile(&figure->samples, 1)), median(figure->rate, rounds),
                       median(figure->per_bare_p50, rounds), median(figure->per_bare_rate, rounds));
            }
        }
    }
}

static void print_ratio(const char *what, double value, const char *sign, double target)
{
    bool met = sign[0] == '<' ? value <= target : value >= target;
    printf("%-66s %8.2f   target %s %-5g %s\n", what, value, sign, target, met ? "met" : "MISSED");
}

static void print_ratios(struct bench *bench)
{
    printf("\n");
    static const char *const existing[] = {[FEW] = "few", [MANY] = "many"};
    char what[128];
    for (size_t population = 0; population < POPULATIONS; population++) {
        struct figure(*figures)[DELETE + 1] = bench->figures[population];
        size_t rounds = bench->options.rounds;
        (void)snprintf(what, sizeof what, "create p50 of 1 client / bare commit p50, %s existing",
                       existing[population]);
        print_ratio(what, median(figures[ONE][CREATE].per_bare_p50, rounds), "<=", 3);
        (void)snprintf(what, sizeof what, "creates/s of 16 clients / bare commits/s, %s existing",
                       existing[population]);
        print_ratio(what, median(figures[SIXTEEN][CREATE].per_bare_rate, rounds), ">=", 1);
        (void)snprintf(what, sizeof what, "create p99 of 1 client, ms, %s existing", existing[population]);
        print_ratio(what, microseconds(samples_quantile(&figures[ONE][CREATE].samples, 0.99)) / 1000, "<", 5);
        (void)snprintf(what, sizeof what, "delete p99 of 1 client, ms, %s existing", existing[population]);
        print_ratio(what, microseconds(samples_quantile(&figures[ONE][DELETE].samples, 0.99)) / 1000, "<", 5);
        (void)snprintf(what, sizeof what, "create p99 of 16 clients, ms, %s existing", existing[population]);
        print_ratio(what, microseconds(samples_quantile(&figures[SIXTEEN][CREATE].samples, 0.99)) / 1000, "<",
                    5);
        (void)snprintf(what, sizeof what, "delete p99 of 16 clients, ms, %s existing", existing[population]);
        print_ratio(what, microseconds(samples_quantile(&figures[SIXTEEN][DELETE].samples, 0.99)) / 1000, "<",
                    5);
    }
    static const char *const verbs[] = {[CREATE] = "create", [DELETE] = "delete"};
    for (size_t verb = 0; verb <= DELETE; verb++) {
        for (size_t clients = 0; clients < CLIENT_COUNTS; clients++) {
            (void)snprintf(what, sizeof what, "%s p50 with %zu existing / with %zu, %zu client%s",
                           verbs[verb], bench->options.sandboxes[MANY], bench->options.sandboxes[FEW],
                           client_counts[clients], client_counts[clients] == 1 ? "" : "s");
            print_ratio(what,
                        (double)samples_quantile(&bench->figures[MANY][clients][verb].samples, 0.5) /
                            (double)samples_quantile(&bench->figures[FEW][clients][verb].samples, 0.5),
                        "<=", 1.2);
        }
    }
}

static void print_large(struct bench *bench)
{
    struct daemon *daemon = &bench->daemons[MANY];
    size_t sandboxes = bench->options.sandboxes[MANY];
    char what[128];
    printf("\n");
    (void)snprintf(what, sizeof what, "resident memory of chand with %zu sandboxes, MiB", sandboxes);
    print_ratio(what, (double)daemon_resident_kib(daemon) / 1024, "<", 64);
    (void)snprintf(what, sizeof what, "restart to ready with %zu sandboxes after SIGTERM, s", sandboxes);
    print_ratio(what, (double)daemon_restart(daemon, SIGTERM) / 1e9, "<", 1);
    (void)snprintf(what, sizeof what, "restart to ready with %zu sandboxes after SIGKILL, s", sandboxes);
    print_ratio(what, (double)daemon_restart(daemon, SIGKILL) / 1e9, "<", 1);
    print_ratio("resident memory after the restart, MiB", (double)daemon_resident_kib(daemon) / 1024, "<",
                64);
    double rate = load_run(daemon, DELETE, "fill", "fill", FILL_CLIENTS, sandboxes / FILL_CLIENTS, NULL);
    printf("deleted them with %d clients at %.0f/s\n", FILL_CLIENTS, rate);
    print_ratio("resident memory after they were deleted, MiB", (double)daemon_resident_kib(daemon) / 1024,
                "<", 64);
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
    static const struct option known[] = {{"chand", required_argument, NULL, 'c'},
                                          {"directory", required_argument, NULL, 'd'},
                                          {"shm", required_argument, NULL, 's'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {"existing", required_argument, NULL, 'e'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
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
        case 'e':
            options->sandboxes[MANY] = number(optarg);
            break;
        default:
            printf("usage: chan-bench-control --chand PROGRAM [--directory DIR] [--shm DIR] [--rounds N]"
                   " [--existing N]\n");
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
    static struct bench bench = {
        .options = {.directory = "/tmp", .shm = "/dev/shm", .rounds = 7, .sandboxes = {10, 10000}}};
    struct options *options = &bench.options;
    parse(argc, argv, options);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    options->sandboxes[MANY] -= options->sandboxes[MANY] % FILL_CLIENTS;

    for (size_t i = 0; i < POPULATIONS; i++) {
        daemon_start(&bench.daemons[i], options->program, options->directory, options->shm);
        load_template(&bench.daemons[i], "measured", MEASURED_BYTES);
        load_template(&bench.daemons[i], "fill", FILL_BYTES);
    }
    bench.bare = bare_open(bench.daemons[FEW].directory);
    (void)load_run(&bench.daemons[FEW], CREATE, "fill", "fill", 1, options->sandboxes[FEW], NULL);
    double rate = load_run(&bench.daemons[MANY], CREATE, "fill", "fill", FILL_CLIENTS,
                           options->sandboxes[MANY] / FILL_CLIENTS, NULL);
    printf("made %zu sandboxes of %d KiB with %d clients at %.0f/s; resident %.1f MiB\n",
           options->sandboxes[MANY], FILL_BYTES >> 10, FILL_CLIENTS, rate,
           (double)daemon_resident_kib(&bench.daemons[MANY]) / 1024);
    for (size_t round = 0; round < options->rounds; round++) {
        run_round(&bench, round);
    }
    printf("%zu rounds, regions of %d KiB, state in %s\n", options->rounds, MEASURED_BYTES >> 10,
           options->directory);
    print_figures(&bench);
    print_ratios(&bench);
    print_large(&bench);
    bare_close(bench.bare);
    daemon_end_all();
    return 0;
}
