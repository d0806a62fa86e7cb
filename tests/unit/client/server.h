/* A server for one test: answers requests on a unix socket with what the test wants, right or wrong. */
#ifndef CHAN_TESTS_UNIT_CLIENT_SERVER_H
#define CHAN_TESTS_UNIT_CLIENT_SERVER_H

#include <stddef.h>

struct server;

/* What the server does with one request, in turn; the last one stays. */
struct answer {
    const char *bytes; /* sent as they are; NULL: none */
    size_t repeat;     /* sends `filler` so many times behind them */
    const char *filler;
    int close;  /* ends the connection then */
    int silent; /* says nothing and keeps the connection open */
};

/* Starts answering. Ends the test program when that cannot be done. */
struct server *server_start(const struct answer *answers, size_t count);
void server_stop(struct server *server);

const char *server_path(const struct server *server);

/* The last request as it came; how many requests and connections there were. Call them after the client's
 * call. */
const char *server_request(const struct server *server);
int server_requests(const struct server *server);
int server_connections(const struct server *server);

#endif
