#include <stdlib.h>

#include "api/rest/decode.h"
#include "api/rest/handlers.h"
#include "api/rest/render.h"
#include "base/cleanup.h"

static int answer_sandbox(struct answer *answer, int status, const struct sandbox_view *sandbox,
                          struct error *err)
{
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    render_sandbox(&writer, NULL, sandbox);
    answer->revision = sandbox->row.revision;
    return answer_json(answer, status, &writer, err);
}

int handle_sandbox_create(const struct call *call, struct answer *answer, struct error *err)
{
    struct sandbox_spec spec;
    struct sandbox_view sandbox;
    if (decode_sandbox(call->body, &spec, err) != 0 ||
        operations_sandbox_create(call->operations, call->caller, call->id, &spec, &sandbox, &answer->created,
                                  err) != 0)
        return -1;
    return answer_sandbox(answer, answer->created ? 201 : 200, &sandbox, err);
}

int handle_sandbox_get(const struct call *call, struct answer *answer, struct error *err)
{
    struct sandbox_view sandbox;
    if (operations_sandbox_get(call->operations, call->caller, call->id, &sandbox, err) != 0)
        return -1;
    return answer_sandbox(answer, 200, &sandbox, err);
}

int handle_sandbox_delete(const struct call *call, struct answer *answer, struct error *err)
{
    if (operations_sandbox_delete(call->operations, call->caller, call->id, err) != 0)
        return -1;
    answer_nothing(answer);
    return 0;
}

int handle_sandbox_list(const struct call *call, struct answer *answer, struct error *err)
{
    struct page_request page;
    auto_free struct sandbox_view *sandboxes = NULL;
    size_t count = 0;
    char next_token[PAGE_TOKEN_SIZE];
    if (read_page(call, &page, err) != 0 || operations_sandbox_list(call->operations, call->caller, &page,
                                                                    &sandboxes, &count, next_token, err) != 0)
        return -1;
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    json_begin_object(&writer, NULL);
    json_begin_array(&writer, "sandboxes");
    for (size_t i = 0; i < count; i++)
        render_sandbox(&writer, NULL, &sandboxes[i]);
    json_end_array(&writer);
    render_page_end(&writer, next_token);
    json_end_object(&writer);
    return answer_json(answer, 200, &writer, err);
}

int handle_sandbox_pause(const struct call *call, struct answer *answer, struct error *err)
{
    struct sandbox_view sandbox;
    if (decode_pause(call->body, err) != 0 ||
        operations_sandbox_pause(call->operations, call->caller, call->id, &sandbox, err) != 0)
        return -1;
    return answer_sandbox(answer, 200, &sandbox, err);
}

int handle_sandbox_resume(const struct call *call, struct answer *answer, struct error *err)
{
    struct owner_spec owner;
    struct sandbox_view sandbox;
    if (decode_resume(call->body, &owner, err) != 0 ||
        operations_sandbox_resume(call->operations, call->caller, call->id, &owner, &sandbox, err) != 0)
        return -1;
    return answer_sandbox(answer, 200, &sandbox, err);
}

int handle_sandbox_renew(const struct call *call, struct answer *answer, struct error *err)
{
    int64_t lease_seconds = 0;
    struct sandbox_view sandbox;
    if (decode_renew(call->body, &lease_seconds, err) != 0 ||
        operations_sandbox_renew(call->operations, call->caller, call->id, lease_seconds, &sandbox, err) != 0)
        return -1;
    return answer_sandbox(answer, 200, &sandbox, err);
}
