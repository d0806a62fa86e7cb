#include <stdlib.h>

#include "api/rest/decode.h"
#include "api/rest/handlers.h"
#include "api/rest/render.h"
#include "base/cleanup.h"

static int answer_link(struct answer *answer, int status, const struct link_view *link, struct error *err)
{
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    render_link(&writer, NULL, link);
    answer->revision = link->row.revision;
    return answer_json(answer, status, &writer, err);
}

int handle_link_put(const struct call *call, struct answer *answer, struct error *err)
{
    struct link_spec spec;
    struct link_end_spec ends[LINK_ENDS];
    struct link_view link;
    if (decode_link(call->body, &spec, ends, err) != 0 ||
        operations_link_put(call->operations, call->caller, call->id, &spec, &link, &answer->created, err) !=
            0)
        return -1;
    return answer_link(answer, answer->created ? 201 : 200, &link, err);
}

int handle_link_get(const struct call *call, struct answer *answer, struct error *err)
{
    struct link_view link;
    if (operations_link_get(call->operations, call->caller, call->id, &link, err) != 0)
        return -1;
    return answer_link(answer, 200, &link, err);
}

int handle_link_delete(const struct call *call, struct answer *answer, struct error *err)
{
    if (operations_link_delete(call->operations, call->caller, call->id, err) != 0)
        return -1;
    answer_nothing(answer);
    return 0;
}

int handle_link_list(const struct call *call, struct answer *answer, struct error *err)
{
    struct page_request page;
    const char *sandbox_id = target_parameter(call->target, "sandboxID");
    auto_free struct link_view *links = NULL;
    size_t count = 0;
    char next_token[PAGE_TOKEN_SIZE];
    if (read_page(call, &page, err) != 0 ||
        operations_link_list(call->operations, call->caller, &page, sandbox_id, &links, &count, next_token,
                             err) != 0)
        return -1;
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    json_begin_object(&writer, NULL);
    json_begin_array(&writer, "links");
    for (size_t i = 0; i < count; i++)
        render_link(&writer, NULL, &links[i]);
    json_end_array(&writer);
    render_page_end(&writer, next_token);
    json_end_object(&writer);
    return answer_json(answer, 200, &writer, err);
}
