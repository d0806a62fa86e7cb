/* Metrics of links: counters from the statistics memory, ends by state from the dataplane's list. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/links/internal.h"

enum { OWN_SAMPLES = 100 }; /* links with samples of their own */

static const char *const end_words[2] = {"0", "1"};

struct counted {
    char id[ID_SIZE];
    struct link_counters sent[2];
};

/* ---- counters ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct counted *)a)->id, ((const struct counted *)b)->id);
}

/* All slots that are in use, in the order of ids. NULL with count 0: none. */
static struct counted *read_all(const struct statistics *statistics, size_t *count)
{
    struct counted *all = statistics->slot_count > 0 ? malloc(statistics->slot_count * sizeof *all) : NULL;
    *count = 0;
    for (uint32_t slot = 0; all != NULL && slot < statistics->slot_count; slot++) {
        struct counted *next = &all[*count];
        if (statistics_id(statistics, slot, next->id) &&
            statistics_read(statistics, slot, next->id, next->sent))
            ++*count;
    }
    if (*count > 0)
        qsort(all, *count, sizeof *all, compare);
    return all;
}

static uint64_t drops_of(const struct link_counters *sent)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < STATISTICS_DROP_COUNT; i++)
        sum += sent->dropped[i];
    return sum;
}

enum { FRAMES, BYTES, DROPPED, FAMILIES };

struct exposition {
    struct metric_sample samples[FAMILIES][2 * (OWN_SAMPLES + 1)];
    size_t count; /* of each family */
    uint64_t others[FAMILIES][2];
    uint64_t dropped[STATISTICS_DROP_COUNT];
};

static void add_link(struct exposition *out, const char *id, uint64_t values[FAMILIES][2])
{
    for (size_t end = 0; end < 2; end++, out->count++)
        for (size_t family = 0; family < FAMILIES; family++) {
            struct metric_sample *sample = &out->samples[family][out->count];
            *sample = (struct metric_sample){.second = end_words[end], .value = values[family][end]};
            memcpy(sample->first, id, strlen(id) + 1);
        }
}

static void expose(struct exposition *out, const struct counted *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t values[FAMILIES][2];
        for (size_t end = 0; end < 2; end++) {
            const struct link_counters *sent = &all[i].sent[end];
            values[FRAMES][end] = sent->frames;
            values[BYTES][end] = sent->bytes;
            values[DROPPED][end] = drops_of(sent);
            for (size_t cause = 0; cause < STATISTICS_DROP_COUNT; cause++)
                out->dropped[cause] += sent->dropped[cause];
            for (size_t family = 0; family < FAMILIES && i >= OWN_SAMPLES; family++)
                out->others[family][end] += values[family][end];
        }
        if (i < OWN_SAMPLES)
            add_link(out, all[i].id, values);
    }
    if (count > OWN_SAMPLES)
        add_link(out, "(others)", out->others); /* no id has parentheses */
}

static void set_drops(struct metrics *metrics, const uint64_t dropped[STATISTICS_DROP_COUNT])
{
#define DROP(name, word, text) {.first = word},
    struct metric_sample samples[STATISTICS_DROP_COUNT] = {STATISTICS_DROPS(DROP)};
#undef DROP
    for (size_t cause = 0; cause < STATISTICS_DROP_COUNT; cause++)
        samples[cause].value = dropped[cause];
    metrics_set_samples(metrics, METRIC_DROPS, samples, STATISTICS_DROP_COUNT);
}

static void collect_counters(struct links *links)
{
    static const enum metric families[FAMILIES] = {
        [FRAMES] = METRIC_LINK_FRAMES, [BYTES] = METRIC_LINK_BYTES, [DROPPED] = METRIC_LINK_DROPS};
    auto_free struct exposition *out = calloc(1, sizeof *out);
    if (out == NULL)
        return;
    size_t count = 0;
    (void)pthread_mutex_lock(&links->lock);
    auto_free struct counted *all = read_all(&links->statistics, &count);
    (void)pthread_mutex_unlock(&links->lock);
    expose(out, all, count);
    for (size_t family = 0; family < FAMILIES; family++)
        metrics_set_samples(links->config.metrics, families[family], out->samples[family], out->count);
    set_drops(links->config.metrics, out->dropped);
}

/* ---- ends by state ---- */

enum { WAITING, CONNECTED, RUNNING, FAULTED, UNKNOWN, STATES };

static const char *const state_words[STATES] = {[WAITING] = "waiting",
                                                [CONNECTED] = "connected",
                                                [RUNNING] = "running",
                                                [FAULTED] = "faulted",
                                                [UNKNOWN] = "unknown"};

static size_t state_of(const char *word)
{
    size_t state = 0;
    while (state < UNKNOWN && strcmp(word, state_words[state]) != 0)
        state++;
    return state;
}

static void count_ends(struct links *links, int64_t deadline_ns, uint64_t counts[STATES])
{
    char after_id[ID_SIZE] = "";
    bool more = true;
    while (more) {
        auto_response control_response *response = NULL;
        if (links_list(links, after_id, NULL, deadline_ns, &response, NULL) != 0)
            return;
        const Chan__Control__V1__ListLinksReply *page = response->list_links;
        for (size_t i = 0; i < page->n_links; i++)
            for (size_t end = 0; end < page->links[i]->n_ends; end++)
                counts[state_of(page->links[i]->ends[end]->state)]++;
        more = page->more && page->n_links > 0 && strlen(page->links[page->n_links - 1]->id) < ID_SIZE;
        if (more)
            memcpy(after_id, page->links[page->n_links - 1]->id,
                   strlen(page->links[page->n_links - 1]->id) + 1);
    }
}

static uint64_t count_wanted(struct links *links)
{
    uint64_t counts[LINK_STATE_COUNT] = {0};
    auto_view struct store_view *view = NULL;
    if (store_read_begin(links->config.store, &view, NULL) == 0)
        (void)store_count_links(view, counts, NULL);
    return counts[LINK_READY];
}

void links_collect_metrics(struct links *links)
{
    if (links == NULL)
        return;
    const int64_t deadline_ns = clock_monotonic_ns() + LINKS_SCRAPE_MS * INT64_C(1000000);
    uint64_t counts[STATES] = {0};
    uint64_t known = 0;
    collect_counters(links);
    count_ends(links, deadline_ns, counts);
    for (size_t state = 0; state < STATES; state++)
        known += counts[state];
    const uint64_t wanted = 2 * count_wanted(links);
    if (wanted > known)
        counts[UNKNOWN] += wanted - known;
    for (size_t state = 0; state < STATES; state++)
        metrics_set_state(links->config.metrics, METRIC_LINK_ENDS, state_words[state], counts[state]);
}
