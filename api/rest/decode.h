/* Requests: from JSON to the structs of operations. Texts point into the JSON and live as long as it does.
 * Bad fields are collected in err; each returns 0 or -1. */
#ifndef CHAN_API_REST_DECODE_H
#define CHAN_API_REST_DECODE_H

#include <jansson.h>

#include "base/error.h"
#include "daemon/operations/operations.h"

enum { LINK_ENDS = 2 };

/* spec->annotations is malloc'ed, and the caller's to free, even after -1. */
int decode_template(const json_t *body, struct template_spec *spec, struct error *err);
int decode_sandbox(const json_t *body, struct sandbox_spec *spec, struct error *err);
/* spec->ends points to `ends`. */
int decode_link(const json_t *body, struct link_spec *spec, struct link_end_spec ends[LINK_ENDS],
                struct error *err);

/* The bodies of the actions; body may be NULL. */
int decode_pause(const json_t *body, struct error *err);
int decode_resume(const json_t *body, struct owner_spec *owner, struct error *err);
int decode_renew(const json_t *body, int64_t *lease_seconds, struct error *err); /* 0 when not given */

#endif
