/* Counts the requests under way, so that a stop can let them end. A request enters when it is complete, is
 * answered when its operation is done, and leaves when its answer is sent or its client gone. */
#ifndef CHAN_API_REST_GATE_H
#define CHAN_API_REST_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t working;   /* entered, not answered */
    size_t under_way; /* entered, not left */
    bool draining, closed;
};

int gate_init(struct gate *gate, struct error *err);
void gate_destroy(struct gate *gate);

bool gate_enter(struct gate *gate); /* false once it is closed */
void gate_answered(struct gate *gate);
void gate_leave(struct gate *gate);
bool gate_is_draining(struct gate *gate);
bool gate_is_closed(struct gate *gate);

/* Lets requests under way end for at most so many seconds, then closes, and returns when no operation runs
 * any more. */
void gate_drain(struct gate *gate, unsigned int seconds);

#endif
