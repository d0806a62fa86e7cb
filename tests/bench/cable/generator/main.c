/* chan-bench-generator: two vhost-user front-ends in one thread, lean enough not to be what limits a cable
 * between them. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include "tests/bench/cable/generator/traffic.h"

static int pin(uint32_t cpu, struct error *err)
{
    if (cpu == CPU_ANY)
        return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "running on CPU %" PRIu32, cpu);
    return 0;
}

static int over_cable(const struct options *options, struct result *result, struct error *err)
{
    static struct frontend ends[2];
    struct frontend_settings settings;
    for (unsigned i = 0; i < 2; i++) {
        options_settings(options, i, &settings);
        if (frontend_open(&ends[i], &settings, err) != 0) {
            if (i == 1)
                frontend_close(&ends[0]);
            return -1;
        }
    }
    const int failed = traffic_run(options, ends, result, err);
    frontend_close(&ends[0]);
    frontend_close(&ends[1]);
    return failed;
}

int main(int argc, char **argv)
{
    struct options options;
    struct result result = {.frames = 0};
    struct error err = ERROR_INIT;
    options_read(argc, argv, &options);
    if (pin(options.cpu, &err) != 0 || (options.memcpy ? traffic_memcpy(&options, &result, &err)
                                                       : over_cable(&options, &result, &err)) != 0) {
        (void)fprintf(stderr, "chan-bench-generator: %s\n", err.detail);
        return 1;
    }
    (void)printf("{\"packetsPerSecond\": %.0f, \"bytesPerSecond\": %.0f, \"frames\": %" PRIu64
                 ", \"lost\": %" PRIu64 ", \"kicks\": %" PRIu64 ", \"seconds\": %.3f}\n",
                 (double)result.frames / result.seconds, (double)result.bytes / result.seconds, result.frames,
                 result.lost, result.kicks, result.seconds);
    return 0;
}
