/* Pause, resume and renew: each reads the sandbox under its lock, decides, and writes one unit, in which the
 * Idempotency-Key is recorded too. A request that changes nothing writes nothing, and its key is not
 * recorded: doing it again changes nothing either. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/operations/internal.h"

enum { IDEMPOTENCY_KEY_MAX = 128 };

struct change {
    struct operations *operations;
    const struct caller *caller;
    enum operation operation;
    const char *event;
    struct sandbox_row row;              /* as read, then as it shall be */
    const struct owner_spec *owner_spec; /* resume */
    /* resume: the owner was taken before anything else was done; whether that worked matters only when it is
     * needed, since a request that was done before is answered even if its process has ended by now. */
    struct owner_row owner;
    bool owner_taken;
    struct error owner_fault;
    int64_t lease_seconds; /* renew; 0 keeps the length */
    bool has_key;
    struct idempotency_row key;
};

/* Changes change->row. Returns 1 when it is to be written, 0 when it is as the request wants it already, -1
 * with err. */
typedef int (*decide_fn)(struct change *change, struct error *err);

/* ---- idempotency keys ---- */

/* `fields` is the part of the request beyond operation and object. */
static int set_key(struct change *change, const char *id, const char *fields, struct error *err)
{
    const char *key = change->caller->idempotency_key;
    if (key == NULL)
        return 0;
    size_t length = strnlen(key, IDEMPOTENCY_KEY_MAX + 1);
    bool printable = true;
    for (size_t i = 0; i < length; i++)
        printable = printable && key[i] >= ' ' && key[i] <= '~';
    if (length == 0 || length > IDEMPOTENCY_KEY_MAX || !printable)
        return error_set(err, REASON_INVALID_REQUEST,
                         "the Idempotency-Key must be 1 to %d printable ASCII characters",
                         IDEMPOTENCY_KEY_MAX);
    /* Keys of different users never meet. */
    if (change->caller->has_peer)
        (void)snprintf(change->key.key, sizeof change->key.key, "%u:%s", (unsigned int)change->caller->uid,
                       key);
    else
        (void)snprintf(change->key.key, sizeof change->key.key, "tcp:%s", key);
    (void)snprintf(change->key.request, sizeof change->key.request, "%s %s%s",
                   operation_word(change->operation), id, fields);
    change->key.created_ms = clock_real_ms();
    change->has_key = true;
    return 0;
}

/* 1 when the same request was done with this key, 0 when the key is new, -1 otherwise. */
static int look_up_key(const struct change *change, struct store_view *view, struct error *err)
{
    if (!change->has_key)
        return 0;
    struct idempotency_row known;
    int found = store_idempotency_get(view, change->key.key, &known, err);
    if (found > 0 && strcmp(known.request, change->key.request) != 0)
        return error_set(err, REASON_IDEMPOTENCY_MISMATCH,
                         "the Idempotency-Key was used for \"%s\", not for \"%s\"", known.request,
                         change->key.request);
    return found;
}

/* ---- the frame ---- */

/* Reads the sandbox; 1 when the request was done before, 0 when not, -1 with err. */
static int load(struct change *change, const char *id, struct error *err)
{
    auto_view struct store_view *view = NULL;
    if (store_read_begin(change->operations->config.store, &view, err) != 0)
        return -1;
    int done = look_up_key(change, view, err);
    if (done < 0)
        return -1;
    int found = store_sandbox_get(view, id, &change->row, err);
    if (found < 0)
        return -1;
    if (found == 0)
        return error_set(err, REASON_SANDBOX_NOT_FOUND, "there is no sandbox %s", id);
    if (done > 0)
        return 1;
    if (check_if_match(change->caller, "sandbox", id, true, change->row.revision, err) != 0)
        return -1;
    if (change->row.state == SANDBOX_CREATING || change->row.state == SANDBOX_DELETING)
        return error_set(err, REASON_SANDBOX_BUSY, "sandbox %s is %s", id,
                         sandbox_state_word(change->row.state));
    return 0;
}

