#include "api/rest/workers.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* Each worker waits on a condition of its own, and the one that became idle last is woken first: a lone
 * client is always served by the same thread, whose stack and caches are warm. */
struct worker {
    struct workers *pool;
    pthread_t thread;
    pthread_cond_t wake;
    struct job *job; /* handed to it while it was idle */
    struct worker *next_idle;
};

struct workers {
    pthread_mutex_t mutex;
    struct job *first, *last; /* the queue; not empty only while nobody is idle */
    struct worker *idle;
    bool stopping;
    unsigned int started;
    struct worker members[];
};

/* The next job, or NULL when it is time to end. */
static struct job *next_job(struct worker *worker)
{
    struct workers *pool = worker->pool;
    struct job *job = pool->first;
    if (job != NULL) {
        pool->first = job->next;
        return job;
    }
    worker->next_idle = pool->idle;
    pool->idle = worker;
    while (worker->job == NULL && !pool->stopping)
        (void)pthread_cond_wait(&worker->wake, &pool->mutex);
    job = worker->job;
    worker->job = NULL;
    return job;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct workers *pool = worker->pool;
    for (;;) {
        (void)pthread_mutex_lock(&pool->mutex);
        struct job *job = next_job(worker);
        (void)pthread_mutex_unlock(&pool->mutex);
        if (job == NULL)
            return NULL;
        job->run(job);
    }
}

static int start_worker(struct workers *pool)
{
    struct worker *worker = &pool->members[pool->started];
    worker->pool = pool;
    int failed = pthread_cond_init(&worker->wake, NULL);
    if (failed != 0)
        return failed;
    failed = pthread_create(&worker->thread, NULL, work, worker);
    if (failed != 0)
        (void)pthread_cond_destroy(&worker->wake);
    return failed;
}

int workers_new(unsigned int count, struct workers **ret, struct error *err)
{
    struct workers *pool = calloc(1, sizeof *pool + count * sizeof pool->members[0]);
    if (pool == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "no memory for %u workers", count);
    int failed = pthread_mutex_init(&pool->mutex, NULL);
    if (failed != 0) {
        free(pool);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, failed, "cannot make a mutex");
    }
    for (; pool->started < count; pool->started++) {
        failed = start_worker(pool);
        if (failed != 0) {
            workers_free(pool);
            return error_set_errno(err, REASON_RESOURCE_LIMIT, failed, "cannot start %u workers", count);
        }
    }
    *ret = pool;
    return 0;
}

void workers_free(struct workers *workers)
{
    if (workers == NULL)
        return;
    (void)pthread_mutex_lock(&workers->mutex);
    workers->stopping = true;
    for (unsigned int i = 0; i < workers->started; i++)
        (void)pthread_cond_signal(&workers->members[i].wake);
    (void)pthread_mutex_unlock(&workers->mutex);
    for (unsigned int i = 0; i < workers->started; i++) {
        (void)pthread_join(workers->members[i].thread, NULL);
        (void)pthread_cond_destroy(&workers->members[i].wake);
    }
    (void)pthread_mutex_destroy(&workers->mutex);
    free(workers);
}

void workers_submit(struct workers *workers, struct job *job)
{
    (void)pthread_mutex_lock(&workers->mutex);
    struct worker *worker = workers->idle;
    if (worker != NULL) {
        workers->idle = worker->next_idle;
        worker->job = job;
    } else {
        job->next = NULL;
        if (workers->first == NULL)
            workers->first = job;
        else
            workers->last->next = job;
        workers->last = job;
    }
    (void)pthread_mutex_unlock(&workers->mutex);
    if (worker != NULL)
        (void)pthread_cond_signal(&worker->wake);
}
