#include "api/rest/routes.h"

#include <string.h>

static const char *const page_parameters[] = {"limit", "pageToken", NULL};
static const char *const link_parameters[] = {"limit", "pageToken", "sandboxID", NULL};
static const char *const event_parameters[] = {"since", "limit", NULL};

/* clang-format off */
static const struct route routes[] = {
    {"GET",    "/v1/templates",             OPERATION_TEMPLATE_LIST,   handle_template_list,   BODY_IGNORED,  false, page_parameters},
    {"GET",    "/v1/templates/{id}",        OPERATION_TEMPLATE_GET,    handle_template_get,    BODY_IGNORED,  false, NULL},
    {"PUT",    "/v1/templates/{id}",        OPERATION_TEMPLATE_PUT,    handle_template_put,    BODY_REQUIRED, false, NULL},
    {"DELETE", "/v1/templates/{id}",        OPERATION_TEMPLATE_DELETE, handle_template_delete, BODY_IGNORED,  false, NULL},
    {"GET",    "/v1/sandboxes",             OPERATION_SANDBOX_LIST,    handle_sandbox_list,    BODY_IGNORED,  false, page_parameters},
    {"GET",    "/v1/sandboxes/{id}",        OPERATION_SANDBOX_GET,     handle_sandbox_get,     BODY_IGNORED,  false, NULL},
    {"PUT",    "/v1/sandboxes/{id}",        OPERATION_SANDBOX_CREATE,  handle_sandbox_create,  BODY_REQUIRED, false, NULL},
    {"DELETE", "/v1/sandboxes/{id}",        OPERATION_SANDBOX_DELETE,  handle_sandbox_delete,  BODY_IGNORED,  false, NULL},
    {"POST",   "/v1/sandboxes/{id}/pause",  OPERATION_SANDBOX_PAUSE,   handle_sandbox_pause,   BODY_OPTIONAL, false, NULL},
    {"POST",   "/v1/sandboxes/{id}/resume", OPERATION_SANDBOX_RESUME,  handle_sandbox_resume,  BODY_OPTIONAL, false, NULL},
    {"POST",   "/v1/sandboxes/{id}/renew",  OPERATION_SANDBOX_RENEW,   handle_sandbox_renew,   BODY_OPTIONAL, false, NULL},
    {"GET",    "/v1/links",                 OPERATION_LINK_LIST,       handle_link_list,       BODY_IGNORED,  false, link_parameters},
    {"GET",    "/v1/links/{id}",            OPERATION_LINK_GET,        handle_link_get,        BODY_IGNORED,  false, NULL},
    {"PUT",    "/v1/links/{id}",            OPERATION_LINK_PUT,        handle_link_put,        BODY_REQUIRED, false, NULL},
    {"DELETE", "/v1/links/{id}",            OPERATION_LINK_DELETE,     handle_link_delete,     BODY_IGNORED,  false, NULL},
    {"GET",    "/v1/events",                OPERATION_EVENT_LIST,      handle_event_list,      BODY_IGNORED,  false, event_parameters},
    {"GET",    "/v1/node",                  OPERATION_NODE_GET,        handle_node_get,        BODY_IGNORED,  false, NULL},
    {"GET",    "/livez",                    OPERATION_LIVEZ,           handle_livez,           BODY_IGNORED,  true,  NULL},
    {"GET",    "/readyz",                   OPERATION_READYZ,          handle_readyz,          BODY_IGNORED,  true,  NULL},
    {"GET",    "/metrics",                  OPERATION_METRICS,         handle_metrics,         BODY_IGNORED,  false, NULL},
    {"GET",    "/openapi.yaml",             OPERATION_OPENAPI,         handle_openapi,         BODY_IGNORED,  true,  NULL},
};
/* clang-format on */

/* Compares pattern and path segment by segment; *id is set when the pattern has one. */
static bool matches(const char *pattern, const struct target *target, const struct segment **id)
{
    *id = NULL;
    const char *at = pattern + 1;
    for (size_t i = 0; i < target->segment_count; i++) {
        const struct segment *segment = &target->segments[i];
        size_t length = strcspn(at, "/");
        if (length == 4 && strncmp(at, "{id}", length) == 0) {
            if (segment->text[0] == '\0')
                return false;
            *id = segment;
        } else if (segment->malformed || strlen(segment->text) != length ||
                   strncmp(segment->text, at, length) != 0) {
            return false;
        }
        at += length;
        bool pattern_ends = *at == '\0';
        if (pattern_ends || i + 1 == target->segment_count)
            return pattern_ends && i + 1 == target->segment_count;
        at++;
    }
    return false;
}

static void add_method(char allow[ALLOW_SIZE], const char *method)
{
    if (allow[0] != '\0')
        strncat(allow, ", ", ALLOW_SIZE - strlen(allow) - 1);
    strncat(allow, method, ALLOW_SIZE - strlen(allow) - 1);
}

void route_find(const char *method, const struct target *target, struct route_match *ret)
{
    *ret = (struct route_match){.route = NULL};
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct segment *id = NULL;
        if (!matches(routes[i].pattern, target, &id))
            continue;
        add_method(ret->allow, routes[i].method);
        if (strcmp(routes[i].method, "GET") == 0)
            add_method(ret->allow, "HEAD");
        if (strcmp(routes[i].method, wanted) == 0) {
            ret->route = &routes[i];
            ret->id = id;
        }
    }
    if (ret->allow[0] != '\0')
        add_method(ret->allow, "OPTIONS");
}