static int write_change(struct store_txn *txn, void *argument, struct error *err)
{
    struct change *change = argument;
    struct sandbox_row *row = &change->row;
    /* Not found a moment ago; the lock of one sandbox does not keep the key from being used for another one.
     */
    int known = look_up_key(change, store_txn_view(txn), err);
    if (known < 0)
        return -1;
    if (change->has_key && known == 0 && store_idempotency_put(txn, &change->key, err) != 0)
        return -1;
    if (store_sandbox_update(txn, row, err) != 0)
        return -1;
    return store_event_add(txn, change->event, "sandbox", row->id, NULL, err);
}

static int run(struct change *change, const char *id, decide_fn decide, struct sandbox_view *ret,
               struct error *err)
{
    struct operations *operations = change->operations;
    auto_sandbox_lock struct sandbox_lock lock = reclaim_lock(operations->config.reclaim, id);
    int done = load(change, id, err);
    if (done < 0)
        return -1;
    int needed = done > 0 ? 0 : decide(change, err);
    if (needed < 0)
        return -1;
    if (needed > 0) {
        char who[WHO_SIZE];
        describe_caller(change->caller, who);
        struct store_actor actor = make_actor(change->caller, who, change->operation, id, "ok");
        if (store_write(operations->config.store, &actor, write_change, change, err) != 0)
            return -1;
        reclaim_unwatch(operations->config.reclaim, id);
        reclaim_watch(operations->config.reclaim, &change->row);
    }
    sandbox_view_fill(operations, &change->row, ret);
    return 0;
}

/* ---- what each decides ---- */

static void set_state(struct sandbox_row *row, enum sandbox_state state)
{
    row->state = state;
    row->reason[0] = '\0';
    row->orphaned_boot_ms = 0;
}

/* The region, if there is one, must be the one that was made. */
static int check_region(const struct change *change, struct error *err)
{
    static const char *const faults[] = {[REGION_IS_MISSING] = "its file is missing",
                                         [REGION_IS_FOREIGN] = "another file has taken its place",
                                         [REGION_IS_WRONG_SIZE] = "its file has another size"};
    const struct sandbox_row *row = &change->row;
    if (!row->has_region)
        return 0;
    if (row->region.state == REGION_LOST)
        return error_set(err, REASON_REGION_LOST, "the region of sandbox %s is lost (%s); delete the sandbox",
                         row->id, row->region.reason);
    enum region_condition condition = REGION_IS_MISSING;
    if (region_examine(change->operations->config.regions, &row->region, &condition, err) != 0)
        return -1;
    if (condition != REGION_IS_OURS)
        return error_set(err, REASON_REGION_LOST, "the region of sandbox %s is lost: %s; delete the sandbox",
                         row->id, faults[condition]);
    return 0;
}

static int decide_pause(struct change *change, struct error *err)
{
    if (change->row.state == SANDBOX_PAUSED)
        return 0;
    if (change->row.state == SANDBOX_ORPHANED && check_region(change, err) != 0)
        return -1;
    set_state(&change->row, SANDBOX_PAUSED);
    return 1;
}

/* Without a new owner, the recorded one must be there. */
static int keep_owner(struct change *change, struct error *err)
{
    struct owner_row *owner = &change->row.owner;
    const struct reclaim *reclaim = change->operations->config.reclaim;
    if (owner->kind == OWNER_LEASE) {
        owner_record_lease(owner->lease_seconds, reclaim_boot_id(reclaim), owner);
        return 0;
    }
    switch (owner_examine(owner, reclaim_boot_id(reclaim), reclaim_start_boot_ms(reclaim))) {
    case OWNER_ALIVE:
        break;
    case OWNER_ENDED:
        return error_set(err, REASON_OWNER_GONE,
                         "the owner of sandbox %s, process %d, has ended; resume it with a new owner",
                         change->row.id, (int)owner->pid);
    case OWNER_IN_DOUBT:
        return error_set(
            err, REASON_OWNER_UNKNOWN,
            "the owner of sandbox %s, process %d, cannot be examined; resume it with a new owner",
            change->row.id, (int)owner->pid);
    }
    return 0;
}

