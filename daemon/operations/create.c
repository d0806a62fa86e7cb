/* The creation of a sandbox.
 *
 * With a region: one unit of the store records the intent and takes the quota (state creating), then the file
 * is made, then a second unit records the file's identity (state running), then the staging name goes.
 * Whatever a crash leaves is therefore known: creating is undone at the next start, running is complete.
 * Without a region: one unit.
 *
 * The whole of it happens under the sandbox's lock, and every check that needs the store is part of the first
 * unit, so that a create costs two commits and the file, and nothing else; only the second commit waits for
 * the disk where regions do not outlive the host.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "daemon/operations/internal.h"

#define auto_template __attribute__((cleanup(template_row_clear)))

struct creation {
    struct operations *operations;
    const struct caller *caller;
    const char *who;
    struct store_actor intent; /* of the first unit */
    struct sandbox_row wanted; /* what the request asks for; the region's settings come from the template */
    struct sandbox_row row;    /* as written, or the one that exists */
    bool exists;
    bool unflushed;   /* the first unit is run by store_write_intent, */
    bool wants_flush; /* and turned out to be the whole creation */
};

static int check_sandbox(struct creation *creation, const struct sandbox_spec *spec, struct error *err)
{
    const struct operations *operations = creation->operations;
    struct sandbox_row *wanted = &creation->wanted;
    struct error fields = ERROR_INIT;
    struct error id_fault = ERROR_INIT;
    if (spec->template_id == NULL)
        (void)error_field(&fields, REASON_INVALID_FIELD, "templateID", "is required");
    else if (check_id(spec->template_id, "templateID", &id_fault) != 0)
        (void)error_field(&fields, REASON_INVALID_FIELD, "templateID", "%s", id_fault.detail);
    else
        memcpy(wanted->template_id, spec->template_id, strlen(spec->template_id) + 1);
    check_owner(&operations->config.limits, &spec->owner, &fields);
    check_file_owner(operations, creation->caller, spec, &wanted->uid, &wanted->gid, &fields);
    if (fields.reason != REASON_NONE)
        return error_hand_over(err, &fields);
    if (operations->uid != 0 && wanted->uid != operations->uid)
        return error_set(err, REASON_UID_NOT_PERMITTED,
                         "the daemon runs as uid %u and can only make files of that user, not of uid %u",
                         (unsigned int)operations->uid, (unsigned int)wanted->uid);
    return 0;
}

/* ---- an existing sandbox of that id ---- */

static void describe_owner(const struct owner_row *owner, char *out, size_t size)
{
    switch (owner->kind) {
    case OWNER_PID:
        (void)snprintf(out, size, "pid %d started at tick %llu", (int)owner->pid,
                       (unsigned long long)owner->start_time);
        break;
    case OWNER_LEASE:
        (void)snprintf(out, size, "a lease of %lld s", (long long)owner->lease_seconds);
        break;
    case OWNER_NONE:
        (void)snprintf(out, size, "none");
        break;
    }
}

/* Says where they differ, "" when they do not. */
static void describe_difference(const struct sandbox_row *existing, const struct sandbox_row *wanted,
                                char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    if (strcmp(existing->template_id, wanted->template_id) != 0)
        used += (size_t)snprintf(out, size, "; its templateID is %s, not %s", existing->template_id,
                                 wanted->template_id);
    if (used < size && !owner_same(&existing->owner, &wanted->owner)) {
        char old[64];
        char new[64];
        describe_owner(&existing->owner, old, sizeof old);
        describe_owner(&wanted->owner, new, sizeof new);
        used += (size_t)snprintf(out + used, size - used, "; its owner is %s, not %s", old, new);
    }
    if (used < size && existing->uid != wanted->uid)
        used += (size_t)snprintf(out + used, size - used, "; its uid is %u, not %u",
                                 (unsigned int)existing->uid, (unsigned int)wanted->uid);
    if (used < size && existing->gid != wanted->gid)
        (void)snprintf(out + used, size - used, "; its gid is %u, not %u", (unsigned int)existing->gid,
                       (unsigned int)wanted->gid);
}

