/* The control socket's server: accepts clients, reads their requests and sends the answers. A client that
 * does not read its answers, or does not speak the protocol, is disconnected; none can hold up another, or
 * the links. Control thread. */
#ifndef CHAN_DATAPLANE_CONTROL_SERVER_H
#define CHAN_DATAPLANE_CONTROL_SERVER_H

#include "dataplane/control/requests.h"

enum {
    CONTROL_CLIENTS_MAX = 16,
    CONTROL_ANSWERS_MAX = 32 /* that wait for a client to read them, beyond what its socket holds */
};

struct control_server;

/* listening: a SOCK_SEQPACKET unix socket that does not block; it and the rest stay the caller's. */
int control_server_new(int listening, struct control_loop *loop, struct requests *requests,
                       const struct log *log, struct control_server **ret, struct error *err);
/* Disconnects every client. NULL is fine. */
void control_server_free(struct control_server *server);

unsigned control_server_clients(const struct control_server *server);

#endif