static int decide_resume(struct change *change, struct error *err)
{
    struct sandbox_row *row = &change->row;
    bool named = change->owner_spec->kind != OWNER_NONE;
    if (named && !change->owner_taken)
        return error_hand_over(err, &change->owner_fault);
    if (row->state == SANDBOX_RUNNING && (!named || owner_same(&row->owner, &change->owner)))
        return 0;
    if (check_region(change, err) != 0)
        return -1;
    if (named)
        row->owner = change->owner;
    else if (keep_owner(change, err) != 0)
        return -1;
    set_state(row, SANDBOX_RUNNING);
    return 1;
}

static int decide_renew(struct change *change, struct error *err)
{
    struct sandbox_row *row = &change->row;
    struct owner_row *owner = &row->owner;
    if (owner->kind != OWNER_LEASE)
        return error_set(err, REASON_NOT_LEASED, "sandbox %s has no lease to renew; %s", row->id,
                         owner->kind == OWNER_PID ? "its owner is a process" : "it has no owner");
    if (row->state == SANDBOX_ORPHANED) {
        if (check_region(change, err) != 0)
            return -1;
        set_state(row, SANDBOX_RUNNING);
    }
    owner_record_lease(change->lease_seconds > 0 ? change->lease_seconds : owner->lease_seconds,
                       reclaim_boot_id(change->operations->config.reclaim), owner);
    return 1;
}

/* ---- the calls ---- */

int operations_sandbox_pause(struct operations *operations, const struct caller *caller, const char *id,
                             struct sandbox_view *ret, struct error *err)
{
    struct change change = {.operations = operations,
                            .caller = caller,
                            .operation = OPERATION_SANDBOX_PAUSE,
                            .event = "sandbox.paused"};
    if (require_ready(operations, err) != 0 || check_id(id, "sandboxID", err) != 0 ||
        set_key(&change, id, "", err) != 0)
        return -1;
    return run(&change, id, decide_pause, ret, err);
}

int operations_sandbox_resume(struct operations *operations, const struct caller *caller, const char *id,
                              const struct owner_spec *owner, struct sandbox_view *ret, struct error *err)
{
    static const struct owner_spec no_owner = {.kind = OWNER_NONE};
    struct change change = {.operations = operations,
                            .caller = caller,
                            .operation = OPERATION_SANDBOX_RESUME,
                            .event = "sandbox.resumed",
                            .owner_spec = owner != NULL ? owner : &no_owner};
    owner = change.owner_spec;
    if (require_ready(operations, err) != 0 || check_id(id, "sandboxID", err) != 0)
        return -1;
    struct error failure = ERROR_INIT;
    check_owner(&operations->config.limits, owner, &failure);
    if (failure.reason != REASON_NONE)
        return error_hand_over(err, &failure);
    char fields[64] = "";
    if (owner->kind == OWNER_PID)
        (void)snprintf(fields, sizeof fields, " pid=%lld", (long long)owner->pid);
    else if (owner->kind == OWNER_LEASE)
        (void)snprintf(fields, sizeof fields, " leaseSeconds=%lld", (long long)owner->lease_seconds);
    if (set_key(&change, id, fields, err) != 0)
        return -1;
    change.owner_taken = owner_take(operations, owner, &change.owner, &change.owner_fault) == 0;
    return run(&change, id, decide_resume, ret, err);
}

int operations_sandbox_renew(struct operations *operations, const struct caller *caller, const char *id,
                             int64_t lease_seconds, struct sandbox_view *ret, struct error *err)
{
    struct change change = {.operations = operations,
                            .caller = caller,
                            .operation = OPERATION_SANDBOX_RENEW,
                            .event = "sandbox.renewed",
                            .lease_seconds = lease_seconds};
    if (require_ready(operations, err) != 0 || check_id(id, "sandboxID", err) != 0)
        return -1;
    struct error failure = ERROR_INIT;
    if (lease_seconds != 0)
        check_lease_seconds(&operations->config.limits, "leaseSeconds", lease_seconds, &failure);
    if (failure.reason != REASON_NONE)
        return error_hand_over(err, &failure);
    char fields[48];
    (void)snprintf(fields, sizeof fields, " leaseSeconds=%lld", (long long)lease_seconds);
    if (set_key(&change, id, fields, err) != 0)
        return -1;
    return run(&change, id, decide_renew, ret, err);
}
