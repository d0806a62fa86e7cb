#include "dataplane/control/link_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { MTU_MIN = 68, MTU_MAX = 65535 };

struct link_table {
    struct link_table_config config;
    struct link_entry **entries; /* room for max_links */
    unsigned count;
};

int link_table_new(const struct link_table_config *config, struct link_table **ret, struct error *err)
{
    auto_free struct link_table *table = calloc(1, sizeof *table);
    if (table != NULL)
        table->entries = calloc(config->max_links, sizeof(struct link_entry *));
    if (table == NULL || table->entries == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making the table of links: out of memory");
    table->config = *config;
    *ret = take_pointer(table);
    return 0;
}

/* ---- finding ---- */

/* The first entry whose id is not less than the given one. */
static unsigned lower_bound(const struct link_table *table, const char *id)
{
    unsigned low = 0;
    unsigned high = table->count;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        if (strcmp(table->entries[middle]->specification.id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct link_table *table, unsigned index, const char *id)
{
    return index < table->count && strcmp(table->entries[index]->specification.id, id) == 0;
}

unsigned link_table_count(const struct link_table *table)
{
    return table->count;
}

struct link_entry *link_table_at(const struct link_table *table, unsigned index)
{
    return index < table->count ? table->entries[index] : NULL;
}

unsigned link_table_after(const struct link_table *table, const char *id)
{
    const unsigned index = lower_bound(table, id);
    return is_at(table, index, id) ? index + 1 : index;
}

unsigned link_table_find(const struct link_table *table, const char *id)
{
    const unsigned index = lower_bound(table, id);
    return is_at(table, index, id) ? index : table->count;
}

static struct link_entry *find(const struct link_table *table, const char *id, struct error *err)
{
    struct link_entry *entry = link_table_at(table, link_table_find(table, id));
    if (entry == NULL)
        (void)error_set(err, REASON_LINK_NOT_FOUND, "there is no link \"%.*s\"", LINK_ID_MAX, id);
    return entry;
}

/* ---- making ---- */

static bool is_alphanumeric(char character)
{
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9');
}

static int check_id(const char *id, struct error *err)
{
    bool good = is_alphanumeric(id[0]) || id[0] == '_';
    for (const char *at = id; good && *at != '\0'; at++)
        good = is_alphanumeric(*at) || strchr("._-", *at) != NULL;
    if (!good)
        return error_set(
            err, REASON_INVALID_REQUEST,
            "an id is of letters, digits, \".\", \"_\" and \"-\", and starts with none of \".-\"");
    return 0;
}

static int check_end(const struct end_specification *end, struct error *err)
{
    if (end->socket_path[0] == '\0')
        return error_set(err, REASON_INVALID_REQUEST, "it has no socket path");
    if (end->mtu != 0 && (end->mtu < MTU_MIN || end->mtu > MTU_MAX))
        return error_set(err, REASON_INVALID_REQUEST, "its mtu of %u is not within %d to %d", end->mtu,
                         MTU_MIN, MTU_MAX);
    return 0;
}

static int check(const struct link_specification *specification, struct error *err)
{
    if (check_id(specification->id, err) != 0)
        return -1;
    for (unsigned i = 0; i < 2; i++)
        if (check_end(&specification->ends[i], err) != 0)
            return error_wrap(err, "end %u: ", i);
    return 0;
}

static bool same_end(const struct end_specification *a, const struct end_specification *b)
{
    return strcmp(a->type, b->type) == 0 && a->role == b->role &&
           strcmp(a->socket_path, b->socket_path) == 0 && a->offloads_off == b->offloads_off &&
           a->mtu == b->mtu;
}

static struct worker *least_loaded(const struct link_table *table)
{
    struct worker *best = table->config.workers[0];
    for (unsigned i = 1; i < table->config.worker_count; i++)
        if (worker_task_count(table->config.workers[i]) < worker_task_count(best))
            best = table->config.workers[i];
    return best;
}

/* Both ends of the entry's link, or none. Takes the listeners over. */
static int make_ends(const struct link_table *table, const struct link_entry *entry, int listeners[2],
                     struct end *ends[2], struct error *err)
{
    for (unsigned i = 0; i < 2; i++) {
        if (table->config.make_end(&entry->specification.ends[i], take_fd(&listeners[i]), table->config.loop,
                                   link_task(entry->link), &ends[i], err) == 0)
            continue;
        if (i == 1)
            ends[0]->operations->destroy(ends[0]);
        return error_wrap(err, "end %u: ", i);
    }
    return 0;
}

static int open_link(const struct link_table *table, struct link_entry *entry, int listeners[2],
                     struct error *err)
{
    struct worker *worker = least_loaded(table);
    const struct link_config config = {.worker = worker,
                                       .slot = statistics_memory_slot(table->config.statistics, entry->slot),
                                       .patience_ns = table->config.patience_ns};
    struct end *ends[2] = {NULL, NULL};
    if (link_new(&config, &entry->link, err) != 0)
        return -1;
    entry->worker = worker;
    if (make_ends(table, entry, listeners, ends, err) != 0)
        goto close;
    if (link_open(entry->link, ends, err) == 0)
        return 0;
    ends[0]->operations->destroy(ends[0]);
    ends[1]->operations->destroy(ends[1]);
close:
    link_close(entry->link);
    return -1;
}

static void give_back_slot(const struct link_table *table, uint32_t slot)
{
    statistics_memory_withdraw(table->config.statistics, slot);
    statistics_memory_give_back(table->config.statistics, slot);
}

static int make_entry(const struct link_table *table, const struct link_specification *specification,
                      int listeners[2], struct link_entry **ret, struct error *err)
{
    auto_free struct link_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "out of memory");
    entry->specification = *specification;
    if (statistics_memory_take(table->config.statistics, specification->id, &entry->slot, err) != 0)
        return -1;
    if (open_link(table, entry, listeners, err) != 0) {
        give_back_slot(table, entry->slot);
        return -1;
    }
    *ret = take_pointer(entry);
    return 0;
}

static int find_or_make(struct link_table *table, const struct link_specification *specification,
                        int listeners[2], const struct link_entry **ret, bool *created, struct error *err)
{
    if (check(specification, err) != 0)
        return -1;
    const unsigned index = lower_bound(table, specification->id);
    *created = !is_at(table, index, specification->id);
    if (!*created) {
        const struct link_entry *there = table->entries[index];
        if (!same_end(&there->specification.ends[0], &specification->ends[0]) ||
            !same_end(&there->specification.ends[1], &specification->ends[1]))
            return error_set(err, REASON_LINK_EXISTS,
                             "there is a link of that id with another specification");
        *ret = there;
        return 0;
    }
    struct link_entry *entry = NULL;
    if (make_entry(table, specification, listeners, &entry, err) != 0)
        return -1;
    /* There is room: the statistics memory had a slot. */
    memmove(&table->entries[index + 1], &table->entries[index],
            (table->count - index) * sizeof table->entries[0]);
    table->entries[index] = entry;
    table->count++;
    *ret = entry;
    return 0;
}

int link_table_create(struct link_table *table, const struct link_specification *specification,
                      const int listeners[2], const struct link_entry **ret, bool *created, struct error *err)
{
    int left[2] = {listeners[0], listeners[1]};
    const int result = find_or_make(table, specification, left, ret, created, err);
    cleanup_close(&left[0]);
    cleanup_close(&left[1]);
    return result == 0 ? 0 : error_wrap(err, "link \"%s\": ", specification->id);
}

/* ---- changing ---- */

/* The slot's id goes first, so that a reader does not take what follows for the link's. */
static void free_entry(const struct link_table *table, struct link_entry *entry)
{
    statistics_memory_withdraw(table->config.statistics, entry->slot);
    link_close(entry->link);
    statistics_memory_give_back(table->config.statistics, entry->slot);
    free(entry);
}

int link_table_delete(struct link_table *table, const char *id, struct error *err)
{
    if (find(table, id, err) == NULL)
        return -1;
    const unsigned index = link_table_find(table, id);
    free_entry(table, table->entries[index]);
    table->count--;
    memmove(&table->entries[index], &table->entries[index + 1],
            (table->count - index) * sizeof table->entries[0]);
    return 0;
}

int link_table_pause(struct link_table *table, const char *id, bool paused, struct error *err)
{
    const struct link_entry *entry = find(table, id, err);
    if (entry == NULL)
        return -1;
    link_pause(entry->link, paused);
    return 0;
}

int link_table_set_offloads(struct link_table *table, const char *id, unsigned end, uint64_t offloads_off,
                            struct error *err)
{
    struct link_entry *entry = find(table, id, err);
    if (entry == NULL)
        return -1;
    if (end > 1)
        return error_set(err, REASON_INVALID_REQUEST, "link \"%s\" has ends 0 and 1, no end %u", id, end);
    struct end *of_link = link_end(entry->link, end);
    of_link->operations->set_offloads(of_link, offloads_off);
    entry->specification.ends[end].offloads_off = offloads_off;
    return 0;
}

void link_table_free(struct link_table *table)
{
    if (table == NULL)
        return;
    for (unsigned i = 0; i < table->count; i++)
        free_entry(table, table->entries[i]);
    free(table->entries);
    free(table);
}
