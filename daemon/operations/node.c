/* What this host has, uses and allows. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/operations/internal.h"

static int read_counts(struct operations *operations, struct node_view *ret, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(operations->config.store, &view, err) != 0)
        return -1;
    ret->revision = store_revision(view);
    if (store_count_links(view, ret->links_by_state, err) != 0 ||
        store_count_sandboxes(view, ret->sandboxes, err) != 0 ||
        store_count_templates(view, &ret->templates, err) != 0 ||
        store_count_lost_regions(view, &ret->lost_regions, err) != 0)
        return -1;
    for (size_t state = 0; state < LINK_STATE_COUNT; state++)
        ret->links += ret->links_by_state[state];
    return store_usage_node(view, &ret->usage, err);
}

int operations_node_get(struct operations *operations, const struct caller *caller, struct node_view *ret,
                        struct error *err)
{
    (void)caller;
    const struct operations_config *config = &operations->config;
    *ret = (struct node_view){.version = CHAN_VERSION,
                              .schema_version = store_schema_version(),
                              .started_ms = operations->started_ms,
                              .ready = operations_is_ready(operations),
                              .limits = config->limits};
    if (gethostname(ret->hostname, sizeof ret->hostname - 1) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot read the host's name");
    (void)snprintf(ret->boot_id, sizeof ret->boot_id, "%s", reclaim_boot_id(config->reclaim));
    (void)snprintf(ret->shm_directory, sizeof ret->shm_directory, "%s", regions_directory(config->regions));
    if (regions_space(config->regions, &ret->shm_total_bytes, &ret->shm_free_bytes, err) != 0)
        return -1;
    struct statvfs state;
    if (statvfs(operations->state_directory, &state) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot ask for the space of %s",
                               operations->state_directory);
    ret->state_total_bytes = (uint64_t)state.f_blocks * state.f_frsize;
    ret->state_free_bytes = (uint64_t)state.f_bavail * state.f_frsize;
    reclaim_get_report(config->reclaim, &ret->reclaim);
    links_report(config->links, &ret->dataplane);
    return read_counts(operations, ret, err);
}

int operations_collect_metrics(struct operations *operations, struct error *err)
{
    struct metrics *metrics = operations->config.metrics;
    struct node_view node = {.revision = 0};
    if (read_counts(operations, &node, err) != 0)
        return -1;
    reclaim_get_report(operations->config.reclaim, &node.reclaim);
    metrics_set(metrics, METRIC_TEMPLATES, node.templates);
    metrics_set(metrics, METRIC_REGIONS, node.usage.regions);
    metrics_set(metrics, METRIC_REGION_BYTES, node.usage.bytes);
    metrics_set(metrics, METRIC_REGIONS_LOST, node.lost_regions);
    metrics_set(metrics, METRIC_FOREIGN_FILES, node.reclaim.foreign_files);
    metrics_set(metrics, METRIC_OWNERS_IN_DOUBT, node.reclaim.owners_in_doubt);
    metrics_set(metrics, METRIC_OWNERS_WATCHED, node.reclaim.watched_owners);
    links_collect_metrics(operations->config.links);
    for (int state = 0; state < LINK_STATE_COUNT; state++)
        metrics_set_state(metrics, METRIC_LINKS, link_state_word((enum link_row_state)state),
                          node.links_by_state[state]);
    for (int state = 0; state < SANDBOX_STATE_COUNT; state++)
        metrics_set_state(metrics, METRIC_SANDBOXES, sandbox_state_word((enum sandbox_state)state),
                          node.sandboxes[state]);
    return 0;
}
