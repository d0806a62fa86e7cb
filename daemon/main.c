/* chand: wires the parts together, and is the only place that logs failures and exits. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "api/rest/rest.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/fault.h"
#include "base/log.h"
#include "daemon/options.h"
#include "daemon/startup.h"

enum {
    PAGE_DEFAULT = 100,
    PAGE_MAX = 1000,
    SOCKET_MODE = 0660,
    BODY_LIMIT = 1024 * 1024,
    HEADER_LIMIT = 32 * 1024
};

/* Everything that runs, in the order in which it is opened. */
struct chand {
    struct settings settings;
    struct log log;
    int lock_fd;
    uint64_t descriptors; /* so many may be open */
    struct metrics *metrics;
    struct store *store;
    struct regions *regions;
    struct reclaim *reclaim;
    struct links *links;
    struct operations *operations;
    struct rest *rest;
};

static void count_commit(void *context, int64_t duration_ns, size_t units)
{
    struct metrics *metrics = context;
    metrics_add(metrics, METRIC_STORE_COMMITS, 1);
    metrics_add(metrics, METRIC_STORE_UNITS, units);
    metrics_observe(metrics, METRIC_COMMIT_SECONDS, duration_ns);
}

static int path_in(const char *directory, const char *name, char out[PATH_MAX], struct error *err)
{
    int length = snprintf(out, PATH_MAX, "%s/%s", directory, name);
    if (length < 0 || length >= PATH_MAX)
        return error_set(err, REASON_INTERNAL, "the path is too long: %s/%s", directory, name);
    return 0;
}

static int open_store(struct chand *chand, struct error *err)
{
    const char *state_directory = settings_text(&chand->settings, SETTING_STATE_DIR);
    char path[PATH_MAX];
    if (startup_directory(state_directory, 0700, true, err) != 0)
        return error_wrap(err, "state-dir: ");
    if (startup_directory(settings_text(&chand->settings, SETTING_RUNTIME_DIR), 0755, false, err) != 0)
        return error_wrap(err, "runtime-dir: ");
    if (startup_lock(state_directory, &chand->lock_fd, err) != 0 ||
        path_in(state_directory, "chan.db", path, err) != 0)
        return -1;
    struct store_config config = {.path = path, .on_commit = count_commit, .context = chand->metrics};
    return store_open(&config, &chand->store, err);
}

static int open_regions(struct chand *chand, struct error *err)
{
    /* VMMs are told the path and have a working directory of their own, so it must be absolute. */
    const char *directory = settings_text(&chand->settings, SETTING_SHM_DIR);
    auto_free char *absolute = realpath(directory, NULL);
    if (absolute == NULL)
        return error_set_errno(err, REASON_INTERNAL, errno, "shm-dir: cannot use %s", directory);
    struct regions_config config = {.directory = absolute,
                                    .name_pattern = settings_text(&chand->settings, SETTING_REGION_NAME)};
    return regions_open(&config, &chand->regions, err);
}

static int open_reclaim(struct chand *chand, struct error *err)
{
    const struct settings *settings = &chand->settings;
    struct reclaim_config config = {
        .store = chand->store,
        .regions = chand->regions,
        .metrics = chand->metrics,
        .log = &chand->log,
        .orphan_grace_ms = (int64_t)settings_number(settings, SETTING_ORPHAN_GRACE) * 1000,
        .pass_interval_ms = (int64_t)settings_number(settings, SETTING_COLLECT_INTERVAL) * 1000,
        .keep_events = settings_number(settings, SETTING_KEEP_EVENTS),
        .keep_keys_ms = (int64_t)settings_number(settings, SETTING_KEEP_KEYS) * 1000,
    };
    return reclaim_new(&config, &chand->reclaim, err);
}

