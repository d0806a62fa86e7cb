/* The socket of a vhost-user front-end, and the messages that starting two rings takes. */
#ifndef CHAN_BENCH_FRONTEND_CONNECTION_H
#define CHAN_BENCH_FRONTEND_CONNECTION_H

#include "tests/bench/cable/frontend/guest.h"
#include "tests/bench/cable/frontend/ring.h"

struct connection {
    int fd;
    uint64_t offered; /* features */
};

/* Connects, for at most ten seconds, and asks for the features. */
int connection_open(struct connection *connection, const char *path, struct error *err);
void connection_close(struct connection *connection);

/* Acknowledges features and makes the guest's memory known. Features that are not offered are an error. */
int connection_begin(struct connection *connection, const struct guest *guest, uint64_t features,
                     struct error *err);

/* Starts rings[i] as ring i and enables it; when it returns, the back-end has done so. */
int connection_start(struct connection *connection, struct ring *const *rings, unsigned count,
                     struct error *err);

#endif