/* The answer to a PUT of an id that is taken: the sandbox itself when it is what the request asks for. */
static int answer_existing(const struct creation *creation, struct error *err)
{
    const struct sandbox_row *row = &creation->row;
    switch (row->state) {
    case SANDBOX_CREATING:
    case SANDBOX_DELETING:
        return error_set(err, REASON_SANDBOX_BUSY, "sandbox %s is %s; try again shortly", row->id,
                         sandbox_state_word(row->state));
    case SANDBOX_ORPHANED:
        return error_set(err, REASON_SANDBOX_EXISTS,
                         "sandbox %s is still there, and its owner is gone (%s); DELETE it first", row->id,
                         row->reason);
    case SANDBOX_RUNNING:
    case SANDBOX_PAUSED:
    case SANDBOX_STATE_COUNT:
        break;
    }
    char difference[384];
    describe_difference(row, &creation->wanted, difference, sizeof difference);
    if (difference[0] != '\0')
        return error_set(err, REASON_SANDBOX_EXISTS, "sandbox %s exists%s", row->id, difference);
    return 0;
}

/* ---- quotas ---- */

static int check_quota(const char *whose, const char *what, uint64_t asked, uint64_t used, uint64_t allowed,
                       struct error *err)
{
    if (allowed == 0 || (used <= allowed && asked <= allowed - used))
        return 0;
    return error_set(err, REASON_QUOTA_EXCEEDED, "the %s quota of %s: asked %llu, used %llu, allowed %llu",
                     whose, what, (unsigned long long)asked, (unsigned long long)used,
                     (unsigned long long)allowed);
}

static int check_quotas(const struct operations_limits *limits, struct store_view *view, uid_t uid,
                        uint64_t bytes, struct error *err)
{
    struct usage_row used;
    /* The template may be older than the setting. */
    if (check_quota("host's", "bytes of one region", bytes, 0, limits->max_region_bytes, err) != 0)
        return -1;
    if (limits->node_regions != 0 || limits->node_bytes != 0) {
        if (store_usage_node(view, &used, err) != 0 ||
            check_quota("host's", "regions", 1, used.regions, limits->node_regions, err) != 0 ||
            check_quota("host's", "bytes", bytes, used.bytes, limits->node_bytes, err) != 0)
            return -1;
    }
    if (limits->uid_regions != 0 || limits->uid_bytes != 0) {
        char whose[32];
        (void)snprintf(whose, sizeof whose, "uid %u's", (unsigned int)uid);
        if (store_usage_uid(view, uid, &used, err) != 0 ||
            check_quota(whose, "regions", 1, used.regions, limits->uid_regions, err) != 0 ||
            check_quota(whose, "bytes", bytes, used.bytes, limits->uid_bytes, err) != 0)
            return -1;
    }
    return 0;
}

/* ---- the units ---- */

static void describe_created(const struct sandbox_row *row, char *out, size_t size)
{
    /* Ids need no escapes in JSON. */
    if (row->has_region)
        (void)snprintf(out, size, "{\"templateID\":\"%s\",\"sizeBytes\":%llu}", row->template_id,
                       (unsigned long long)row->region.settings.size_bytes);
    else
        (void)snprintf(out, size, "{\"templateID\":\"%s\"}", row->template_id);
}

enum { CREATED_DETAIL_SIZE = ID_SIZE + 64 };

