/* A call of an operation over HTTP: what the handlers of the routes get, and the answer they fill in. Nothing
 * here knows libmicrohttpd. */
#ifndef CHAN_API_REST_CALL_H
#define CHAN_API_REST_CALL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/rest/json_writer.h"
#include "api/rest/target.h"
#include "base/error.h"
#include "daemon/metrics.h"
#include "daemon/operations/operations.h"

struct call {
    struct operations *operations;
    struct metrics *metrics;
    const struct caller *caller;
    const struct target *target;
    const char *id;     /* from the path, decoded; NULL where the path has none */
    const json_t *body; /* an object, or NULL when there was none */
};

struct answer {
    int status;
    const char *content_type; /* a static string, or NULL without a body */
    char *body;               /* malloc'ed, unless body_is_static */
    size_t body_length;
    bool body_is_static;
    int64_t revision; /* the ETag; 0: none */
    bool created;     /* Location is the request's path */
};

#define ANSWER_INIT ((struct answer){.status = 0})

void answer_clear(struct answer *answer);

/* Takes over what was written as a JSON body. */
int answer_json(struct answer *answer, int status, struct json_writer *writer, struct error *err);

/* The error as application/problem+json. When even that has no memory, a short fixed text stands for it. */
void answer_problem(struct answer *answer, const struct error *problem, const char *request_id);

#endif
