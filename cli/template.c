/* chanctl template */
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/output.h"
#include "cli/pages.h"
#include "cli/report.h"
#include "cli/request.h"
#include "cli/values.h"

static const struct option put_options[] = {
    {"ivshmem", 0, VALUE_NONE, NULL, "opt in: sandboxes of this template get a region", NULL},
    {"size", 0, VALUE_TEXT, "SIZE", "size of the region, a power of two such as 1M", NULL},
    {"layout", 0, VALUE_WORDS, "LAYOUT", "content of a new region", "chan raw"},
    {"on-rollback", 0, VALUE_WORDS, "WHAT", "what a rollback does to the content", "restore keep clear"},
    {"annotation", 0, VALUE_TEXT, "KEY=VALUE", "kept with the template; may be repeated", NULL},
    OPTION_IF_MATCH,
    {0},
};
static const struct option list_options[] = {
    {"limit", 0, VALUE_TEXT, "NUMBER", "list so many at most (default: all)", NULL},
    {0},
};
static const struct option delete_options[] = {OPTION_IF_MATCH, {0}};

static int add_annotations(const struct context *context, json_t *body, struct error *err)
{
    auto_json json_t *annotations = json_object();
    for (size_t i = 0; i < context->arguments.option_count; i++) {
        const struct given_option *given = &context->arguments.options[i];
        if (strcmp(given->option->name, "annotation") != 0)
            continue;
        const char *equals = strchr(given->value, '=');
        if (equals == NULL || equals == given->value)
            return error_set(err, REASON_INVALID_REQUEST, "--annotation: '%s' is not KEY=VALUE",
                             given->value);
        auto_free char *key = strndup(given->value, (size_t)(equals - given->value));
        if (key == NULL)
            return error_set(err, REASON_INTERNAL, "cannot hold the annotations: out of memory");
        if (request_set(annotations, key, json_string(equals + 1), err) != 0)
            return -1;
    }
    if (json_object_size(annotations) == 0)
        return 0;
    return request_set(body, "annotations", json_incref(annotations), err);
}

static int add_region(const struct context *context, json_t *body, struct error *err)
{
    auto_json json_t *region = json_object();
    const char *size = arguments_value(&context->arguments, "size");
    int64_t bytes = 0;
    if (size != NULL && (parse_size("--size", size, &bytes, err) != 0 ||
                         request_set(region, "sizeBytes", json_integer(bytes), err) != 0))
        return -1;
    if (request_text(context, "layout", region, "layout", err) != 0 ||
        request_text(context, "on-rollback", region, "onRollback", err) != 0)
        return -1;
    if (json_object_size(region) == 0)
        return 0;
    return request_set(body, "ivshmem", json_incref(region), err);
}

static char *make_body(const struct context *context, struct error *err)
{
    auto_json json_t *body = json_object();
    if (request_set(body, "enableIvshmem", json_boolean(arguments_has(&context->arguments, "ivshmem")),
                    err) != 0 ||
        add_region(context, body, err) != 0 || add_annotations(context, body, err) != 0)
        return NULL;
    return request_dump(body, err);
}

static int template_put(struct context *context)
{
    const char *id = request_id_argument(context);
    struct chan_call_options options = {0};
    struct error err = ERROR_INIT;
    auto_free char *body = NULL;
    if (request_options(context, &options, &err) == 0)
        body = make_body(context, &err);
    if (body == NULL)
        return request_usage(context, &err);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_template_put(context->client, id, body, &options, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot put template %s", id);
    return output_reply(context, &reply);
}

static int template_get(struct context *context)
{
    const char *id = request_id_argument(context);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_template_get(context->client, id, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot show template %s", id);
    return output_reply(context, &reply);
}

static int template_delete(struct context *context)
{
    return request_delete_all(context, "template", chan_client_template_delete);
}

static int fetch_templates(struct chan_client *client, const struct cursor *cursor, unsigned int limit,
                           struct chan_reply *reply)
{
    return chan_client_template_list(client, limit, cursor->token, reply);
}

static int print_templates(struct context *context, const json_t *templates)
{
    static const char *const headings[] = {"ID",          "IVSHMEM",  "SIZE", "LAYOUT",
                                           "ON-ROLLBACK", "REVISION", "AGE",  NULL};
    auto_table struct table table;
    table_init(&table, headings);
    int64_t now_ms = clock_real_ms();
    for (size_t i = 0; i < json_array_size(templates); i++) {
        const json_t *template = json_array_get(templates, i);
        const json_t *region = json_object_get(template, "ivshmem");
        char size[VALUE_TEXT_SIZE] = "-", age[VALUE_TEXT_SIZE];
        bool has_region = json_is_object(region);
        if (has_region)
            format_size(json_number(region, "sizeBytes"), size);
        json_age(template, "createdAt", now_ms, age);
        table_add(&table, "%s", json_text(template, "templateID"));
        table_add(&table, "%s", json_is_true(json_object_get(template, "enableIvshmem")) ? "yes" : "no");
        table_add(&table, "%s", size);
        table_add(&table, "%s", has_region ? json_text(region, "layout") : "-");
        table_add(&table, "%s", has_region ? json_text(region, "onRollback") : "-");
        table_add(&table, "%lld", (long long)json_number(template, "revision"));
        table_add(&table, "%s", age);
    }
    return output_table(context, &table);
}

static int template_list(struct context *context)
{
    static const struct page_source source = {"templates", fetch_templates, advance_token};
    const struct cursor start = {.token = ""};
    return pages_output(context, &source, &start, "templateID", print_templates);
}

static const struct command commands[] = {
    {"template", "put", "create", template_put, "ID", 1, 1, VALUE_TEMPLATE_ID, put_options, FORMATS_OBJECT,
     false, "Create a template, or replace it",
     "chanctl template put tpl-1 --ivshmem --size 1M --annotation team=blue"},
    {"template", "show", "get", template_get, "ID", 1, 1, VALUE_TEMPLATE_ID, NULL, FORMATS_OBJECT, false,
     "Show a template", NULL},
    {"template", "ls", "list", template_list, "", 0, 0, VALUE_NONE, list_options, FORMATS_LIST, false,
     "List templates", NULL},
    {"template", "rm", "delete", template_delete, "ID...", 1, SIZE_MAX, VALUE_TEMPLATE_ID, delete_options,
     FORMATS_OBJECT, false, "Delete templates that no sandbox uses", NULL},
};

const struct noun noun_template = {"template",
                                   "Templates: what sandboxes are made from, and the opt-in to a region",
                                   commands, sizeof commands / sizeof commands[0]};