static int open_links(struct chand *chand, struct error *err)
{
    const struct settings *settings = &chand->settings;
    auto_free char *runtime_directory = NULL;
    auto_free char *program = NULL;
    const char *wanted = settings_text(settings, SETTING_DATAPLANE_PROGRAM);
    const bool none = wanted != NULL && strcmp(wanted, "none") == 0;
    if (startup_absolute(settings_text(settings, SETTING_RUNTIME_DIR), &runtime_directory, err) != 0)
        return error_wrap(err, "runtime-dir: ");
    if (wanted == NULL && startup_program("chan-dataplane", &program, err) != 0)
        return -1;
    struct links_config config = {.store = chand->store,
                                  .metrics = chand->metrics,
                                  .log = &chand->log,
                                  .runtime_directory = runtime_directory,
                                  .dataplane_cpus = settings_text(settings, SETTING_DATAPLANE_CPUS)};
    if (!none)
        config.dataplane_program = wanted != NULL ? wanted : program;
    return links_new(&config, &chand->links, err);
}

static int open_operations(struct chand *chand, struct error *err)
{
    const struct settings *settings = &chand->settings;
    struct operations_config config = {
        .store = chand->store,
        .regions = chand->regions,
        .reclaim = chand->reclaim,
        .links = chand->links,
        .metrics = chand->metrics,
        .limits = {.default_region_bytes = settings_number(settings, SETTING_DEFAULT_REGION_SIZE),
                   .max_region_bytes = settings_number(settings, SETTING_MAX_REGION_SIZE),
                   .node_regions = settings_number(settings, SETTING_NODE_REGIONS),
                   .node_bytes = settings_number(settings, SETTING_NODE_BYTES),
                   .uid_regions = settings_number(settings, SETTING_UID_REGIONS),
                   .uid_bytes = settings_number(settings, SETTING_UID_BYTES),
                   .max_lease_seconds = (int64_t)settings_number(settings, SETTING_MAX_LEASE),
                   .page_default = PAGE_DEFAULT,
                   .page_max = PAGE_MAX},
        .state_directory = settings_text(settings, SETTING_STATE_DIR),
    };
    return operations_new(&config, &chand->operations, err);
}

/* A quarter of the descriptors at most, so that idle connections cannot take those with which the others are
 * served. */
static unsigned int connection_limit(const struct chand *chand)
{
    uint64_t limit = settings_number(&chand->settings, SETTING_CONNECTION_LIMIT);
    if (limit <= chand->descriptors / 4)
        return (unsigned int)limit;
    char possible[24];
    (void)snprintf(possible, sizeof possible, "%llu", (unsigned long long)chand->descriptors / 4);
    log_write(&chand->log, LOG_LEVEL_WARNING, "the limit of open files does not allow for connection-limit",
              "possible", possible, NULL);
    return (unsigned int)(chand->descriptors / 4);
}

static int start_rest(struct chand *chand, struct error *err)
{
    const struct settings *settings = &chand->settings;
    char socket_path[PATH_MAX];
    char tcp_address[TCP_ADDRESS_SIZE];
    if (path_in(settings_text(settings, SETTING_RUNTIME_DIR), "chand.sock", socket_path, err) != 0 ||
        settings_tcp_address(settings, tcp_address, err) != 0)
        return -1;
    struct rest_config config = {
        .operations = chand->operations,
        .metrics = chand->metrics,
        .log = &chand->log,
        .socket_path = socket_path,
        .socket_mode = SOCKET_MODE,
        .socket_group = settings_text(settings, SETTING_SOCKET_GROUP),
        .tcp_address = tcp_address[0] != '\0' ? tcp_address : NULL,
        .workers = (unsigned int)settings_number(settings, SETTING_WORKERS),
        .connection_limit = connection_limit(chand),
        .idle_seconds = (unsigned int)settings_number(settings, SETTING_IDLE_TIMEOUT),
        .body_limit = BODY_LIMIT,
        .header_limit = HEADER_LIMIT,
    };
    if (rest_start(&config, &chand->rest, err) != 0)
        return -1;
    log_write(&chand->log, LOG_LEVEL_INFO, "listening", "socket", socket_path,
              tcp_address[0] != '\0' ? "tcp" : NULL, tcp_address, NULL);
    return 0;
}

