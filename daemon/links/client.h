/* A connection to chan-dataplane: one request, one response. For one thread at a time. */
#ifndef CHAN_DAEMON_LINKS_CLIENT_H
#define CHAN_DAEMON_LINKS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/proto/control.pb-c.h"
#include "base/error.h"

typedef Chan__Control__V1__Request control_request;
typedef Chan__Control__V1__Response control_response;
typedef Chan__Control__V1__LinkStatus control_link_status;
typedef Chan__Control__V1__EndStatus control_end_status;
typedef Chan__Control__V1__EndSpec control_end_spec;

enum { CLIENT_DESCRIPTORS_MAX = 2 };

struct client {
    int fd; /* -1: none */
    uint64_t last_id;
    uint8_t *packet; /* room for one that is received */
};

#define CLIENT_INIT ((struct client){.fd = -1})

/* 1: connected. 0: nobody listens there. -1: somebody does, and cannot be had. */
int client_connect(struct client *client, const char *path, struct error *err);
void client_close(struct client *client); /* CLIENT_INIT is fine */

/* Sends a request (its id is set here), with descriptors, and waits for the response until the deadline of
 * the monotonic clock. *ret: free with client_response_free. `received`: a descriptor that came along, or -1;
 * may be NULL. After a failure (REASON_DATAPLANE_UNAVAILABLE) the connection is of no more use. */
int client_call(struct client *client, control_request *request, const int *descriptors,
                size_t descriptor_count, int64_t deadline_ns, control_response **ret, int *received,
                struct error *err);
void client_response_free(control_response *response);
static inline void client_response_cleanup(control_response **response)
{
    client_response_free(*response);
}
#define auto_response __attribute__((cleanup(client_response_cleanup)))

#endif
