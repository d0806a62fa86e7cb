#include <stdlib.h>

#include "api/rest/decode.h"
#include "api/rest/handlers.h"
#include "api/rest/render.h"
#include "base/cleanup.h"

#define auto_template __attribute__((cleanup(template_row_clear)))

static int answer_template(struct answer *answer, int status, const struct template_row *row,
                           struct error *err)
{
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    render_template(&writer, NULL, row);
    answer->revision = row->revision;
    return answer_json(answer, status, &writer, err);
}

int handle_template_put(const struct call *call, struct answer *answer, struct error *err)
{
    struct template_spec spec;
    int decoded = decode_template(call->body, &spec, err);
    auto_free void *annotations = (void *)(uintptr_t)spec.annotations;
    auto_template struct template_row row = {.annotations = NULL};
    if (decoded != 0 || operations_template_put(call->operations, call->caller, call->id, &spec, &row,
                                                &answer->created, err) != 0)
        return -1;
    return answer_template(answer, answer->created ? 201 : 200, &row, err);
}

int handle_template_get(const struct call *call, struct answer *answer, struct error *err)
{
    auto_template struct template_row row = {.annotations = NULL};
    if (operations_template_get(call->operations, call->caller, call->id, &row, err) != 0)
        return -1;
    return answer_template(answer, 200, &row, err);
}

int handle_template_delete(const struct call *call, struct answer *answer, struct error *err)
{
    if (operations_template_delete(call->operations, call->caller, call->id, err) != 0)
        return -1;
    answer_nothing(answer);
    return 0;
}

int handle_template_list(const struct call *call, struct answer *answer, struct error *err)
{
    struct page_request page;
    struct template_row *rows = NULL;
    size_t count = 0;
    char next_token[PAGE_TOKEN_SIZE];
    if (read_page(call, &page, err) != 0 ||
        operations_template_list(call->operations, call->caller, &page, &rows, &count, next_token, err) != 0)
        return -1;
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    json_begin_object(&writer, NULL);
    json_begin_array(&writer, "templates");
    for (size_t i = 0; i < count; i++)
        render_template(&writer, NULL, &rows[i]);
    json_end_array(&writer);
    render_page_end(&writer, next_token);
    json_end_object(&writer);
    store_template_list_free(rows, count);
    return answer_json(answer, 200, &writer, err);
}
