/* chanctl sandbox */
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/output.h"
#include "cli/pages.h"
#include "cli/report.h"
#include "cli/request.h"
#include "cli/values.h"

#define OPTION_OWNER_PID                                                                                     \
    {                                                                                                        \
        "owner-pid", 0, VALUE_TEXT, "PID", "the sandbox lives as long as this process", NULL                 \
    }
#define OPTION_LEASE                                                                                         \
    {                                                                                                        \
        "lease", 0, VALUE_TEXT, "TIME", "the sandbox lives as long as it is renewed in time, such as 60s",   \
            NULL                                                                                             \
    }

static const struct option create_options[] = {
    {"template", 0, VALUE_TEMPLATE_ID, "ID", "the template to make it from (needed)", NULL},
    OPTION_OWNER_PID,
    OPTION_LEASE,
    {"uid", 0, VALUE_TEXT, "UID", "user that shall own the region's file", NULL},
    {"gid", 0, VALUE_TEXT, "GID", "group that shall own the region's file", NULL},
    OPTION_IF_MATCH,
    {0},
};
static const struct option list_options[] = {
    {"limit", 0, VALUE_TEXT, "NUMBER", "list so many at most (default: all)", NULL},
    {0},
};
static const struct option delete_options[] = {OPTION_IF_MATCH, {0}};
static const struct option pause_options[] = {OPTION_IF_MATCH, OPTION_IDEMPOTENCY_KEY, {0}};
static const struct option resume_options[] = {
    OPTION_OWNER_PID, OPTION_LEASE, OPTION_IF_MATCH, OPTION_IDEMPOTENCY_KEY, {0}};
static const struct option renew_options[] = {
    {"lease", 0, VALUE_TEXT, "TIME", "length of the lease from now on (default: as it was)", NULL},
    OPTION_IF_MATCH,
    OPTION_IDEMPOTENCY_KEY,
    {0}};

/* The forms of output that are a part of the region. A sandbox without one prints nothing, so that a script
 * can put the output into a VMM's command line in either case. */
static int output_region(struct context *context, const struct chan_reply *reply)
{
    auto_json json_t *sandbox = json_loadb(reply->body, reply->body_bytes, 0, NULL);
    const json_t *region = json_object_get(sandbox, "ivshmem");
    if (sandbox == NULL)
        return report_local("cannot hold the answer: out of memory");
    if (json_is_null(region)) {
        (void)fprintf(stderr,
                      "chanctl: sandbox %s has no region (its template does not opt in): nothing to add\n",
                      request_id_argument(context));
        return EXIT_CODE_OK;
    }
    return output_part(context, region, "path");
}

static int output_sandbox(struct context *context, const struct chan_reply *reply)
{
    switch (context->format) {
    case FORMAT_PATH:
    case FORMAT_QEMU_ARGS:
    case FORMAT_CLOUD_HYPERVISOR_ARGS:
        return output_region(context, reply);
    default:
        return output_reply(context, reply);
    }
}

static char *make_body(const struct context *context, struct error *err)
{
    auto_json json_t *body = json_object();
    if (arguments_value(&context->arguments, "template") == NULL) {
        (void)error_set(err, REASON_INVALID_REQUEST, "a sandbox needs --template ID");
        return NULL;
    }
    if (request_text(context, "template", body, "templateID", err) != 0 ||
        request_owner(context, body, err) != 0 ||
        request_number(context, "uid", UINT32_MAX, body, "uid", err) != 0 ||
        request_number(context, "gid", UINT32_MAX, body, "gid", err) != 0)
        return NULL;
    return request_dump(body, err);
}

static int sandbox_create(struct context *context)
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
    int result = chan_client_sandbox_create(context->client, id, body, &options, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot create sandbox %s", id);
    return output_sandbox(context, &reply);
}

