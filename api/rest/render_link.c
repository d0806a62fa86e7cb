#include <ctype.h>
#include <stdlib.h>

#include "api/proto/statistics.h"
#include "api/rest/render.h"
#include "base/cleanup.h"

static const char *const drop_words[STATISTICS_DROP_COUNT] = {
#define DROP(name, word, text) [STATISTICS_DROP_##name] = (word),
    STATISTICS_DROPS(DROP)
#undef DROP
};

static const char *state_word(enum link_row_state state)
{
    switch (state) {
    case LINK_CREATING:
        return "creating";
    case LINK_READY:
        return "ready";
    case LINK_DELETING:
    case LINK_STATE_COUNT:
        break;
    }
    return "deleting";
}

/* A number of which 0 says that there is none. */
static void put_positive(struct json_writer *writer, const char *name, uint64_t value)
{
    if (value == 0)
        json_put_null(writer, name);
    else
        json_put_unsigned(writer, name, value);
}

static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

/* "no_receiver" is "noReceiver" in JSON. */
static void put_drop(struct json_writer *writer, const char *word, uint64_t value)
{
    char name[32];
    size_t length = 0;
    for (; *word != '\0' && length + 1 < sizeof name; word++) {
        if (*word == '_' && word[1] != '\0')
            name[length++] = (char)toupper((unsigned char)*++word);
        else
            name[length++] = *word;
    }
    name[length] = '\0';
    json_put_unsigned(writer, name, value);
}

static void render_counters(struct json_writer *writer, const struct link_counters *counters)
{
    json_begin_object(writer, "counters");
    json_put_unsigned(writer, "frames", counters->frames);
    json_put_unsigned(writer, "bytes", counters->bytes);
    json_begin_object(writer, "dropped");
    for (size_t i = 0; i < STATISTICS_DROP_COUNT; i++)
        put_drop(writer, drop_words[i], counters->dropped[i]);
    json_end_object(writer);
    json_put_unsigned(writer, "checksummed", counters->checksummed);
    json_put_unsigned(writer, "segmented", counters->segmented);
    json_put_unsigned(writer, "segments", counters->segments);
    json_put_unsigned(writer, "interrupts", counters->interrupts);
    json_put_unsigned(writer, "stalls", counters->stalls);
    json_end_object(writer);
}

/* *list is what a call that answered `result` made; memory is all that it can lack. */
static void put_list(struct json_writer *writer, const char *name, int result, char **const *list)
{
    if (result == 0)
        render_strings(writer, name, *list);
    else
        writer->failed = true;
}

static void render_end(struct json_writer *writer, const struct link_view *link, unsigned number)
{
    const struct link_end_row *row = &link->row.ends[number];
    const struct link_end_state *state = &link->state.ends[number];
    auto_free char **features = NULL;
    auto_free char **qemu = NULL;
    auto_free char **cloud_hypervisor = NULL;
    json_begin_object(writer, NULL);
    json_put_string(writer, "type", row->type);
    json_put_string(writer, "sandboxID", or_null(row->sandbox_id));
    json_put_string(writer, "role", link_role_word(row->role));
    json_put_string(writer, "socketPath", or_null(state->socket_path));
    put_positive(writer, "mtu", row->mtu);
    json_put_string(writer, "state", state->state);
    json_put_string(writer, "reason", or_null(state->reason));
    put_list(writer, "features", link_feature_names(state->features, &features), &features);
    json_put_unsigned(writer, "queuePairs", state->queue_pairs);
    put_positive(writer, "peerPID", state->peer_pid);
    json_put_unsigned(writer, "connections", state->connections);
    json_put_unsigned(writer, "faults", state->faults);
    render_counters(writer, &state->sent);
    json_begin_object(writer, "vmm");
    put_list(writer, "qemu", link_qemu_arguments(link, number, &qemu), &qemu);
    put_list(writer, "cloudHypervisor", link_cloud_hypervisor_arguments(link, number, &cloud_hypervisor),
             &cloud_hypervisor);
    json_end_object(writer);
    json_end_object(writer);
}

void render_link(struct json_writer *writer, const char *name, const struct link_view *link)
{
    const struct link_row *row = &link->row;
    json_begin_object(writer, name);
    json_put_string(writer, "linkID", row->id);
    json_put_string(writer, "state", state_word(row->state));
    json_begin_array(writer, "ends");
    for (unsigned i = 0; i < sizeof row->ends / sizeof row->ends[0]; i++)
        render_end(writer, link, i);
    json_end_array(writer);
    json_put_bool(writer, "paused", link->state.paused);
    if (link->state.known)
        json_put_unsigned(writer, "workerCPU", link->state.worker_cpu);
    else
        json_put_null(writer, "workerCPU");
    json_put_integer(writer, "revision", row->revision);
    json_put_time(writer, "createdAt", row->created_ms);
    json_put_time(writer, "updatedAt", row->updated_ms);
    json_end_object(writer);
}
