/* The one table of routes. */
#ifndef CHAN_API_REST_ROUTES_H
#define CHAN_API_REST_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "api/rest/handlers.h"
#include "api/rest/target.h"

enum route_body {
    BODY_IGNORED,  /* what comes is read and dropped */
    BODY_REQUIRED, /* a JSON object */
    BODY_OPTIONAL  /* a JSON object, or nothing */
};

struct route {
    const char *method;
    const char *pattern; /* "{id}" stands for one segment */
    enum operation operation;
    route_handler handle;
    enum route_body body;
    bool quick;                    /* touches memory only, so it needs no worker */
    const char *const *parameters; /* of the query, ends with NULL; NULL for none */
};

enum { ALLOW_SIZE = 64 };

struct route_match {
    const struct route *route; /* NULL: not found, or not with this method */
    const struct segment *id;  /* NULL where the pattern has none */
    char allow[ALLOW_SIZE];    /* the methods of this path, "" when there is no such path */
};

/* HEAD finds the route of GET. */
void route_find(const char *method, const struct target *target, struct route_match *ret);

#endif
