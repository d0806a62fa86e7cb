#include "api/rest/gate.h"

#include <errno.h>
#include <time.h>

int gate_init(struct gate *gate, struct error *err)
{
    *gate = (struct gate){.working = 0};
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed == 0) {
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        failed = pthread_cond_init(&gate->changed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
    if (failed != 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, failed, "cannot make a condition");
    failed = pthread_mutex_init(&gate->mutex, NULL);
    if (failed != 0) {
        (void)pthread_cond_destroy(&gate->changed);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, failed, "cannot make a mutex");
    }
    return 0;
}

void gate_destroy(struct gate *gate)
{
    (void)pthread_cond_destroy(&gate->changed);
    (void)pthread_mutex_destroy(&gate->mutex);
}

bool gate_enter(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    bool open = !gate->closed;
    if (open) {
        gate->working++;
        gate->under_way++;
    }
    (void)pthread_mutex_unlock(&gate->mutex);
    return open;
}

static void count_down(struct gate *gate, size_t *counter)
{
    (void)pthread_mutex_lock(&gate->mutex);
    (*counter)--;
    if (*counter == 0 && gate->draining)
        (void)pthread_cond_signal(&gate->changed);
    (void)pthread_mutex_unlock(&gate->mutex);
}

void gate_answered(struct gate *gate)
{
    count_down(gate, &gate->working);
}

void gate_leave(struct gate *gate)
{
    count_down(gate, &gate->under_way);
}

static bool read_flag(struct gate *gate, const bool *flag)
{
    (void)pthread_mutex_lock(&gate->mutex);
    bool value = *flag;
    (void)pthread_mutex_unlock(&gate->mutex);
    return value;
}

bool gate_is_draining(struct gate *gate)
{
    return read_flag(gate, &gate->draining);
}

bool gate_is_closed(struct gate *gate)
{
    return read_flag(gate, &gate->closed);
}

void gate_drain(struct gate *gate, unsigned int seconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    (void)pthread_mutex_lock(&gate->mutex);
    gate->draining = true;
    while (gate->under_way > 0 && pthread_cond_timedwait(&gate->changed, &gate->mutex, &until) != ETIMEDOUT) {
    }
    gate->closed = true;
    while (gate->working > 0)
        (void)pthread_cond_wait(&gate->changed, &gate->mutex);
    (void)pthread_mutex_unlock(&gate->mutex);
}
