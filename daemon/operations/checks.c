/* The rules for single fields of requests. */
#include <limits.h>
#include <string.h>

#include "chan/layout.h"
#include "daemon/operations/internal.h"

enum { REGION_MIN_BYTES = 4096 };

static bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static bool is_id_character(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

/* What is wrong with the id, or NULL. */
static const char *id_fault(const char *id)
{
    size_t length = strnlen(id, ID_SIZE);
    if (length == 0)
        return "it is empty";
    if (length > ID_SIZE - 1)
        return "it is longer than 128 characters";
    if (id[0] == '.' || id[0] == '-')
        return "it starts with a dot or a dash";
    if (strstr(id, "..") != NULL)
        return "it has two dots in a row";
    for (size_t i = 0; i < length; i++)
        if (!is_id_character(id[i]))
            return "it has a character other than A-Z a-z 0-9 . _ -";
    return NULL;
}

int check_id(const char *id, const char *kind, struct error *err)
{
    const char *fault = id_fault(id);
    if (fault == NULL)
        return 0;
    return error_set(err, REASON_INVALID_ID, "%s is not allowed: %s", kind, fault);
}

static void check_size(const struct operations_limits *limits, uint64_t size, enum region_layout layout,
                       struct error *fields)
{
    static const char field[] = "ivshmem.sizeBytes";
    unsigned long long shown = size;
    if (!is_power_of_two(size))
        (void)error_field(fields, REASON_INVALID_FIELD, field, "%llu is not a power of two", shown);
    else if (size < REGION_MIN_BYTES)
        (void)error_field(fields, REASON_INVALID_FIELD, field, "%llu is below the minimum of %d", shown,
                          REGION_MIN_BYTES);
    else if (size > limits->max_region_bytes)
        (void)error_field(fields, REASON_INVALID_FIELD, field, "%llu is above this host's maximum of %llu",
                          shown, (unsigned long long)limits->max_region_bytes);
    else if (layout == REGION_LAYOUT_CHAN && size < CHAN_LAYOUT_MIN_BYTES)
        (void)error_field(
            fields, REASON_INVALID_FIELD, field,
            "%llu is too small for the layout chan, which needs %u; use the layout raw or a larger "
            "size",
            shown, CHAN_LAYOUT_MIN_BYTES);
}

void check_region_settings(const struct operations_limits *limits, const struct template_spec *spec,
                           struct region_settings *ret, struct error *fields)
{
    *ret = (struct region_settings){.size_bytes =
                                        spec->has_size ? spec->size_bytes : limits->default_region_bytes,
                                    .layout = REGION_LAYOUT_CHAN,
                                    .on_rollback = ON_ROLLBACK_RESTORE};
    bool layout_known = true;
    if (spec->has_layout) {
        if (strcmp(spec->layout, region_layout_word(REGION_LAYOUT_RAW)) == 0)
            ret->layout = REGION_LAYOUT_RAW;
        else
            layout_known = strcmp(spec->layout, region_layout_word(REGION_LAYOUT_CHAN)) == 0;
    }
    /* What the size must be for a layout that is not known cannot be said. */
    check_size(limits, ret->size_bytes, layout_known ? ret->layout : REGION_LAYOUT_RAW, fields);
    if (!layout_known)
        (void)error_field(fields, REASON_INVALID_FIELD, "ivshmem.layout", "must be \"chan\" or \"raw\"");
    if (spec->has_on_rollback) {
        bool known = false;
        for (int value = ON_ROLLBACK_RESTORE; value <= ON_ROLLBACK_CLEAR && !known; value++) {
            known = strcmp(spec->on_rollback, on_rollback_word((enum on_rollback)value)) == 0;
            if (known)
                ret->on_rollback = (enum on_rollback)value;
        }
        if (!known)
            (void)error_field(fields, REASON_INVALID_FIELD, "ivshmem.onRollback",
                              "must be \"restore\", \"keep\" or \"clear\"");
    }
    if (spec->has_vectors && spec->vectors != 0)
        (void)error_field(fields, REASON_INVALID_FIELD, "ivshmem.vectors",
                          "must be 0: this release has no doorbells");
}

void check_lease_seconds(const struct operations_limits *limits, const char *field, int64_t lease_seconds,
                         struct error *fields)
{
    if (lease_seconds < 1 || lease_seconds > limits->max_lease_seconds)
        (void)error_field(fields, REASON_INVALID_FIELD, field, "must be 1 to %lld on this host",
                          (long long)limits->max_lease_seconds);
}

void check_owner(const struct operations_limits *limits, const struct owner_spec *owner, struct error *fields)
{
    if (owner->kind == OWNER_PID && (owner->pid < 1 || owner->pid > INT_MAX))
        (void)error_field(fields, REASON_INVALID_FIELD, "owner.pid", "must be 1 to %d", INT_MAX);
    if (owner->kind == OWNER_LEASE)
        check_lease_seconds(limits, "owner.leaseSeconds", owner->lease_seconds, fields);
}

/* (uid_t)-1 means "leave it" to chown, so it is nobody's id. */
static const uint64_t highest_user_id = UINT32_MAX - 1;

void check_file_owner(const struct operations *operations, const struct caller *caller,
                      const struct sandbox_spec *spec, uid_t *uid, gid_t *gid, struct error *fields)
{
    bool may_give_away = operations->uid == 0;
    *uid = may_give_away && caller->has_peer ? caller->uid : operations->uid;
    *gid = may_give_away && caller->has_peer ? caller->gid : operations->gid;
    if (spec->has_uid && spec->uid > highest_user_id)
        (void)error_field(fields, REASON_INVALID_FIELD, "uid", "must be 0 to %llu",
                          (unsigned long long)highest_user_id);
    else if (spec->has_uid)
        *uid = (uid_t)spec->uid;
    if (spec->has_gid && spec->gid > highest_user_id)
        (void)error_field(fields, REASON_INVALID_FIELD, "gid", "must be 0 to %llu",
                          (unsigned long long)highest_user_id);
    else if (spec->has_gid)
        *gid = (gid_t)spec->gid;
}
