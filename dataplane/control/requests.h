/* Requests of the control protocol (api/proto/control.proto): one packet in, one packet out. Control thread.
 */
#ifndef CHAN_DATAPLANE_CONTROL_REQUESTS_H
#define CHAN_DATAPLANE_CONTROL_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "dataplane/control/link_table.h"

enum {
    CONTROL_VERSION = 1,
    CONTROL_PACKET_MAX = 65536, /* of a request and of a response */
    CONTROL_DESCRIPTORS_MAX = 2,
    CONTROL_CLIENT_NAME_SIZE = 64,
    CONTROL_INSTANCE_SIZE = 33
};

struct requests;

struct requests_config {
    struct link_table *table;
    const struct statistics_memory *statistics;
    const struct log *log;
    const char *software; /* "chan-dataplane 0.1.0" */
    char instance[CONTROL_INSTANCE_SIZE];
    const unsigned *cpus; /* of the workers */
    unsigned cpu_count;
    unsigned max_links;
};

/* What is known of who asks. */
struct requester {
    bool greeted; /* said hello, of our version */
    char name[CONTROL_CLIENT_NAME_SIZE];
};

struct request_packet {
    const uint8_t *bytes;
    size_t size;
    int descriptors[CONTROL_DESCRIPTORS_MAX]; /* taken over: those that are of no use are closed */
    unsigned descriptor_count;
    bool truncated; /* it was longer than CONTROL_PACKET_MAX */
};

struct response_packet {
    uint8_t *bytes; /* the receiver's, to be freed */
    size_t size;
    int descriptor;  /* goes along, and stays ours; -1: none */
    bool disconnect; /* who asks does not speak the protocol */
};

/* What the configuration points to stays the caller's and outlives it. */
int requests_new(const struct requests_config *config, struct requests **ret, struct error *err);
void requests_free(struct requests *requests); /* NULL is fine */

/* Does what the packet asks for. Fails only when there is no memory for a response. */
int requests_answer(struct requests *requests, struct requester *requester,
                    const struct request_packet *request, struct response_packet *ret, struct error *err);

#endif