/* Everything that must be true, and the intent; of a sandbox without a region the whole creation. */
static int write_intent(struct store_txn *txn, void *argument, struct error *err)
{
    struct creation *creation = argument;
    struct sandbox_row *row = &creation->row;
    struct store_view *view = store_txn_view(txn);
    const char *id = creation->wanted.id;
    int found = store_sandbox_get(view, id, row, err);
    if (found < 0)
        return -1;
    creation->exists = false;
    if (check_if_match(creation->caller, "sandbox", id, found > 0, row->revision, err) != 0)
        return -1;
    if (found > 0) {
        creation->exists = true;
        return error_set(err, REASON_SANDBOX_EXISTS, "sandbox %s exists", id);
    }
    *row = creation->wanted;
    auto_template struct template_row template = {.annotations = NULL};
    found = store_template_get(view, row->template_id, &template, err);
    if (found < 0)
        return -1;
    if (found == 0)
        return error_set(err, REASON_TEMPLATE_NOT_FOUND, "there is no template %s", row->template_id);
    row->has_region = template.enable_ivshmem;
    if (creation->unflushed && !row->has_region) {
        creation->wants_flush = true;
        return error_set(err, REASON_INTERNAL, "the creation of %s must be on disk", id);
    }
    row->state = row->has_region ? SANDBOX_CREATING : SANDBOX_RUNNING;
    /* The audit record is written after this function. */
    creation->intent.result = row->has_region ? "intent" : "ok";
    if (row->has_region) {
        row->region.settings = template.region;
        if (check_quotas(&creation->operations->config.limits, view, row->uid, template.region.size_bytes,
                         err) != 0)
            return -1;
    }
    char detail[CREATED_DETAIL_SIZE];
    describe_created(row, detail, sizeof detail);
    if (store_sandbox_insert(txn, row, err) != 0)
        return -1;
    return store_event_add(txn, row->has_region ? "sandbox.creating" : "sandbox.created", "sandbox", id,
                           detail, err);
}

static int write_ready(struct store_txn *txn, void *argument, struct error *err)
{
    struct creation *creation = argument;
    struct sandbox_row *row = &creation->row;
    row->state = SANDBOX_RUNNING;
    row->region.state = REGION_READY;
    char detail[CREATED_DETAIL_SIZE];
    describe_created(row, detail, sizeof detail);
    if (store_sandbox_update(txn, row, err) != 0)
        return -1;
    return store_event_add(txn, "sandbox.created", "sandbox", row->id, detail, err);
}

struct abandonment {
    const char *id;
    const char *reason;
};

static int write_abandoned(struct store_txn *txn, void *argument, struct error *err)
{
    const struct abandonment *abandonment = argument;
    char detail[96];
    (void)snprintf(detail, sizeof detail, "{\"reason\":\"%s\"}", abandonment->reason);
    if (store_sandbox_delete(txn, abandonment->id, err) != 0)
        return -1;
    return store_event_add(txn, "sandbox.create_failed", "sandbox", abandonment->id, detail, err);
}

/* Takes the intent back, so that nothing is left. Should that fail too, the row stays creating, and the
 * collector undoes it. `cause` is the error that is answered. */
static void abandon(struct creation *creation, struct error *cause)
{
    struct abandonment abandonment = {.id = creation->wanted.id, .reason = reason_info(cause->reason)->word};
    struct store_actor actor = make_actor(creation->caller, creation->who, OPERATION_SANDBOX_CREATE,
                                          abandonment.id, abandonment.reason);
    struct error failure = ERROR_INIT;
    if (fault_check("create.before_abort", &failure) != 0 ||
        store_write(creation->operations->config.store, &actor, write_abandoned, &abandonment, &failure) != 0)
        error_add_consequence(cause, "what was begun will be undone later", &failure);
}

/* Removes what there is of the file, then the row: it goes only after the file. */
static void give_up(struct creation *creation, struct error *cause)
{
    struct error failure = ERROR_INIT;
    if (region_remove_unfinished(creation->operations->config.regions, &creation->row.region, &failure) != 0)
        error_add_consequence(cause, "the file will be removed later", &failure);
    else
        abandon(creation, cause);
}

