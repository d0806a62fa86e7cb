/* chanctl link */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/link_body.h"
#include "cli/link_report.h"
#include "cli/link_stats.h"
#include "cli/output.h"
#include "cli/pages.h"
#include "cli/report.h"
#include "cli/request.h"
#include "cli/watch.h"

static const struct option create_options[] = {
    {"end", 0, VALUE_SANDBOX_ID, "END",
     "a sandbox, - for none, or sandbox=ID,role=server|client,socket=PATH,mtu=NUMBER (needed twice)", NULL},
    {"mtu", 0, VALUE_TEXT, "NUMBER", "MTU that both guests are offered, unless an end says otherwise", NULL},
    OPTION_IF_MATCH,
    {0},
};
static const struct option show_options[] = {
    {"end", 0, VALUE_WORDS, "NUMBER", "the end whose arguments or path -o shall print", "0 1"},
    OPTION_WATCH,
    OPTION_INTERVAL,
    {0},
};
static const struct option stats_options[] = {OPTION_WATCH, OPTION_INTERVAL, {0}};
static const struct option list_options[] = {
    {"sandbox", 0, VALUE_SANDBOX_ID, "ID", "only links with an end of this sandbox", NULL},
    {"limit", 0, VALUE_TEXT, "NUMBER", "list so many at most (default: all)", NULL},
    {0},
};
static const struct option delete_options[] = {OPTION_IF_MATCH, {0}};

static int output_link(struct context *context, const struct chan_reply *reply)
{
    if (context->format == FORMAT_JSON || context->format == FORMAT_YAML)
        return output_reply(context, reply);
    auto_json json_t *link = json_loadb(reply->body, reply->body_bytes, 0, NULL);
    if (link == NULL)
        return report_local("cannot hold the answer: out of memory");
    if (context->format == FORMAT_TABLE) {
        link_report(context->out, link, clock_real_ms());
        return EXIT_CODE_OK;
    }
    bool second = strcmp(arguments_value(&context->arguments, "end"), "1") == 0;
    return output_part(context, json_array_get(json_object_get(link, "ends"), second ? 1 : 0), "socketPath");
}

static int link_create(struct context *context)
{
    const char *id = request_id_argument(context);
    struct chan_call_options options = {0};
    struct error err = ERROR_INIT;
    auto_free char *body = NULL;
    if (request_options(context, &options, &err) == 0)
        body = link_body(&context->arguments, &err);
    if (body == NULL)
        return request_usage(context, &err);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_link_put(context->client, id, body, &options, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot create link %s", id);
    return output_link(context, &reply);
}

static int look_at_link(struct context *context, void *state)
{
    (void)state;
    const char *id = request_id_argument(context);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_link_get(context->client, id, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot show link %s", id);
    return output_link(context, &reply);
}

static int link_get(struct context *context)
{
    const char *end = arguments_value(&context->arguments, "end");
    struct error err = ERROR_INIT;
    if (end != NULL && strcmp(end, "0") != 0 && strcmp(end, "1") != 0)
        (void)error_set(&err, REASON_INVALID_REQUEST, "--end: '%s' is neither 0 nor 1", end);
    else if (end == NULL && (FORMATS_OBJECT & (1u << context->format)) == 0)
        (void)error_set(&err, REASON_INVALID_REQUEST, "%s is of one end: say --end 0 or --end 1",
                        format_word(context->format));
    if (err.reason != REASON_NONE)
        return request_usage(context, &err);
    return watch(context, look_at_link, NULL);
}

static int look_at_counters(struct context *context, void *state)
{
    const char *id = request_id_argument(context);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_link_get(context->client, id, &reply);
    int64_t now_ns = clock_monotonic_ns();
    if (result != 0)
        return report_call(context, result, &reply, "cannot show the counters of link %s", id);
    auto_json json_t *link = json_loadb(reply.body, reply.body_bytes, 0, NULL);
    if (link == NULL)
        return report_local("cannot hold the answer: out of memory");
    return link_stats_output(context, link, now_ns, state);
}

static int link_stats(struct context *context)
{
    struct link_stats stats = {.watching = arguments_has(&context->arguments, "watch")};
    return watch(context, look_at_counters, &stats);
}

static int link_delete(struct context *context)
{
    return request_delete_all(context, "link", chan_client_link_delete);
}

static int fetch_links(struct chan_client *client, const struct cursor *cursor, unsigned int limit,
                       struct chan_reply *reply)
{
    return chan_client_link_list(client, limit, cursor->token, cursor->sandbox_id, reply);
}

static int print_links(struct context *context, const json_t *links)
{
    static const char *const headings[] = {"ID",      "STATE", "END-0",    "STATE-0", "END-1",
                                           "STATE-1", "CPU",   "REVISION", "AGE",     NULL};
    auto_table struct table table;
    table_init(&table, headings);
    int64_t now_ms = clock_real_ms();
    for (size_t i = 0; i < json_array_size(links); i++) {
        const json_t *link = json_array_get(links, i);
        const json_t *cpu = json_object_get(link, "workerCPU");
        bool paused = json_is_true(json_object_get(link, "paused"));
        char age[48];
        json_age(link, "createdAt", now_ms, age);
        table_add(&table, "%s", json_text(link, "linkID"));
        table_add(&table, "%s%s", json_text(link, "state"), paused ? " (paused)" : "");
        for (size_t number = 0; number < 2; number++) {
            const json_t *end = json_array_get(json_object_get(link, "ends"), number);
            const char *sandbox = json_text(end, "sandboxID");
            table_add(&table, "%s", sandbox[0] == '\0' ? "-" : sandbox);
            table_add(&table, "%s", json_text(end, "state"));
        }
        if (json_is_integer(cpu))
            table_add(&table, "%" PRId64, (int64_t)json_integer_value(cpu));
        else
            table_add(&table, "-");
        table_add(&table, "%" PRId64, json_number(link, "revision"));
        table_add(&table, "%s", age);
    }
    return output_table(context, &table);
}

static int link_list(struct context *context)
{
    static const struct page_source source = {"links", fetch_links, advance_token};
    const struct cursor start = {.token = "", .sandbox_id = arguments_value(&context->arguments, "sandbox")};
    return pages_output(context, &source, &start, "linkID", print_links);
}

static const struct command commands[] = {
    {"link", "create", "put", link_create, "ID", 1, 1, VALUE_NONE, create_options, FORMATS_OBJECT, false,
     "Join the network cards of two VMs",
     "chanctl link create net-1 --end sb-1 --end "
     "sandbox=sb-2,role=client,socket=/run/vmm/net0.sock,mtu=9000"},
    {"link", "show", "get", link_get, "ID", 1, 1, VALUE_LINK_ID, show_options, FORMATS_REGION, false,
     "Show a link: its ends, their state and why, and what their VMMs need",
     "chanctl link show net-1 --end 0 -o qemu-args"},
    {"link", "ls", "list", link_list, "", 0, 0, VALUE_NONE, list_options, FORMATS_LIST, false, "List links",
     NULL},
    {"link", "stats", NULL, link_stats, "ID", 1, 1, VALUE_LINK_ID, stats_options, FORMATS_OBJECT, false,
     "Show what each end has sent", "chanctl link stats net-1 --watch --interval 5s"},
    {"link", "rm", "delete", link_delete, "ID...", 1, SIZE_MAX, VALUE_LINK_ID, delete_options, FORMATS_OBJECT,
     false, "Delete links", NULL},
};

const struct noun noun_link = {"link", "Links: cables between the network cards of two VMs", commands,
                               sizeof commands / sizeof commands[0]};
