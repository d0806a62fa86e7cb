/* Events, the node, health, metrics and the contract; and what the lists share. */
#include "api/rest/handlers.h"
#include "api/rest/openapi_yaml.h"
#include "api/rest/render.h"

int read_page(const struct call *call, struct page_request *ret, struct error *err)
{
    long long limit = 0;
    if (target_number(call->target, "limit", 1, &limit, err) != 0)
        return -1;
    *ret = (struct page_request){.limit = (size_t)limit,
                                 .page_token = target_parameter(call->target, "pageToken")};
    return 0;
}

void render_page_end(struct json_writer *writer, const char *next_token)
{
    json_put_string(writer, "nextPageToken", next_token[0] != '\0' ? next_token : NULL);
}

void answer_nothing(struct answer *answer)
{
    answer->status = 204;
}

int handle_event_list(const struct call *call, struct answer *answer, struct error *err)
{
    long long since = EVENTS_SINCE_OLDEST; /* when it is not given */
    long long limit = 0;
    struct event_row *rows = NULL;
    size_t count = 0;
    int64_t last = 0;
    int64_t newest = 0;
    if (target_number(call->target, "since", 0, &since, err) != 0 ||
        target_number(call->target, "limit", 1, &limit, err) != 0 ||
        operations_event_list(call->operations, call->caller, since, (size_t)limit, &rows, &count, &last,
                              &newest, err) != 0)
        return -1;
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    json_begin_object(&writer, NULL);
    json_begin_array(&writer, "events");
    for (size_t i = 0; i < count; i++)
        render_event(&writer, NULL, &rows[i]);
    json_end_array(&writer);
    json_put_integer(&writer, "lastRevision", last);
    json_put_integer(&writer, "revision", newest);
    json_end_object(&writer);
    store_event_list_free(rows, count);
    return answer_json(answer, 200, &writer, err);
}

int handle_node_get(const struct call *call, struct answer *answer, struct error *err)
{
    struct node_view node;
    if (operations_node_get(call->operations, call->caller, &node, err) != 0)
        return -1;
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    render_node(&writer, NULL, &node);
    return answer_json(answer, 200, &writer, err);
}

static int answer_status(struct answer *answer, int status, const char *word, struct error *err)
{
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    json_begin_object(&writer, NULL);
    json_put_string(&writer, "status", word);
    json_end_object(&writer);
    return answer_json(answer, status, &writer, err);
}

int handle_livez(const struct call *call, struct answer *answer, struct error *err)
{
    (void)call;
    return answer_status(answer, 200, "live", err);
}

int handle_readyz(const struct call *call, struct answer *answer, struct error *err)
{
    bool ready = operations_is_ready(call->operations);
    return answer_status(answer, ready ? 200 : 503, ready ? "ready" : "not_ready", err);
}

int handle_metrics(const struct call *call, struct answer *answer, struct error *err)
{
    /* A scrape before the daemon is ready is answered too: that is when one wants to look. */
    if (operations_collect_metrics(call->operations, err) != 0 ||
        metrics_render(call->metrics, &answer->body, &answer->body_length, err) != 0)
        return -1;
    answer->status = 200;
    answer->content_type = "text/plain; version=0.0.4; charset=utf-8";
    return 0;
}

int handle_openapi(const struct call *call, struct answer *answer, struct error *err)
{
    (void)call;
    (void)err;
    *answer = (struct answer){.status = 200,
                              .content_type = "application/yaml",
                              .body = (char *)(uintptr_t)openapi_yaml,
                              .body_length = openapi_yaml_length,
                              .body_is_static = true};
    return 0;
}
