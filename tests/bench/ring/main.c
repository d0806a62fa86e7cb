/* chan-bench-ring: libchan's ring beside other ways between two processes, and beside what the machine can do
 * at best.
 *
 * Two processes, pinned to CPU 0 and 1, every message copied in and copied out. Each figure is the median of
 * several rounds; in a round everything is measured once, one after the other, so that a change of the
 * machine's mood hits all alike. Compare within one run only. */
#include <getopt.h>
#include <stdio.h>

#include "tests/bench/ring/bench.h"

enum { MOST_ROUNDS = 99, DEFAULT_ROUNDS = 5, TRANSPORTS = 5, OURS = 2, SIZES = 4 };

static const struct transport *const transports[TRANSPORTS] = {
    &transport_chan, &transport_chan_batched, &transport_spsc, &transport_stream, &transport_pipe};
static const size_t sizes[SIZES] = {8, 64, 1024, LARGEST_MESSAGE};

struct series {
    double values[MOST_ROUNDS];
};

static struct series rates[TRANSPORTS][SIZES], p50[TRANSPORTS], p99[TRANSPORTS], line, copy;
static const char *copy_way = "";

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(struct series *series, int rounds)
{
    qsort(series->values, (size_t)rounds, sizeof *series->values, compare);
    return series->values[rounds / 2];
}

static void measure_all(int round)
{
    line.values[round] = limit_line_round_trip();
    copy.values[round] = limit_copy(&copy_way);
    for (int t = 0; t < TRANSPORTS; t++) {
        for (int s = 0; s < SIZES; s++)
            rates[t][s].values[round] = measure_rate(transports[t], sizes[s]);
        struct latency latency = measure_round_trip(transports[t]);
        p50[t].values[round] = latency.p50;
        p99[t].values[round] = latency.p99;
    }
}

static void print_ratio(const char *what, double ratio, const char *budget)
{
    (void)printf("%-44s %6.2f   (%s)\n", what, ratio, budget);
}

static void report(int rounds)
{
    double rate[TRANSPORTS][SIZES];
    double middle[TRANSPORTS];
    (void)printf("%-16s %10s %10s %10s %10s %18s\n", "", "8 B", "64 B", "1 KiB", "64 KiB", "round trip, 8 B");
    (void)printf("%-16s %10s %10s %10s %10s %18s\n", "", "M msg/s", "M msg/s", "M msg/s", "GB/s",
                 "p50/p99 ns");
    for (int t = 0; t < TRANSPORTS; t++) {
        for (int s = 0; s < SIZES; s++)
            rate[t][s] = median(&rates[t][s], rounds);
        middle[t] = median(&p50[t], rounds);
        (void)printf("%-16s %10.2f %10.2f %10.2f %10.2f %10.0f/%.0f\n", transports[t]->name, rate[t][0] / 1e6,
                     rate[t][1] / 1e6, rate[t][2] / 1e6, rate[t][3] * LARGEST_MESSAGE / 1e9, middle[t],
                     median(&p99[t], rounds));
    }
    double line_ns = median(&line, rounds);
    double copy_rate = median(&copy, rounds);
    (void)printf("%-16s two line transfers %.0f ns; copy of 64 KiB blocks across cores %.2f GB/s (%s)\n\n",
                 "the machine", line_ns, copy_rate / 1e9, copy_way);

    static const char *const names[SIZES] = {
        "messages/s at 8 B, to the best other", "messages/s at 64 B, to the best other",
        "messages/s at 1 KiB, to the best other", "64 KiB messages, to the best other"};
    for (int s = 0; s < SIZES; s++) {
        double best = 0;
        for (int t = OURS; t < TRANSPORTS; t++)
            best = rate[t][s] > best ? rate[t][s] : best;
        print_ratio(names[s], rate[0][s] / best, "unbatched: not behind, 1.00");
        if (sizes[s] != LARGEST_MESSAGE)
            print_ratio("  the same, batched", rate[1][s] / best, "at least 2.00");
    }
    print_ratio("64 KiB messages, to the copy across cores", rate[0][3] * LARGEST_MESSAGE / copy_rate,
                "at least 0.95");
    print_ratio("round trip of 8 B, to two line transfers", middle[0] / line_ns, "at most 1.10");
    double fastest = middle[OURS];
    for (int t = OURS + 1; t < TRANSPORTS; t++)
        fastest = middle[t] < fastest ? middle[t] : fastest;
    print_ratio("round trip of 8 B, to the best other", middle[0] / fastest, "below 1.00 is better");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"rounds", required_argument, NULL, 'r'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    int rounds = DEFAULT_ROUNDS;
    int option = 0;
    while ((option = getopt_long(argc, argv, "r:h", options, NULL)) != -1) {
        if (option == 'r')
            rounds = (int)strtol(optarg, NULL, 10);
        if (option == 'h' || option == '?' || rounds < 1 || rounds > MOST_ROUNDS) {
            (void)fprintf(option == 'h' ? stdout : stderr,
                          "usage: chan-bench-ring [--rounds N]\n"
                          "Measures message passing between two processes on CPU 0 and CPU 1.\n"
                          "  --rounds N   how often; figures are medians (1 to %d, default %d)\n",
                          MOST_ROUNDS, DEFAULT_ROUNDS);
            return option == 'h' ? 0 : 2;
        }
    }
    for (int round = 0; round < rounds; round++)
        measure_all(round);
    report(rounds);
    return 0;
}
