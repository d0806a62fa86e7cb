#include "daemon/operations/operations.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "daemon/operations/internal.h"

const char *operation_word(enum operation operation)
{
    static const char *const words[OPERATION_COUNT] = {
#define OPERATION(name, word, changes) [OPERATION_##name] = word,
#include "daemon/operations/operations.def"
#undef OPERATION
    };
    return words[operation];
}

int operations_new(const struct operations_config *config, struct operations **ret, struct error *err)
{
    /* So that directory, slash and name always fit into a view's path. */
    const char *directory = regions_directory(config->regions);
    if (strlen(directory) + 1 + REGION_NAME_SIZE > sizeof((struct sandbox_view *)0)->path)
        return error_set(err, REASON_INVALID_REQUEST,
                         "the path of the shared-memory directory is too long: %s", directory);
    struct operations *operations = calloc(1, sizeof *operations);
    if (operations == NULL)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot start the operations");
    operations->config = *config;
    operations->state_directory = strdup(config->state_directory);
    if (operations->state_directory == NULL) {
        free(operations);
        return error_set_errno(err, REASON_RESOURCE_LIMIT, ENOMEM, "cannot start the operations");
    }
    operations->config.state_directory = operations->state_directory;
    atomic_init(&operations->ready, false);
    operations->started_ms = clock_real_ms();
    operations->uid = geteuid();
    operations->gid = getegid();
    *ret = operations;
    return 0;
}

void operations_free(struct operations *operations)
{
    if (operations == NULL)
        return;
    free(operations->state_directory);
    free(operations);
}

void operations_set_ready(struct operations *operations, bool ready)
{
    atomic_store(&operations->ready, ready);
}

bool operations_is_ready(const struct operations *operations)
{
    return atomic_load(&operations->ready);
}

int require_ready(const struct operations *operations, struct error *err)
{
    if (operations_is_ready(operations))
        return 0;
    return error_set(err, REASON_NOT_READY,
                     "the daemon is repairing its state after a start; try again shortly");
}

int error_hand_over(struct error *to, const struct error *from)
{
    if (to != NULL)
        *to = *from;
    return -1;
}

int fault_check(const char *name, struct error *err)
{
    int fault = fault_point(name);
    if (fault == 0)
        return 0;
    enum reason reason = REASON_INTERNAL;
    if (fault == ENOSPC || fault == EDQUOT)
        reason = REASON_NO_SPACE;
    else if (fault == EMFILE || fault == ENFILE || fault == ENOMEM)
        reason = REASON_RESOURCE_LIMIT;
    return error_set_errno(err, reason, fault, "the step %s failed", name);
}

void error_add_consequence(struct error *err, const char *what, const struct error *failure)
{
    size_t used = strlen(err->detail);
    (void)snprintf(err->detail + used, sizeof err->detail - used, "; %s: %s", what, failure->detail);
}

void describe_caller(const struct caller *caller, char who[WHO_SIZE])
{
    if (caller->has_peer)
        (void)snprintf(who, WHO_SIZE, "uid=%u pid=%d", (unsigned int)caller->uid, (int)caller->pid);
    else
        (void)snprintf(who, WHO_SIZE, "tcp");
}

struct store_actor make_actor(const struct caller *caller, const char who[WHO_SIZE], enum operation operation,
                              const char *object_id, const char *result)
{
    return (struct store_actor){.who = who,
                                .request_id = caller->request_id,
                                .operation = operation_word(operation),
                                .object_id = object_id,
                                .result = result};
}

int check_if_match(const struct caller *caller, const char *kind, const char *id, bool found,
                   int64_t revision, struct error *err)
{
    if (!caller->has_if_match)
        return 0;
    if (!found)
        return error_set(err, REASON_REVISION_STALE, "%s %s does not exist, so If-Match cannot hold", kind,
                         id);
    if (caller->if_match != IF_MATCH_ANY && revision != caller->if_match)
        return error_set(err, REASON_REVISION_STALE, "%s %s is at revision %lld, not at %lld; read it again",
                         kind, id, (long long)revision, (long long)caller->if_match);
    return 0;
}