static int sandbox_get(struct context *context)
{
    const char *id = request_id_argument(context);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_sandbox_get(context->client, id, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot show sandbox %s", id);
    return output_sandbox(context, &reply);
}

static int sandbox_delete(struct context *context)
{
    return request_delete_all(context, "sandbox", chan_client_sandbox_delete);
}

static int sandbox_pause(struct context *context)
{
    const char *id = request_id_argument(context);
    struct chan_call_options options = {0};
    struct error err = ERROR_INIT;
    if (request_options(context, &options, &err) != 0)
        return request_usage(context, &err);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_sandbox_pause(context->client, id, &options, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot pause sandbox %s", id);
    return output_sandbox(context, &reply);
}

static char *make_resume_body(const struct context *context, struct error *err)
{
    auto_json json_t *body = json_object();
    return request_owner(context, body, err) == 0 ? request_dump(body, err) : NULL;
}

static int sandbox_resume(struct context *context)
{
    const char *id = request_id_argument(context);
    struct chan_call_options options = {0};
    struct error err = ERROR_INIT;
    auto_free char *body = NULL;
    if (request_options(context, &options, &err) == 0)
        body = make_resume_body(context, &err);
    if (body == NULL)
        return request_usage(context, &err);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_sandbox_resume(context->client, id, body, &options, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot resume sandbox %s", id);
    return output_sandbox(context, &reply);
}

static char *make_renew_body(const struct context *context, struct error *err)
{
    auto_json json_t *body = json_object();
    const char *lease = arguments_value(&context->arguments, "lease");
    int64_t seconds = 0;
    if (lease != NULL && (parse_duration("--lease", lease, &seconds, err) != 0 ||
                          request_set(body, "leaseSeconds", json_integer(seconds), err) != 0))
        return NULL;
    return request_dump(body, err);
}

static int sandbox_renew(struct context *context)
{
    const char *id = request_id_argument(context);
    struct chan_call_options options = {0};
    struct error err = ERROR_INIT;
    auto_free char *body = NULL;
    if (request_options(context, &options, &err) == 0)
        body = make_renew_body(context, &err);
    if (body == NULL)
        return request_usage(context, &err);
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_sandbox_renew(context->client, id, body, &options, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot renew sandbox %s", id);
    return output_sandbox(context, &reply);
}

static int fetch_sandboxes(struct chan_client *client, const struct cursor *cursor, unsigned int limit,
                           struct chan_reply *reply)
{
    return chan_client_sandbox_list(client, limit, cursor->token, reply);
}

static void add_owner(struct table *table, const json_t *owner)
{
    const char *condition = json_text(owner, "condition");
    char text[96];
    if (!json_is_object(owner))
        (void)snprintf(text, sizeof text, "-");
    else if (json_object_get(owner, "pid") != NULL)
        (void)snprintf(text, sizeof text, "pid %" PRId64, json_number(owner, "pid"));
    else
        (void)snprintf(text, sizeof text, "lease, %" PRId64 "s left", json_number(owner, "remainingSeconds"));
    if (condition[0] == '\0' || strcmp(condition, "alive") == 0)
        table_add(table, "%s", text);
    else
        table_add(table, "%s (%s)", text, condition);
}

static void add_with_reason(struct table *table, const char *text, const char *reason)
{
    if (reason[0] == '\0')
        table_add(table, "%s", text);
    else
        table_add(table, "%s (%s)", text, reason);
}

static void add_region(struct table *table, const json_t *region)
{
    char size[VALUE_TEXT_SIZE];
    if (!json_is_object(region)) {
        table_add(table, "-");
        return;
    }
    format_size(json_number(region, "sizeBytes"), size);
    const char *state = json_text(region, "state");
    if (strcmp(state, "ready") == 0) {
        table_add(table, "%s", size);
        return;
    }
    char text[VALUE_TEXT_SIZE + 64];
    (void)snprintf(text, sizeof text, "%s %s", size, state);
    add_with_reason(table, text, json_text(region, "reason"));
}

static int print_sandboxes(struct context *context, const json_t *sandboxes)
{
    static const char *const headings[] = {"ID",    "TEMPLATE", "STATE", "OWNER", "REGION",
                                           "EPOCH", "REVISION", "AGE",   NULL};
    auto_table struct table table;
    table_init(&table, headings);
    int64_t now_ms = clock_real_ms();
    for (size_t i = 0; i < json_array_size(sandboxes); i++) {
        const json_t *sandbox = json_array_get(sandboxes, i);
        const json_t *region = json_object_get(sandbox, "ivshmem");
        char age[VALUE_TEXT_SIZE];
        json_age(sandbox, "createdAt", now_ms, age);
        table_add(&table, "%s", json_text(sandbox, "sandboxID"));
        table_add(&table, "%s", json_text(sandbox, "templateID"));
        add_with_reason(&table, json_text(sandbox, "state"), json_text(sandbox, "reason"));
        add_owner(&table, json_object_get(sandbox, "owner"));
        add_region(&table, region);
        if (json_is_object(region))
            table_add(&table, "%" PRId64, json_number(region, "epoch"));
        else
            table_add(&table, "-");
        table_add(&table, "%" PRId64, json_number(sandbox, "revision"));
        table_add(&table, "%s", age);
    }
    return output_table(context, &table);
}

static int sandbox_list(struct context *context)
{
    static const struct page_source source = {"sandboxes", fetch_sandboxes, advance_token};
    const struct cursor start = {.token = ""};
    return pages_output(context, &source, &start, "sandboxID", print_sandboxes);
}

static const struct command commands[] = {
    {"sandbox", "create", "put", sandbox_create, "ID", 1, 1, VALUE_NONE, create_options, FORMATS_REGION,
     false, "Create a sandbox, with a region if its template opts in",
     "chanctl sandbox create sb-1 --template tpl-1 --owner-pid $$ -o qemu-args"},
    {"sandbox", "show", "get", sandbox_get, "ID", 1, 1, VALUE_SANDBOX_ID, NULL, FORMATS_REGION, false,
     "Show a sandbox, or what its VMM needs", "chanctl sandbox show sb-1 -o cloud-hypervisor-args"},
    {"sandbox", "ls", "list", sandbox_list, "", 0, 0, VALUE_NONE, list_options, FORMATS_LIST, false,
     "List sandboxes", NULL},
    {"sandbox", "rm", "delete", sandbox_delete, "ID...", 1, SIZE_MAX, VALUE_SANDBOX_ID, delete_options,
     FORMATS_OBJECT, false, "Delete sandboxes and their regions", NULL},
    {"sandbox", "pause", NULL, sandbox_pause, "ID", 1, 1, VALUE_SANDBOX_ID, pause_options, FORMATS_OBJECT,
     false, "Pause a sandbox: its region stays, even if its owner ends", NULL},
    {"sandbox", "resume", NULL, sandbox_resume, "ID", 1, 1, VALUE_SANDBOX_ID, resume_options, FORMATS_REGION,
     false, "Resume a paused sandbox, with another owner if one is given",
     "chanctl sandbox resume sb-1 --owner-pid $$ -o qemu-args"},
    {"sandbox", "renew", NULL, sandbox_renew, "ID", 1, 1, VALUE_SANDBOX_ID, renew_options, FORMATS_OBJECT,
     false, "Renew a sandbox's lease", "chanctl sandbox renew sb-1 --lease 2m"},
};

const struct noun noun_sandbox = {"sandbox", "Sandboxes: the microVMs of this host, and their regions",
                                  commands, sizeof commands / sizeof commands[0]};
