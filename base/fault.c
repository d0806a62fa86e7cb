#include "base/fault.h"

#ifdef CHAN_FAULT_POINTS

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum fault_action { FAULT_NONE, FAULT_KILL, FAULT_STOP, FAULT_ERRNO };

/* Read once from the environment; the one place of process-wide state, and only in test builds. */
static struct {
    char name[64];
    enum fault_action action;
    int sys_errno;
    atomic_int countdown;
} armed;
static pthread_once_t armed_once = PTHREAD_ONCE_INIT;

static const char *const points[] = {
#define FAULT_POINT(name) name,
#include "base/fault_points.def"
#undef FAULT_POINT
};

static int errno_by_name(const char *name)
{
    static const struct {
        const char *name;
        int value;
    } known[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EMFILE", EMFILE}, {"ENOMEM", ENOMEM},
                 {"EACCES", EACCES}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].value;
    return 0;
}

static void arm(void)
{
    const char *spec = getenv("CHAN_FAULT");
    const char *equals = spec != NULL ? strchr(spec, '=') : NULL;
    if (equals == NULL || (size_t)(equals - spec) >= sizeof armed.name)
        return;
    memcpy(armed.name, spec, (size_t)(equals - spec));
    long count = 1;
    char *colon = strchr(armed.name, ':');
    if (colon != NULL) {
        *colon = '\0';
        count = strtol(colon + 1, NULL, 10);
    }
    bool known = false;
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        known = known || strcmp(points[i], armed.name) == 0;
    if (!known) {
        (void)fprintf(stderr, "CHAN_FAULT names no fault point: %s\n", armed.name);
        abort();
    }
    atomic_store(&armed.countdown, (int)count);
    if (strcmp(equals + 1, "kill") == 0)
        armed.action = FAULT_KILL;
    else if (strcmp(equals + 1, "stop") == 0)
        armed.action = FAULT_STOP;
    else if ((armed.sys_errno = errno_by_name(equals + 1)) != 0)
        armed.action = FAULT_ERRNO;
    else
        abort();
}

int fault_point(const char *name)
{
    (void)pthread_once(&armed_once, arm);
    if (armed.action == FAULT_NONE || strcmp(armed.name, name) != 0)
        return 0;
    if (atomic_fetch_sub(&armed.countdown, 1) != 1)
        return 0;
    switch (armed.action) {
    case FAULT_KILL:
        (void)raise(SIGKILL);
        break;
    case FAULT_STOP:
        (void)raise(SIGSTOP);
        break;
    case FAULT_ERRNO:
        return armed.sys_errno;
    case FAULT_NONE:
        break;
    }
    return 0;
}

void fault_list(FILE *out)
{
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        (void)fprintf(out, "%s\n", points[i]);
}

#endif
