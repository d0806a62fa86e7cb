/* The lists of active and of sleeping tasks. */
#include <stdlib.h>

#include "dataplane/workers/internal.h"

bool tasks_reserve(struct worker *worker, unsigned capacity)
{
    if (capacity <= worker->capacity)
        return true;
    const unsigned wanted = capacity < 16 ? 16 : capacity * 2;
    struct task_list *const lists[] = {&worker->active, &worker->sleeping};
    for (unsigned i = 0; i < 2; i++) {
        struct worker_task **grown = realloc(lists[i]->tasks, wanted * sizeof *grown);
        if (grown == NULL)
            return false; /* the other list may have grown already, which does no harm */
        lists[i]->tasks = grown;
    }
    worker->capacity = wanted;
    return true;
}

static void list_add(struct task_list *list, struct worker_task *task)
{
    task->index = list->count;
    list->tasks[list->count++] = task;
}

static void list_remove(struct task_list *list, const struct worker_task *task)
{
    struct worker_task *last = list->tasks[--list->count];
    list->tasks[task->index] = last;
    last->index = task->index;
}

void task_take_out(struct worker *worker, struct worker_task *task)
{
    if (task->active) {
        list_remove(&worker->active, task);
        task->active = false;
        return;
    }
    list_remove(&worker->sleeping, task);
    if (task->deadline != 0)
        worker->timed--;
}

void task_activate(struct worker *worker, struct worker_task *task, int64_t now)
{
    if (task->active)
        return;
    task_take_out(worker, task);
    task->active = true;
    task->deadline = 0;
    task->last_work = now;
    list_add(&worker->active, task);
    task->wake(task);
}

void task_put_to_sleep(struct worker *worker, struct worker_task *task)
{
    task_take_out(worker, task);
    list_add(&worker->sleeping, task);
    if (task->deadline != 0)
        worker->timed++;
}

int64_t tasks_deadline(const struct worker *worker)
{
    int64_t earliest = 0;
    unsigned left = worker->timed;
    for (unsigned i = 0; left > 0 && i < worker->sleeping.count; i++) {
        const int64_t deadline = worker->sleeping.tasks[i]->deadline;
        if (deadline == 0)
            continue;
        left--;
        if (earliest == 0 || deadline < earliest)
            earliest = deadline;
    }
    return earliest;
}

void tasks_wake_due(struct worker *worker, int64_t now)
{
    if (worker->timed == 0)
        return;
    /* From the end, since waking one puts the last into its place. */
    for (unsigned i = worker->sleeping.count; i-- > 0;) {
        struct worker_task *task = worker->sleeping.tasks[i];
        if (task->deadline != 0 && task->deadline <= now)
            task_activate(worker, task, now);
    }
}