/* From nothing to ready. */
static int start(struct chand *chand, struct error *err)
{
    int64_t begin_ns = clock_monotonic_ns();
    if (descriptors_standard(err) != 0 || descriptors_limit(&chand->descriptors, err) != 0 ||
        metrics_new(CHAN_VERSION, &chand->metrics, err) != 0 || open_store(chand, err) != 0 ||
        open_regions(chand, err) != 0 || open_reclaim(chand, err) != 0 || open_links(chand, err) != 0 ||
        open_operations(chand, err) != 0 || start_rest(chand, err) != 0)
        return -1;
    if (reclaim_repair(chand->reclaim, err) != 0)
        return error_wrap(err, "repairing the state: ");
    if (links_start(chand->links, err) != 0)
        return -1;
    operations_set_ready(chand->operations, true);
    if (reclaim_start(chand->reclaim, err) != 0)
        return -1;
    char milliseconds[24];
    (void)snprintf(milliseconds, sizeof milliseconds, "%lld",
                   (long long)((clock_monotonic_ns() - begin_ns) / 1000000));
    log_write(&chand->log, LOG_LEVEL_INFO, "ready", "version", CHAN_VERSION, "state",
              settings_text(&chand->settings, SETTING_STATE_DIR), "regions",
              regions_directory(chand->regions), "milliseconds", milliseconds, NULL);
    return 0;
}

/* In reverse, whatever was opened. */
static void stop(struct chand *chand)
{
    rest_stop(chand->rest, (unsigned int)settings_number(&chand->settings, SETTING_DRAIN_TIMEOUT));
    operations_free(chand->operations);
    links_free(chand->links);
    reclaim_free(chand->reclaim);
    regions_close(chand->regions);
    store_close(chand->store);
    metrics_free(chand->metrics);
    cleanup_close(&chand->lock_fd);
}

static int run(struct chand *chand)
{
    /* Blocked before any thread exists, so that only this one ever takes them. */
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow so far is an error of one call */
    (void)umask(0077);              /* what others may use is opened to them by name */

    struct error err = ERROR_INIT;
    int code = EXIT_CODE_OK;
    if (start(chand, &err) == 0) {
        (void)sd_notify(0, "READY=1");
        int number = 0;
        (void)sigwait(&signals, &number);
        (void)sd_notify(0, "STOPPING=1");
        log_write(&chand->log, LOG_LEVEL_INFO, "stopping", "signal", sigabbrev_np(number), NULL);
    } else {
        (void)fprintf(stderr, "chand: %s\n", err.detail);
        code = EXIT_CODE_FAILED;
    }
    stop(chand);
    return code;
}

int main(int argc, char **argv)
{
    struct chand chand = {.lock_fd = -1, .log = {.level = LOG_LEVEL_INFO, .fd = STDERR_FILENO}};
    struct error err = ERROR_INIT;
    enum action action = ACTION_RUN;
    int code = EXIT_CODE_OK;
    if (settings_init(&chand.settings, &err) != 0 ||
        options_parse(argc, argv, &action, &chand.settings, &err) != 0) {
        (void)fprintf(stderr, "chand: %s\n", err.detail);
        settings_clear(&chand.settings);
        return EXIT_CODE_USAGE;
    }
    switch (action) {
    case ACTION_HELP:
        options_help(stdout);
        break;
    case ACTION_VERSION:
        (void)printf("chand %s\n", CHAN_VERSION);
        break;
    case ACTION_CHECK_CONFIG:
        settings_print(&chand.settings, stdout);
        break;
    case ACTION_LIST_FAULT_POINTS:
#ifdef CHAN_FAULT_POINTS
        fault_list(stdout);
#endif
        break;
    case ACTION_RUN:
        chand.log.level = settings_log_level(&chand.settings);
        code = run(&chand);
        break;
    }
    settings_clear(&chand.settings);
    return code;
}
