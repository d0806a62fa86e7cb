#include "cli/link_stats.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/link_report.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/values.h"

/* Per second. */
struct rates {
    bool known; /* false at the first look, and when the counters have started anew */
    double frames, bytes, dropped;
};

static struct link_sample sample_of(const json_t *end)
{
    const json_t *counters = json_object_get(end, "counters");
    return (struct link_sample){.frames = json_number(counters, "frames"),
                                .bytes = json_number(counters, "bytes"),
                                .dropped = link_dropped(counters)};
}

static struct rates rates_between(const struct link_sample *before, const struct link_sample *now,
                                  int64_t elapsed_ns)
{
    if (elapsed_ns <= 0 || now->frames < before->frames || now->bytes < before->bytes ||
        now->dropped < before->dropped)
        return (struct rates){.known = false};
    double seconds = (double)elapsed_ns / 1e9;
    return (struct rates){.known = true,
                          .frames = (double)(now->frames - before->frames) / seconds,
                          .bytes = (double)(now->bytes - before->bytes) / seconds,
                          .dropped = (double)(now->dropped - before->dropped) / seconds};
}

/* ---- JSON and YAML ---- */

static double to_tenths(double value)
{
    return (double)(int64_t)(value * 10 + 0.5) / 10; /* never negative */
}

static json_t *rates_json(const struct rates *rates)
{
    if (!rates->known)
        return json_null();
    return json_pack("{s:f,s:f,s:f}", "frames", to_tenths(rates->frames), "bytes", to_tenths(rates->bytes),
                     "dropped", to_tenths(rates->dropped));
}

static int output_objects(struct context *context, const json_t *link, const struct rates *rates)
{
    auto_json json_t *ends = json_array();
    for (size_t i = 0; i < LINK_STATS_ENDS; i++) {
        json_t *end = json_array_get(json_object_get(link, "ends"), i);
        /* json_pack takes the rates over, even when it fails. */
        json_t *shown = json_pack("{s:O?,s:O?,s:O?,s:o}", "sandboxID", json_object_get(end, "sandboxID"),
                                  "state", json_object_get(end, "state"), "counters",
                                  json_object_get(end, "counters"), "perSecond", rates_json(&rates[i]));
        if (json_array_append_new(ends, shown) != 0)
            return report_local("cannot hold the counters: out of memory");
    }
    auto_json json_t *value =
        json_pack("{s:O?,s:O}", "linkID", json_object_get(link, "linkID"), "ends", ends);
    if (value == NULL)
        return report_local("cannot hold the counters: out of memory");
    return output_json(context, value, NULL);
}

/* ---- the table ---- */

static void add_rate(struct table *table, bool known, double rate)
{
    char text[VALUE_TEXT_SIZE] = "-";
    if (known)
        format_rate(rate, text);
    table_add(table, "%s", text);
}

static void add_counter(struct table *table, const json_t *counters, const char *key)
{
    table_add(table, "%" PRId64, json_number(counters, key));
}

static void add_end(struct table *table, size_t number, const json_t *end, const struct rates *rates,
                    bool watching)
{
    const json_t *counters = json_object_get(end, "counters");
    const char *sandbox = json_text(end, "sandboxID");
    char bytes[VALUE_TEXT_SIZE];
    auto_free char *drops = link_drops(counters);
    format_size(json_number(counters, "bytes"), bytes);
    table_add(table, "%zu", number);
    table_add(table, "%s", sandbox[0] == '\0' ? "-" : sandbox);
    table_add(table, "%s", json_text(end, "state"));
    add_counter(table, counters, "frames");
    if (watching)
        add_rate(table, rates->known, rates->frames);
    table_add(table, "%s", bytes);
    if (watching)
        add_rate(table, rates->known, rates->bytes * 8);
    table_add(table, "%s", drops == NULL ? "?" : drops);
    if (watching)
        add_rate(table, rates->known, rates->dropped);
    else {
        add_counter(table, counters, "checksummed");
        add_counter(table, counters, "segmented");
        add_counter(table, counters, "segments");
    }
    add_counter(table, counters, "interrupts");
    add_counter(table, counters, "stalls");
}

static int output_rows(struct context *context, const json_t *link, const struct rates *rates, bool watching)
{
    static const char *const plain[] = {"END",      "SANDBOX",    "STATE",       "FRAMES",
                                        "BYTES",    "DROPPED",    "CHECKSUMMED", "SEGMENTED",
                                        "SEGMENTS", "INTERRUPTS", "STALLS",      NULL};
    static const char *const with_rates[] = {"END",   "SANDBOX", "STATE",   "FRAMES",     "FRAMES/S", "BYTES",
                                             "BIT/S", "DROPPED", "DROPS/S", "INTERRUPTS", "STALLS",   NULL};
    auto_table struct table table;
    table_init(&table, watching ? with_rates : plain);
    for (size_t i = 0; i < LINK_STATS_ENDS; i++)
        add_end(&table, i, json_array_get(json_object_get(link, "ends"), i), &rates[i], watching);
    return output_table(context, &table);
}

int link_stats_output(struct context *context, const json_t *link, int64_t now_ns, struct link_stats *stats)
{
    struct rates rates[LINK_STATS_ENDS] = {{.known = false}};
    if (json_array_size(json_object_get(link, "ends")) != LINK_STATS_ENDS)
        return report_local("chand's answer has not the two ends of a link");
    for (size_t i = 0; i < LINK_STATS_ENDS; i++) {
        struct link_sample now = sample_of(json_array_get(json_object_get(link, "ends"), i));
        if (stats->has_before)
            rates[i] = rates_between(&stats->before[i], &now, now_ns - stats->before_ns);
        stats->before[i] = now;
    }
    stats->has_before = true;
    stats->before_ns = now_ns;
    if (context->format == FORMAT_TABLE)
        return output_rows(context, link, rates, stats->watching);
    return output_objects(context, link, rates);
}
