/* A pool of threads that run jobs, and may block in them. */
#ifndef CHAN_API_REST_WORKERS_H
#define CHAN_API_REST_WORKERS_H

#include "base/error.h"

struct workers;

/* Part of what it works on; the pool never looks further. */
struct job {
    void (*run)(struct job *job);
    struct job *next;
};

int workers_new(unsigned int count, struct workers **ret, struct error *err);
/* Runs what is queued, then ends the threads. NULL is fine. */
void workers_free(struct workers *workers);

/* Any thread; never blocks. The pool does not touch the job once its run has begun. */
void workers_submit(struct workers *workers, struct job *job);

#endif
