/* Files that look like ours and are not: counted, reported, and left where they are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/reclaim/internal.h"

enum {
    NAMES_MAX = 65536,     /* looked at in one scan */
    CANDIDATES_MAX = 4096, /* looked at twice; so many are bad enough, and the count stops there */
    SETTLED_MS = 1000 /* a directory that changed so recently may change again without its time telling */
};

/* A name that the store does not know. */
struct candidate {
    char *name;
    size_t token_at; /* where in the name of a staging file the token begins; 0: a region's name */
};

struct scan {
    struct store_view *view;
    struct error *err;
    bool failed;
    size_t seen, count;
    struct candidate *candidates;
};

static int is_known(struct store_view *view, const char *name, const char *token, struct error *err)
{
    return token != NULL ? store_staging_token_known(view, token, err)
                         : store_region_name_known(view, name, err);
}

static int note_candidate(struct scan *scan, const char *name, const char *token)
{
    char *copy = strdup(name);
    if (copy == NULL)
        return error_set_errno(scan->err, REASON_RESOURCE_LIMIT, ENOMEM, "counting foreign files");
    scan->candidates[scan->count++] =
        (struct candidate){.name = copy, .token_at = token != NULL ? (size_t)(token - name) : 0};
    return 0;
}

static int look_at_name(void *context, const char *name, const char *sandbox_id, const char *token)
{
    struct scan *scan = context;
    (void)sandbox_id;
    int known = is_known(scan->view, name, token, scan->err);
    if (known < 0 || (known == 0 && note_candidate(scan, name, token) < 0)) {
        scan->failed = true;
        return 1;
    }
    scan->seen++;
    return scan->seen == NAMES_MAX || scan->count == CANDIDATES_MAX;
}

/* A creation may have begun after the first view was taken, or a deletion have ended: the second look is with
 * a view that is younger than the scan, and the row of a file outlives the file. */
static int confirm(struct reclaim *reclaim, const struct scan *scan, uint64_t *foreign, const char **example,
                   struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (scan->count == 0)
        return 0;
    if (store_read_begin(reclaim->config.store, &view, err) < 0)
        return -1;
    for (size_t i = 0; i < scan->count; i++) {
        const char *name = scan->candidates[i].name;
        size_t token_at = scan->candidates[i].token_at;
        int known = is_known(view, name, token_at > 0 ? name + token_at : NULL, err);
        if (known < 0)
            return -1;
        if (known == 0 && regions_has_file(reclaim->config.regions, name)) {
            (*foreign)++;
            *example = name;
        }
    }
    return 0;
}

static int scan_and_confirm(struct reclaim *reclaim, struct scan *scan, struct error *err)
{
    {
        auto_view struct store_view *view = NULL;
        if (store_read_begin(reclaim->config.store, &view, err) < 0)
            return -1;
        scan->view = view;
        if (regions_scan(reclaim->config.regions, look_at_name, scan, err) < 0 || scan->failed)
            return -1;
    }
    uint64_t foreign = 0;
    const char *example = NULL;
    if (confirm(reclaim, scan, &foreign, &example, err) < 0)
        return -1;
    uint64_t before = atomic_exchange(&reclaim->foreign_files, foreign);
    metrics_set(reclaim->config.metrics, METRIC_FOREIGN_FILES, foreign);
    if (foreign > before) {
        char count[24];
        (void)snprintf(count, sizeof count, "%llu", (unsigned long long)foreign);
        log_write(reclaim->config.log, LOG_LEVEL_WARNING, "files that look like regions are not ours",
                  "count", count, "example", example, "directory", regions_directory(reclaim->config.regions),
                  NULL);
    }
    return 0;
}

int foreign_count(struct reclaim *reclaim, struct error *err)
{
    int64_t changed_ns = 0;
    int64_t now_ms = clock_real_ms();
    if (regions_changed(reclaim->config.regions, &changed_ns, err) < 0)
        return -1;
    bool again = atomic_exchange(&reclaim->rescan, false);
    if (!again && changed_ns == reclaim->scanned_ns)
        return 0;
    struct error failure = ERROR_INIT;
    struct scan scan = {.err = &failure, .candidates = calloc(CANDIDATES_MAX, sizeof *scan.candidates)};
    if (scan.candidates == NULL)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "counting foreign files");
    int result = scan_and_confirm(reclaim, &scan, &failure);
    for (size_t i = 0; i < scan.count; i++)
        free(scan.candidates[i].name);
    free(scan.candidates);
    if (result < 0) {
        if (err != NULL)
            *err = failure;
        return -1;
    }
    int64_t age_ms = now_ms - changed_ns / 1000000;
    reclaim->scanned_ns = age_ms >= 0 && age_ms < SETTLED_MS ? 0 : changed_ns;
    return 0;
}
