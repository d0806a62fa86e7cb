/* Owners as requests name them. */
#include <string.h>

#include "daemon/operations/internal.h"

int owner_take(const struct operations *operations, const struct owner_spec *spec, struct owner_row *ret,
               struct error *err)
{
    const char *boot_id = reclaim_boot_id(operations->config.reclaim);
    *ret = (struct owner_row){.kind = OWNER_NONE};
    switch (spec->kind) {
    case OWNER_PID:
        return owner_record_process((pid_t)spec->pid, boot_id, ret, err);
    case OWNER_LEASE:
        owner_record_lease(spec->lease_seconds, boot_id, ret);
        return 0;
    case OWNER_NONE:
        break;
    }
    return 0;
}

bool owner_same(const struct owner_row *a, const struct owner_row *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case OWNER_PID:
        return a->pid == b->pid && a->start_time == b->start_time && strcmp(a->boot_id, b->boot_id) == 0;
    case OWNER_LEASE:
        return a->lease_seconds == b->lease_seconds;
    case OWNER_NONE:
        break;
    }
    return true;
}
