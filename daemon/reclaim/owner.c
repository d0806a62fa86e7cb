#include "daemon/reclaim/owner.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/proc_stat.h"
#include "daemon/reclaim/pidfd.h"

/* A process whose main thread has ended is a zombie in /proc too, but lives on in its other threads. */
static bool is_dead(const struct proc_stat *stat)
{
    return stat->state == 'X' || stat->state == 'x' || (stat->state == 'Z' && stat->threads <= 1);
}

static int owner_gone(struct error *err, pid_t pid, const char *what)
{
    return error_set(err, REASON_OWNER_GONE, "%s %ld", what, (long)pid);
}

static int no_pidfd(struct error *err, pid_t pid, int sys_errno)
{
    switch (sys_errno) {
    case ESRCH:
        return owner_gone(err, pid, "there is no process");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return error_set_errno(err, REASON_RESOURCE_LIMIT, sys_errno, "cannot look at process %ld",
                               (long)pid);
    case EINVAL:
    case ENOENT:
        return error_set(err, REASON_OWNER_UNKNOWN, "%ld is a thread, not a process", (long)pid);
    default:
        return error_set_errno(err, REASON_OWNER_UNKNOWN, sys_errno, "cannot look at process %ld", (long)pid);
    }
}

int owner_record_process(pid_t pid, const char *boot_id, struct owner_row *ret, struct error *err)
{
    if (pid <= 0)
        return owner_gone(err, pid, "there is no process");
    int opened = pidfd_open_process(pid);
    if (opened < 0)
        return no_pidfd(err, pid, -opened);
    auto_close int pidfd = opened;
    struct proc_stat stat;
    int failed = proc_stat_read(pid, &stat);
    /* If the process that the descriptor names is still there now, it had the pid all the while. */
    if (pidfd_has_ended(pidfd) || (failed == 0 && is_dead(&stat)))
        return owner_gone(err, pid, "the process has ended:");
    if (failed == -EMFILE || failed == -ENFILE || failed == -ENOMEM)
        return no_pidfd(err, pid, -failed);
    if (failed < 0)
        return error_set_errno(err, REASON_OWNER_UNKNOWN, -failed,
                               "cannot read the start time of process %ld", (long)pid);
    *ret = (struct owner_row){.kind = OWNER_PID, .pid = pid, .start_time = stat.start_ticks};
    memcpy(ret->boot_id, boot_id, sizeof ret->boot_id);
    return 0;
}

void owner_record_lease(int64_t lease_seconds, const char *boot_id, struct owner_row *ret)
{
    char boot[BOOT_ID_SIZE]; /* boot_id may be the row's own */
    memcpy(boot, boot_id, sizeof boot);
    *ret = (struct owner_row){.kind = OWNER_LEASE,
                              .lease_seconds = lease_seconds,
                              .lease_expires_boot_ms = clock_boot_ms() + lease_seconds * 1000};
    memcpy(ret->boot_id, boot, sizeof ret->boot_id);
}

static enum owner_condition examine_process(const struct owner_row *owner, const char *boot_id)
{
    if (strcmp(owner->boot_id, boot_id) != 0)
        return OWNER_ENDED;
    struct proc_stat stat;
    if (proc_stat_read(owner->pid, &stat) == 0)
        return stat.start_ticks != owner->start_time || is_dead(&stat) ? OWNER_ENDED : OWNER_ALIVE;
    /* /proc does not show it. A pid that nobody has is proof; one that somebody has is not, as /proc may hide
     * it. */
    if (kill(owner->pid, 0) < 0 && errno == ESRCH)
        return OWNER_ENDED;
    return OWNER_IN_DOUBT;
}

static enum owner_condition examine_lease(const struct owner_row *owner, const char *boot_id,
                                          int64_t daemon_start_boot_ms)
{
    int64_t now = clock_boot_ms();
    bool expired = strcmp(owner->boot_id, boot_id) != 0 || now >= owner->lease_expires_boot_ms;
    bool could_renew = now >= daemon_start_boot_ms + owner->lease_seconds * 1000;
    return expired && could_renew ? OWNER_ENDED : OWNER_ALIVE;
}

enum owner_condition owner_examine(const struct owner_row *owner, const char *boot_id,
                                   int64_t daemon_start_boot_ms)
{
    switch (owner->kind) {
    case OWNER_PID:
        return examine_process(owner, boot_id);
    case OWNER_LEASE:
        return examine_lease(owner, boot_id, daemon_start_boot_ms);
    case OWNER_NONE:
        break;
    }
    return OWNER_ALIVE;
}
