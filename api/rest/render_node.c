#include "api/rest/render.h"

/* A quota of 0 is none. */
static void put_quota(struct json_writer *writer, const char *name, uint64_t quota)
{
    if (quota == 0)
        json_put_null(writer, name);
    else
        json_put_unsigned(writer, name, quota);
}

static void render_space(struct json_writer *writer, const char *name, const char *directory, uint64_t total,
                         uint64_t available)
{
    json_begin_object(writer, name);
    if (directory != NULL)
        json_put_string(writer, "directory", directory);
    json_put_unsigned(writer, "totalBytes", total);
    json_put_unsigned(writer, "freeBytes", available);
    json_end_object(writer);
}

static void render_use(struct json_writer *writer, const struct node_view *node)
{
    json_begin_object(writer, "sandboxes");
    for (int state = 0; state < SANDBOX_STATE_COUNT; state++)
        json_put_unsigned(writer, sandbox_state_word((enum sandbox_state)state), node->sandboxes[state]);
    json_end_object(writer);
    json_put_unsigned(writer, "templates", node->templates);
    json_begin_object(writer, "regions");
    json_put_unsigned(writer, "count", node->usage.regions);
    json_put_unsigned(writer, "bytes", node->usage.bytes);
    json_put_unsigned(writer, "lost", node->lost_regions);
    json_end_object(writer);
}

static void render_dataplane(struct json_writer *writer, const struct links_report *report)
{
    json_begin_object(writer, "dataplane");
    json_put_bool(writer, "connected", report->connected);
    json_put_bool(writer, "startedHere", report->started_here);
    if (report->pid == 0)
        json_put_null(writer, "pid");
    else
        json_put_unsigned(writer, "pid", report->pid);
    json_put_string(writer, "software", report->software[0] != '\0' ? report->software : NULL);
    json_put_string(writer, "reason", report->reason[0] != '\0' ? report->reason : NULL);
    json_put_unsigned(writer, "starts", report->starts);
    json_put_unsigned(writer, "reconnects", report->reconnects);
    json_end_object(writer);
}

static void render_limits(struct json_writer *writer, const struct operations_limits *limits)
{
    json_begin_object(writer, "limits");
    json_put_unsigned(writer, "defaultRegionBytes", limits->default_region_bytes);
    json_put_unsigned(writer, "maxRegionBytes", limits->max_region_bytes);
    put_quota(writer, "nodeRegions", limits->node_regions);
    put_quota(writer, "nodeBytes", limits->node_bytes);
    put_quota(writer, "uidRegions", limits->uid_regions);
    put_quota(writer, "uidBytes", limits->uid_bytes);
    json_put_integer(writer, "maxLeaseSeconds", limits->max_lease_seconds);
    json_put_unsigned(writer, "pageDefault", limits->page_default);
    json_put_unsigned(writer, "pageMax", limits->page_max);
    json_end_object(writer);
}

static void render_collector(struct json_writer *writer, const struct reclaim_report *report)
{
    json_begin_object(writer, "collector");
    json_put_unsigned(writer, "watchedOwners", report->watched_owners);
    json_put_unsigned(writer, "ownersInDoubt", report->owners_in_doubt);
    json_put_unsigned(writer, "foreignFiles", report->foreign_files);
    json_put_unsigned(writer, "reclaimedTotal", report->reclaimed_total);
    if (report->last_pass_ms == 0)
        json_put_null(writer, "lastPassAt");
    else
        json_put_time(writer, "lastPassAt", report->last_pass_ms);
    json_end_object(writer);
}

void render_node(struct json_writer *writer, const char *name, const struct node_view *node)
{
    json_begin_object(writer, name);
    json_put_string(writer, "hostname", node->hostname);
    json_put_string(writer, "bootID", node->boot_id);
    json_put_string(writer, "version", node->version);
    json_put_integer(writer, "schemaVersion", node->schema_version);
    json_put_integer(writer, "revision", node->revision);
    json_put_time(writer, "startedAt", node->started_ms);
    json_put_bool(writer, "ready", node->ready);
    render_space(writer, "sharedMemory", node->shm_directory, node->shm_total_bytes, node->shm_free_bytes);
    render_space(writer, "state", NULL, node->state_total_bytes, node->state_free_bytes);
    render_use(writer, node);
    json_put_unsigned(writer, "links", node->links);
    render_dataplane(writer, &node->dataplane);
    render_limits(writer, &node->limits);
    render_collector(writer, &node->reclaim);
    json_end_object(writer);
}
