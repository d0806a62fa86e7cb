/* What server.c and client.c share. */
#ifndef CHAN_DATAPLANE_CONTROL_INTERNAL_H
#define CHAN_DATAPLANE_CONTROL_INTERNAL_H

#include "dataplane/control/server.h"

struct control_client {
    struct loop_source source; /* first: the source is the client */
    struct control_server *server;
    struct requester requester;
    char pid[16], uid[16]; /* of the process at the other side, for the log */
    /* Answers that its socket did not take yet: a ring. */
    struct response_packet answers[CONTROL_ANSWERS_MAX];
    unsigned first, waiting;
    bool stuck; /* the loop is asked to say when the socket takes more */
};

struct control_server {
    struct loop_source source; /* first: the source is the server */
    struct loop_timer pause;
    struct control_loop *loop;
    struct requests *requests;
    const struct log *log;
    struct control_client *clients[CONTROL_CLIENTS_MAX];
    unsigned client_count;
    uint8_t packet[CONTROL_PACKET_MAX]; /* the one that is read */
};

/* The descriptor is taken over, on failure too. */
int control_client_new(struct control_server *server, int fd, struct control_client **ret, struct error *err);
void control_client_free(struct control_client *client);

/* server.c: forgets the client and frees it. */
void control_server_drop(struct control_server *server, struct control_client *client, const char *why);

#endif
