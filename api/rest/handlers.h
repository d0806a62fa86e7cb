/* One handler for each route: decodes the call, runs the operation, renders the answer. Each returns 0 with
 * the answer filled in, or -1 with err. Any thread. */
#ifndef CHAN_API_REST_HANDLERS_H
#define CHAN_API_REST_HANDLERS_H

#include "api/rest/call.h"

typedef int (*route_handler)(const struct call *call, struct answer *answer, struct error *err);

int handle_template_put(const struct call *call, struct answer *answer, struct error *err);
int handle_template_get(const struct call *call, struct answer *answer, struct error *err);
int handle_template_delete(const struct call *call, struct answer *answer, struct error *err);
int handle_template_list(const struct call *call, struct answer *answer, struct error *err);

int handle_sandbox_create(const struct call *call, struct answer *answer, struct error *err);
int handle_sandbox_get(const struct call *call, struct answer *answer, struct error *err);
int handle_sandbox_delete(const struct call *call, struct answer *answer, struct error *err);
int handle_sandbox_list(const struct call *call, struct answer *answer, struct error *err);
int handle_sandbox_pause(const struct call *call, struct answer *answer, struct error *err);
int handle_sandbox_resume(const struct call *call, struct answer *answer, struct error *err);
int handle_sandbox_renew(const struct call *call, struct answer *answer, struct error *err);

int handle_link_put(const struct call *call, struct answer *answer, struct error *err);
int handle_link_get(const struct call *call, struct answer *answer, struct error *err);
int handle_link_delete(const struct call *call, struct answer *answer, struct error *err);
int handle_link_list(const struct call *call, struct answer *answer, struct error *err);

int handle_event_list(const struct call *call, struct answer *answer, struct error *err);
int handle_node_get(const struct call *call, struct answer *answer, struct error *err);

int handle_livez(const struct call *call, struct answer *answer, struct error *err);
int handle_readyz(const struct call *call, struct answer *answer, struct error *err);
int handle_metrics(const struct call *call, struct answer *answer, struct error *err);
int handle_openapi(const struct call *call, struct answer *answer, struct error *err);

/* limit and pageToken. */
int read_page(const struct call *call, struct page_request *ret, struct error *err);

/* The end of a list: nextPageToken is null after the last page. */
void render_page_end(struct json_writer *writer, const char *next_token);

/* 204. */
void answer_nothing(struct answer *answer);

#endif
