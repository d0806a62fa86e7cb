/* The calls by name: paths and queries. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk-c/client/internal.h"

/* Percent-encodes all but the characters that stand for themselves everywhere. out has 3 * strlen(text) + 1
 * bytes. */
static void encode(const char *text, char *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (; *text != '\0'; text++) {
        if (strchr(plain, *text) != NULL)
            *out++ = *text;
        else
            out += sprintf(out, "%%%02X", (unsigned int)(unsigned char)*text);
    }
    *out = '\0';
}

/* `before` + the encoded text + `after`; NULL when out of memory. */
static char *make_path(const char *before, const char *text, const char *after)
{
    size_t size = strlen(before) + 3 * strlen(text) + strlen(after) + 1;
    char *path = malloc(size);
    if (path == NULL)
        return NULL;
    size_t used = strlen(before);
    memcpy(path, before, used);
    encode(text, path + used);
    used += strlen(path + used);
    memcpy(path + used, after, strlen(after) + 1);
    return path;
}

static int call_path(struct chan_client *client, const char *method, char *path, const char *json,
                     const struct chan_call_options *options, struct chan_reply *reply)
{
    if (path == NULL)
        return reply_fail(reply, -ENOMEM, "out of memory");
    const struct call call = {
        .method = method, .path = path, .body = json, .options = options, .expect_object = true};
    int result = client_perform(client, &call, reply);
    free(path);
    return result;
}

static int call_object(struct chan_client *client, const char *method, const char *collection, const char *id,
                       const char *action, const char *json, const struct chan_call_options *options,
                       struct chan_reply *reply)
{
    if (id == NULL || id[0] == '\0')
        return reply_fail(reply, -EINVAL, "the id is empty");
    return call_path(client, method, make_path(collection, id, action), json, options, reply);
}

/* Adds a parameter to the query of a malloc'ed path, which it takes over; an empty value adds nothing. NULL
 * when out of memory. */
static char *add_parameter(char *path, const char *name, const char *value)
{
    if (path == NULL || value == NULL || value[0] == '\0')
        return path;
    size_t size = strlen(path) + strlen(name) + sizeof "?=";
    char *before = malloc(size);
    char *longer = NULL;
    if (before != NULL) {
        (void)snprintf(before, size, "%s%c%s=", path, strchr(path, '?') == NULL ? '?' : '&', name);
        longer = make_path(before, value, "");
    }
    free(before);
    free(path);
    return longer;
}

/* sandbox_id may be NULL. */
static int call_list(struct chan_client *client, const char *collection, unsigned int limit,
                     const char *page_token, const char *sandbox_id, struct chan_reply *reply)
{
    char most[24] = "";
    if (limit != 0)
        (void)snprintf(most, sizeof most, "%u", limit);
    char *path = add_parameter(strdup(collection), "limit", most);
    path = add_parameter(path, "pageToken", page_token);
    path = add_parameter(path, "sandboxID", sandbox_id);
    return call_path(client, "GET", path, NULL, NULL, reply);
}

static const char *or_empty(const char *json)
{
    return json == NULL ? "{}" : json;
}

int chan_client_template_put(struct chan_client *client, const char *id, const char *json,
                             const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "PUT", "/v1/templates/", id, "", or_empty(json), options, reply);
}

int chan_client_template_get(struct chan_client *client, const char *id, struct chan_reply *reply)
{
    return call_object(client, "GET", "/v1/templates/", id, "", NULL, NULL, reply);
}

int chan_client_template_delete(struct chan_client *client, const char *id,
                                const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "DELETE", "/v1/templates/", id, "", NULL, options, reply);
}

int chan_client_sandbox_create(struct chan_client *client, const char *id, const char *json,
                               const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "PUT", "/v1/sandboxes/", id, "", or_empty(json), options, reply);
}

int chan_client_sandbox_get(struct chan_client *client, const char *id, struct chan_reply *reply)
{
    return call_object(client, "GET", "/v1/sandboxes/", id, "", NULL, NULL, reply);
}

int chan_client_sandbox_delete(struct chan_client *client, const char *id,
                               const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "DELETE", "/v1/sandboxes/", id, "", NULL, options, reply);
}

int chan_client_sandbox_pause(struct chan_client *client, const char *id,
                              const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "POST", "/v1/sandboxes/", id, "/pause", "{}", options, reply);
}

int chan_client_sandbox_resume(struct chan_client *client, const char *id, const char *json,
                               const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "POST", "/v1/sandboxes/", id, "/resume", or_empty(json), options, reply);
}

int chan_client_sandbox_renew(struct chan_client *client, const char *id, const char *json,
                              const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "POST", "/v1/sandboxes/", id, "/renew", or_empty(json), options, reply);
}

int chan_client_link_put(struct chan_client *client, const char *id, const char *json,
                         const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "PUT", "/v1/links/", id, "", or_empty(json), options, reply);
}

int chan_client_link_get(struct chan_client *client, const char *id, struct chan_reply *reply)
{
    return call_object(client, "GET", "/v1/links/", id, "", NULL, NULL, reply);
}

int chan_client_link_delete(struct chan_client *client, const char *id,
                            const struct chan_call_options *options, struct chan_reply *reply)
{
    return call_object(client, "DELETE", "/v1/links/", id, "", NULL, options, reply);
}

int chan_client_template_list(struct chan_client *client, unsigned int limit, const char *page_token,
                              struct chan_reply *reply)
{
    return call_list(client, "/v1/templates", limit, page_token, NULL, reply);
}

int chan_client_sandbox_list(struct chan_client *client, unsigned int limit, const char *page_token,
                             struct chan_reply *reply)
{
    return call_list(client, "/v1/sandboxes", limit, page_token, NULL, reply);
}

int chan_client_link_list(struct chan_client *client, unsigned int limit, const char *page_token,
                          const char *sandbox_id, struct chan_reply *reply)
{
    return call_list(client, "/v1/links", limit, page_token, sandbox_id, reply);
}

int chan_client_event_list(struct chan_client *client, int64_t since, unsigned int limit,
                           struct chan_reply *reply)
{
    char path[96];
    char from[32] = "";
    char most[24] = "";
    if (since >= 0)
        (void)snprintf(from, sizeof from, "since=%" PRId64, since);
    if (limit != 0)
        (void)snprintf(most, sizeof most, "%slimit=%u", from[0] != '\0' ? "&" : "", limit);
    (void)snprintf(path, sizeof path, "/v1/events%s%s%s", from[0] != '\0' || most[0] != '\0' ? "?" : "", from,
                   most);
    const struct call call = {.method = "GET", .path = path, .expect_object = true};
    return client_perform(client, &call, reply);
}

int chan_client_node_get(struct chan_client *client, struct chan_reply *reply)
{
    const struct call call = {.method = "GET", .path = "/v1/node", .expect_object = true};
    return client_perform(client, &call, reply);
}

int chan_client_ready(struct chan_client *client, struct chan_reply *reply)
{
    const struct call call = {.method = "GET", .path = "/readyz"};
    return client_perform(client, &call, reply);
}
