#include "api/rest/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/rest/fields.h"

static int result_of(const struct error *collected, struct error *err)
{
    if (collected->reason == REASON_NONE)
        return 0;
    if (err != NULL)
        *err = *collected;
    return -1;
}

/* Annotations are free in their names, but each is a string. */
static void decode_annotations(const json_t *object, struct template_spec *spec, struct error *collected)
{
    size_t count = json_object_size(object);
    if (count == 0)
        return;
    struct string_pair *pairs = calloc(count, sizeof *pairs);
    if (pairs == NULL) {
        (void)error_set(collected, REASON_RESOURCE_LIMIT, "no memory for %zu annotations", count);
        return;
    }
    spec->annotations = pairs;
    json_t *iterated = (json_t *)(uintptr_t)object; /* iterating changes nothing */
    for (void *at = json_object_iter(iterated); at != NULL; at = json_object_iter_next(iterated, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *value = json_object_iter_value(at);
        if (json_is_string(value)) {
            pairs[spec->annotation_count++] = (struct string_pair){name, json_string_value(value)};
        } else {
            char field[96];
            (void)snprintf(field, sizeof field, "annotations.%s", name);
            (void)error_field(collected, REASON_INVALID_FIELD, field, "must be a string");
        }
    }
}

int decode_template(const json_t *body, struct template_spec *spec, struct error *err)
{
    *spec = (struct template_spec){.enable_ivshmem = false};
    struct error collected = ERROR_INIT;
    struct fields fields;
    const json_t *ivshmem = NULL;
    const json_t *annotations = NULL;
    fields_begin(&fields, body, "", &collected);
    (void)field_bool(&fields, "enableIvshmem", &spec->enable_ivshmem);
    (void)field_object(&fields, "ivshmem", &ivshmem);
    if (field_object(&fields, "annotations", &annotations))
        decode_annotations(annotations, spec, &collected);
    fields_end(&fields);

    fields_begin(&fields, ivshmem, "ivshmem.", &collected);
    spec->has_size = field_unsigned(&fields, "sizeBytes", &spec->size_bytes);
    spec->has_layout = field_string(&fields, "layout", &spec->layout);
    spec->has_on_rollback = field_string(&fields, "onRollback", &spec->on_rollback);
    spec->has_vectors = field_unsigned(&fields, "vectors", &spec->vectors);
    fields_end(&fields);
    return result_of(&collected, err);
}

/* owner: {pid} or {leaseSeconds}; absent is no owner. */
static void decode_owner(struct fields *outer, struct owner_spec *owner)
{
    *owner = (struct owner_spec){.kind = OWNER_NONE};
    const json_t *object = NULL;
    if (!field_object(outer, "owner", &object))
        return;
    struct fields fields;
    size_t faults = outer->err->field_count;
    fields_begin(&fields, object, "owner.", outer->err);
    bool has_pid = field_integer(&fields, "pid", &owner->pid);
    bool has_lease = field_integer(&fields, "leaseSeconds", &owner->lease_seconds);
    fields_end(&fields);
    if (has_pid && has_lease)
        field_fault(outer, "owner", "must have pid or leaseSeconds, not both");
    else if (has_pid)
        owner->kind = OWNER_PID;
    else if (has_lease)
        owner->kind = OWNER_LEASE;
    else if (outer->err->field_count == faults)
        field_fault(outer, "owner", "must have pid or leaseSeconds");
}

int decode_sandbox(const json_t *body, struct sandbox_spec *spec, struct error *err)
{
    *spec = (struct sandbox_spec){.template_id = NULL};
    struct error collected = ERROR_INIT;
    struct fields fields;
    fields_begin(&fields, body, "", &collected);
    size_t faults = collected.field_count;
    if (!field_string(&fields, "templateID", &spec->template_id) && collected.field_count == faults)
        field_fault(&fields, "templateID", "is required");
    decode_owner(&fields, &spec->owner);
    spec->has_uid = field_unsigned(&fields, "uid", &spec->uid);
    spec->has_gid = field_unsigned(&fields, "gid", &spec->gid);
    fields_end(&fields);
    return result_of(&collected, err);
}

static void decode_end(const json_t *object, size_t number, struct link_end_spec *end,
                       struct error *collected)
{
    char path[24];
    struct fields fields;
    if (!json_is_object(object)) {
        (void)snprintf(path, sizeof path, "ends[%zu]", number);
        (void)error_field(collected, REASON_INVALID_FIELD, path, "must be an object");
        return;
    }
    (void)snprintf(path, sizeof path, "ends[%zu].", number);
    fields_begin(&fields, object, path, collected);
    (void)field_string(&fields, "type", &end->type);
    (void)field_string(&fields, "sandboxID", &end->sandbox_id);
    (void)field_string(&fields, "role", &end->role);
    (void)field_string(&fields, "socketPath", &end->socket_path);
    end->has_mtu = field_unsigned(&fields, "mtu", &end->mtu);
    fields_end(&fields);
}

int decode_link(const json_t *body, struct link_spec *spec, struct link_end_spec ends[LINK_ENDS],
                struct error *err)
{
    *spec = (struct link_spec){.ends = ends};
    memset(ends, 0, LINK_ENDS * sizeof *ends);
    struct error collected = ERROR_INIT;
    struct fields fields;
    const json_t *list = NULL;
    fields_begin(&fields, body, "", &collected);
    size_t faults = collected.field_count;
    bool has_ends = field_array(&fields, "ends", &list);
    if (has_ends && json_array_size(list) != LINK_ENDS)
        field_fault(&fields, "ends", "must have two elements");
    else if (!has_ends && collected.field_count == faults)
        field_fault(&fields, "ends", "is required");
    fields_end(&fields);
    for (; spec->end_count < json_array_size(list) && spec->end_count < LINK_ENDS; spec->end_count++)
        decode_end(json_array_get(list, spec->end_count), spec->end_count, &ends[spec->end_count],
                   &collected);
    return result_of(&collected, err);
}

int decode_pause(const json_t *body, struct error *err)
{
    struct error collected = ERROR_INIT;
    struct fields fields;
    fields_begin(&fields, body, "", &collected);
    fields_end(&fields);
    return result_of(&collected, err);
}

int decode_resume(const json_t *body, struct owner_spec *owner, struct error *err)
{
    struct error collected = ERROR_INIT;
    struct fields fields;
    fields_begin(&fields, body, "", &collected);
    decode_owner(&fields, owner);
    fields_end(&fields);
    return result_of(&collected, err);
}

int decode_renew(const json_t *body, int64_t *lease_seconds, struct error *err)
{
    *lease_seconds = 0;
    struct error collected = ERROR_INIT;
    struct fields fields;
    fields_begin(&fields, body, "", &collected);
    /* 0 stands for "not given" in the operation, so it cannot be passed on. */
    if (field_integer(&fields, "leaseSeconds", lease_seconds) && *lease_seconds < 1)
        field_fault(&fields, "leaseSeconds", "must be 1 or more");
    fields_end(&fields);
    return result_of(&collected, err);
}
