/* Answers: from the structs of operations to JSON. The name is NULL inside an array and on top. */
#ifndef CHAN_API_REST_RENDER_H
#define CHAN_API_REST_RENDER_H

#include "api/rest/json_writer.h"
#include "daemon/operations/operations.h"

void render_template(struct json_writer *writer, const char *name, const struct template_row *row);
void render_sandbox(struct json_writer *writer, const char *name, const struct sandbox_view *sandbox);
void render_link(struct json_writer *writer, const char *name, const struct link_view *link);
void render_event(struct json_writer *writer, const char *name, const struct event_row *row);
/* A JSON array of the strings of a list that ends with NULL. */
void render_strings(struct json_writer *writer, const char *name, char *const *list);
void render_node(struct json_writer *writer, const char *name, const struct node_view *node);

#endif
