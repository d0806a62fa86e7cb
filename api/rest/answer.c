#include <stdlib.h>
#include <string.h>

#include "api/rest/call.h"

static const char problem_type[] = "application/problem+json";

void answer_clear(struct answer *answer)
{
    if (!answer->body_is_static)
        free(answer->body);
    *answer = ANSWER_INIT;
}

int answer_json(struct answer *answer, int status, struct json_writer *writer, struct error *err)
{
    if (json_writer_finish(writer, &answer->body, &answer->body_length, err) != 0)
        return -1;
    answer->status = status;
    answer->content_type = "application/json";
    return 0;
}

void answer_problem(struct answer *answer, const struct error *problem, const char *request_id)
{
    static char no_memory[] =
        "{\"type\":\"urn:chan:problem:resource_limit\",\"title\":\"The daemon is at a limit of the "
        "system\",\"status\":503,\"detail\":\"no memory for the answer\","
        "\"reason\":\"resource_limit\",\"requestID\":\"-\",\"errors\":[]}";
    const struct reason_info *info = reason_info(problem->reason);
    auto_json_writer struct json_writer writer = JSON_WRITER_INIT;
    char type[96] = "urn:chan:problem:";
    strncat(type, info->word, sizeof type - strlen(type) - 1);
    json_begin_object(&writer, NULL);
    json_put_string(&writer, "type", type);
    json_put_string(&writer, "title", info->title);
    json_put_integer(&writer, "status", info->http_status);
    json_put_string(&writer, "detail", problem->detail);
    json_put_string(&writer, "reason", info->word);
    json_put_string(&writer, "requestID", request_id);
    json_begin_array(&writer, "errors");
    for (size_t i = 0; i < problem->field_count; i++) {
        json_begin_object(&writer, NULL);
        json_put_string(&writer, "field", problem->fields[i].field);
        json_put_string(&writer, "detail", problem->fields[i].detail);
        json_end_object(&writer);
    }
    json_end_array(&writer);
    json_end_object(&writer);

    answer_clear(answer);
    if (answer_json(answer, info->http_status, &writer, NULL) != 0)
        *answer = (struct answer){.status = reason_info(REASON_RESOURCE_LIMIT)->http_status,
                                  .body = no_memory,
                                  .body_length = sizeof no_memory - 1,
                                  .body_is_static = true};
    answer->content_type = problem_type;
}
