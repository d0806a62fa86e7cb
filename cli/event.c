/* chanctl event */
#include <inttypes.h>

#include "base/cleanup.h"
#include "cli/output.h"
#include "cli/pages.h"
#include "cli/report.h"
#include "cli/request.h"
#include "cli/values.h"

static const struct option list_options[] = {
    {"since", 0, VALUE_TEXT, "REVISION", "only what happened after this revision (default: all that is kept)",
     NULL},
    {"limit", 0, VALUE_TEXT, "NUMBER", "about so many at most; a revision is never cut in two (default: all)",
     NULL},
    {0},
};

static int fetch_events(struct chan_client *client, const struct cursor *cursor, unsigned int limit,
                        struct chan_reply *reply)
{
    return chan_client_event_list(client, cursor->since, limit, reply);
}

static int advance_revision(const json_t *page, struct cursor *cursor)
{
    int64_t last = json_number(page, "lastRevision");
    if (last >= json_number(page, "revision"))
        return 0;
    if (last <= cursor->since)
        return -1;
    cursor->since = last;
    return 1;
}

static int print_events(struct context *context, const json_t *events)
{
    static const char *const headings[] = {"REVISION", "TIME", "KIND", "OBJECT", "DETAIL", NULL};
    auto_table struct table table;
    table_init(&table, headings);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const json_t *detail = json_object_get(event, "detail");
        auto_free char *text = json_object_size(detail) > 0 ? json_dumps(detail, JSON_COMPACT) : NULL;
        table_add(&table, "%" PRId64, json_number(event, "revision"));
        table_add(&table, "%s", json_text(event, "time"));
        table_add(&table, "%s", json_text(event, "kind"));
        table_add(&table, "%s %s", json_text(event, "objectKind"), json_text(event, "objectID"));
        table_add(&table, "%s", text == NULL ? "-" : text);
    }
    return output_table(context, &table);
}

static int event_list(struct context *context)
{
    static const struct page_source source = {"events", fetch_events, advance_revision};
    struct cursor start = {.token = "", .since = -1}; /* from the oldest that is kept */
    struct error err = ERROR_INIT;
    const char *since = arguments_value(&context->arguments, "since");
    if (since != NULL && parse_number("--since", since, 0, INT64_MAX, &start.since, &err) != 0)
        return request_usage(context, &err);
    return pages_output(context, &source, &start, NULL, print_events);
}

static const struct command commands[] = {
    {"event", "ls", "list", event_list, "", 0, 0, VALUE_NONE, list_options, FORMATS_OBJECT, false,
     "List what happened, oldest first", "chanctl event ls --since 40 --limit 100"},
};

const struct noun noun_event = {"event", "Events: what happened to templates, sandboxes, regions and links",
                                commands, sizeof commands / sizeof commands[0]};
