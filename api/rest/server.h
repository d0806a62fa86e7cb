/* What the files of the HTTP server share with each other and with nobody else. */
#ifndef CHAN_API_REST_SERVER_H
#define CHAN_API_REST_SERVER_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stddef.h>

#include "api/rest/connections.h"
#include "api/rest/gate.h"
#include "api/rest/listener.h"
#include "api/rest/rest.h"
#include "api/rest/workers.h"

enum { DAEMONS_MAX = 2 };

struct rest {
    struct rest_config config; /* its texts are the caller's and are used in rest_start only */
    struct connections *connections;
    struct workers *workers;
    struct gate gate;
    struct listener unix_listener;
    struct MHD_Daemon *daemons[DAEMONS_MAX]; /* one for each listening socket */
    size_t daemon_count;
    atomic_size_t large_bytes; /* held by large bodies and answers */
};

/* ---- the life of a request (request.c), called by libmicrohttpd's threads; argument is the rest ---- */

/* Makes the request as soon as its first line is there; NULL when out of memory. target may be NULL. */
void *request_new(void *argument, const char *target, struct MHD_Connection *http);

/* libmicrohttpd's access handler: is called with the headers, with each piece of the body, with its end, and
 * again once the answer is there. */
enum MHD_Result request_handle(void *argument, struct MHD_Connection *http, const char *url,
                               const char *method, const char *version, const char *data, size_t *data_length,
                               void **context);

/* The answer is sent, or the client gone. */
void request_completed(void *argument, struct MHD_Connection *http, void **context,
                       enum MHD_RequestTerminationCode how);

#endif