/* Makes the file and records it; or leaves no file and takes the intent back. */
static int make_region(struct creation *creation, struct error *err)
{
    struct regions *regions = creation->operations->config.regions;
    struct region_row *region = &creation->row.region;
    if (fault_check("create.after_intent", err) != 0 || region_create(regions, region, err) != 0) {
        give_up(creation, err);
        return -1;
    }
    struct store_actor actor =
        make_actor(creation->caller, creation->who, OPERATION_SANDBOX_CREATE, creation->wanted.id, "ok");
    if (fault_check("create.before_ready", err) == 0 &&
        store_write(creation->operations->config.store, &actor, write_ready, creation, err) == 0)
        return 0;
    give_up(creation, err);
    return -1;
}

/* The intent of a region that a power cut takes away need not be on disk before the file is made; the second
 * unit takes it there. Only the unit itself can tell whether there will be a region. */
static int run_first_unit(struct creation *creation, struct error *err)
{
    struct store *store = creation->operations->config.store;
    creation->unflushed = !regions_outlive_host(creation->operations->config.regions);
    if (creation->unflushed) {
        int result = store_write_intent(store, &creation->intent, write_intent, creation, err);
        if (!creation->wants_flush)
            return result;
        creation->unflushed = false;
    }
    return store_write(store, &creation->intent, write_intent, creation, err);
}

/* With the lock held: from the intent to the sandbox that runs. */
static int create(struct creation *creation, bool *created, struct error *err)
{
    struct operations *operations = creation->operations;
    struct sandbox_row *row = &creation->row;
    struct error failure = ERROR_INIT;
    creation->intent =
        make_actor(creation->caller, creation->who, OPERATION_SANDBOX_CREATE, creation->wanted.id, "intent");
    if (fault_check("create.before_intent", err) != 0)
        return -1;
    if (run_first_unit(creation, &failure) != 0) {
        if (!creation->exists)
            return error_hand_over(err, &failure);
        *created = false;
        return answer_existing(creation, err);
    }
    *created = true;
    if (row->has_region) {
        if (make_region(creation, &failure) != 0)
            return error_hand_over(err, &failure);
        /* The sandbox is on disk now, so the create has succeeded. A staging name that cannot be removed goes
         * with the sandbox, or at the next start. */
        (void)fault_point("create.after_ready");
        (void)region_unstage(operations->config.regions, &row->region, NULL);
        (void)fault_point("create.after_unstage");
    }
    reclaim_watch(operations->config.reclaim, row);
    return 0;
}

int operations_sandbox_create(struct operations *operations, const struct caller *caller, const char *id,
                              const struct sandbox_spec *spec, struct sandbox_view *ret, bool *created,
                              struct error *err)
{
    if (require_ready(operations, err) != 0 || check_id(id, "sandboxID", err) != 0)
        return -1;
    char who[WHO_SIZE];
    describe_caller(caller, who);
    struct creation creation = {.operations = operations, .caller = caller, .who = who};
    struct sandbox_row *wanted = &creation.wanted;
    memcpy(wanted->id, id, strlen(id) + 1);
    if (check_sandbox(&creation, spec, err) != 0 ||
        owner_take(operations, &spec->owner, &wanted->owner, err) != 0)
        return -1;
    struct region_row *region = &wanted->region;
    memcpy(region->sandbox_id, wanted->id, sizeof region->sandbox_id);
    region_name(operations->config.regions, id, region->name);
    region->epoch = 1;
    region->state = REGION_CREATING;
    region->uid = wanted->uid;
    region->gid = wanted->gid;
    if (region_make_token(region->staging_token, err) != 0)
        return -1;
    auto_sandbox_lock struct sandbox_lock lock = reclaim_lock(operations->config.reclaim, id);
    if (create(&creation, created, err) != 0)
        return -1;
    sandbox_view_fill(operations, &creation.row, ret);
    return 0;
}
