#include "api/rest/render.h"

void render_event(struct json_writer *writer, const char *name, const struct event_row *row)
{
    json_begin_object(writer, name);
    json_put_integer(writer, "revision", row->revision);
    json_put_time(writer, "time", row->time_ms);
    json_put_string(writer, "kind", row->kind);
    json_put_string(writer, "objectKind", row->object_kind);
    json_put_string(writer, "objectID", row->object_id);
    if (row->detail == NULL)
        json_put_null(writer, "detail");
    else
        json_put_raw(writer, "detail", row->detail);
    json_end_object(writer);
}
