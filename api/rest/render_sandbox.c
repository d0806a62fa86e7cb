#include <stdlib.h>

#include "api/rest/render.h"
#include "base/cleanup.h"

static const char *condition_word(enum owner_condition condition)
{
    switch (condition) {
    case OWNER_ALIVE:
        return "alive";
    case OWNER_ENDED:
        return "ended";
    case OWNER_IN_DOUBT:
        break;
    }
    return "in_doubt";
}

static void render_owner(struct json_writer *writer, const struct sandbox_view *sandbox)
{
    const struct owner_row *owner = &sandbox->row.owner;
    if (owner->kind == OWNER_NONE) {
        json_put_null(writer, "owner");
        return;
    }
    json_begin_object(writer, "owner");
    if (owner->kind == OWNER_PID) {
        json_put_integer(writer, "pid", owner->pid);
        json_put_unsigned(writer, "startTime", owner->start_time);
    } else {
        json_put_integer(writer, "leaseSeconds", owner->lease_seconds);
        json_put_integer(writer, "remainingSeconds", (sandbox->lease_remaining_ms + 999) / 1000);
    }
    json_put_string(writer, "condition", condition_word(sandbox->owner_condition));
    json_end_object(writer);
}

void render_strings(struct json_writer *writer, const char *name, char *const *list)
{
    json_begin_array(writer, name);
    for (size_t i = 0; list[i] != NULL; i++)
        json_put_string(writer, NULL, list[i]);
    json_end_array(writer);
}

typedef int (*arguments_fn)(const struct sandbox_view *sandbox, char ***ret);

static void render_arguments(struct json_writer *writer, const char *name, const struct sandbox_view *sandbox,
                             arguments_fn arguments)
{
    auto_free char **list = NULL;
    if (arguments(sandbox, &list) != 0) {
        writer->failed = true; /* there is a region, so it is memory that is missing */
        return;
    }
    render_strings(writer, name, list);
}

static void render_region(struct json_writer *writer, const struct sandbox_view *sandbox)
{
    const struct region_row *region = &sandbox->row.region;
    if (!sandbox->row.has_region) {
        json_put_null(writer, "ivshmem");
        return;
    }
    json_begin_object(writer, "ivshmem");
    json_put_string(writer, "path", sandbox->path);
    json_put_unsigned(writer, "sizeBytes", region->settings.size_bytes);
    json_put_string(writer, "layout", region_layout_word(region->settings.layout));
    json_put_string(writer, "onRollback", on_rollback_word(region->settings.on_rollback));
    json_put_unsigned(writer, "vectors", region->settings.vectors);
    json_put_unsigned(writer, "epoch", region->epoch);
    json_put_string(writer, "state", region_state_word(region->state));
    json_put_string(writer, "reason", region->reason[0] != '\0' ? region->reason : NULL);
    json_begin_object(writer, "vmm");
    render_arguments(writer, "qemu", sandbox, sandbox_qemu_arguments);
    render_arguments(writer, "cloudHypervisor", sandbox, sandbox_cloud_hypervisor_arguments);
    json_begin_object(writer, "cloudHypervisorConfig");
    json_put_string(writer, "path", sandbox->path);
    json_put_unsigned(writer, "size", region->settings.size_bytes);
    json_end_object(writer);
    json_end_object(writer);
    json_end_object(writer);
}

void render_sandbox(struct json_writer *writer, const char *name, const struct sandbox_view *sandbox)
{
    const struct sandbox_row *row = &sandbox->row;
    json_begin_object(writer, name);
    json_put_string(writer, "sandboxID", row->id);
    json_put_string(writer, "templateID", row->template_id);
    json_put_string(writer, "state", sandbox_state_word(row->state));
    json_put_string(writer, "reason", row->reason[0] != '\0' ? row->reason : NULL);
    render_owner(writer, sandbox);
    json_put_unsigned(writer, "uid", row->uid);
    json_put_unsigned(writer, "gid", row->gid);
    render_region(writer, sandbox);
    json_put_integer(writer, "revision", row->revision);
    json_put_time(writer, "createdAt", row->created_ms);
    json_put_time(writer, "updatedAt", row->updated_ms);
    json_end_object(writer);
}
