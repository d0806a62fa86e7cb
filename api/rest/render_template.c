#include "api/rest/render.h"

void render_template(struct json_writer *writer, const char *name, const struct template_row *row)
{
    json_begin_object(writer, name);
    json_put_string(writer, "templateID", row->id);
    json_put_bool(writer, "enableIvshmem", row->enable_ivshmem);
    if (row->enable_ivshmem) {
        json_begin_object(writer, "ivshmem");
        json_put_unsigned(writer, "sizeBytes", row->region.size_bytes);
        json_put_string(writer, "layout", region_layout_word(row->region.layout));
        json_put_string(writer, "onRollback", on_rollback_word(row->region.on_rollback));
        json_put_unsigned(writer, "vectors", row->region.vectors);
        json_end_object(writer);
    } else {
        json_put_null(writer, "ivshmem");
    }
    json_put_raw(writer, "annotations", row->annotations);
    json_put_integer(writer, "revision", row->revision);
    json_put_time(writer, "createdAt", row->created_ms);
    json_put_time(writer, "updatedAt", row->updated_ms);
    json_end_object(writer);
}
