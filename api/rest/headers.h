/* What single request headers mean. */
#ifndef CHAN_API_REST_HEADERS_H
#define CHAN_API_REST_HEADERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { REQUEST_ID_SIZE = 129 }; /* 128 characters and the terminating zero */

/* application/json, with charset=utf-8 or without. NULL is not. */
bool header_is_json(const char *content_type);

/* If-Match: "*" or one quoted revision. *ret gets the revision, IF_MATCH_ANY for "*". */
int header_if_match(const char *value, int64_t *ret, struct error *err);

/* Copies a good X-Request-ID (1 to 128 of [A-Za-z0-9._-]); otherwise, or when value is NULL, makes a random
 * one. */
void header_request_id(const char *value, char ret[REQUEST_ID_SIZE]);

#endif
