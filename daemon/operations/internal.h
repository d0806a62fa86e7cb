/* What the files of operations/ share with each other and with nobody else. */
#ifndef CHAN_DAEMON_OPERATIONS_INTERNAL_H
#define CHAN_DAEMON_OPERATIONS_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/operations/operations.h"

struct operations {
    struct operations_config config; /* state_directory is our own copy */
    char *state_directory;
    atomic_bool ready;
    int64_t started_ms; /* real time */
    uid_t uid;          /* the daemon's own; files belong to it when it may not give them away */
    gid_t gid;
};

/* REASON_NOT_READY until main has said that the repair is done. */
int require_ready(const struct operations *operations, struct error *err);

/* Copies a locally collected error to the caller's; always returns -1. `to` may be NULL. */
int error_hand_over(struct error *to, const struct error *from);

/* A fault point that fails stands for a full disk or a system limit at that step. */
int fault_check(const char *name, struct error *err);
/* Adds a second failure to the error that is answered. */
void error_add_consequence(struct error *err, const char *what, const struct error *failure);

/* The audit's view of a caller. `who` must outlive the actor. */
enum { WHO_SIZE = 48 };
void describe_caller(const struct caller *caller, char who[WHO_SIZE]);
struct store_actor make_actor(const struct caller *caller, const char who[WHO_SIZE], enum operation operation,
                              const char *object_id, const char *result);

/* If-Match: REASON_REVISION_STALE when the object is absent or has another revision. kind is "template" or
 * "sandbox". */
int check_if_match(const struct caller *caller, const char *kind, const char *id, bool found,
                   int64_t revision, struct error *err);

/* ---- field rules (checks.c): each adds the bad fields that it finds to `fields` and goes on ---- */

/* The settings of a template's region with defaults filled in. */
void check_region_settings(const struct operations_limits *limits, const struct template_spec *spec,
                           struct region_settings *ret, struct error *fields);
void check_owner(const struct operations_limits *limits, const struct owner_spec *owner,
                 struct error *fields);
void check_lease_seconds(const struct operations_limits *limits, const char *field, int64_t lease_seconds,
                         struct error *fields);
/* Resolves the owner of the file from the request, the peer and the daemon's own user. */
void check_file_owner(const struct operations *operations, const struct caller *caller,
                      const struct sandbox_spec *spec, uid_t *uid, gid_t *gid, struct error *fields);

/* ---- annotations (annotations.c) ---- */

/* *ret: the annotations as compact JSON with sorted keys, malloc'ed. Bad ones are added to `fields` and leave
 * *ret NULL. Returns -1 (with `fields` set) only then or when out of memory. */
int annotations_encode(const struct string_pair *annotations, size_t count, char **ret, struct error *fields);
/* Does an annotation opt in? */
bool annotations_opt_in(const struct string_pair *annotations, size_t count);

/* ---- pages (pages.c) ---- */

enum page_kind { PAGE_TEMPLATES = 't', PAGE_SANDBOXES = 's', PAGE_LINKS = 'l' };

/* The number of rows and the id after which they start. */
int page_begin(const struct operations_limits *limits, const struct page_request *page, enum page_kind kind,
               size_t *limit, char after_id[ID_SIZE], struct error *err);
int check_limit(const struct operations_limits *limits, size_t asked, size_t *limit, struct error *err);
void page_token_make(enum page_kind kind, const char *last_id, char token[PAGE_TOKEN_SIZE]);

/* ---- owners (owners.c) ---- */

/* Records the owner that a request names, at once, so that the pid has no time to be used again. OWNER_NONE
 * gives an owner of that kind. The spec must have been checked. */
int owner_take(const struct operations *operations, const struct owner_spec *spec, struct owner_row *ret,
               struct error *err);
/* Is it the same process, or a lease of the same length? */
bool owner_same(const struct owner_row *a, const struct owner_row *b);

/* ---- what is answered (views.c) ---- */

/* One malloc'ed block: `count` pointers, a NULL, then the strings. */
int pack_strings(const char *const *strings, size_t count, char ***ret);
/* QEMU's option parser takes two commas for one that is meant. `out` has room for twice the path. */
void double_commas(const char *path, char *out);

void sandbox_view_fill(const struct operations *operations, const struct sandbox_row *row,
                       struct sandbox_view *ret);

/* ---- links (links.c) ---- */

/* A sandbox that was deleted has marked its links as deleting; this deletes them. What fails is left to the
 * links' thread. */
void delete_links_of_sandbox(struct operations *operations, const struct caller *caller,
                             const char *sandbox_id);

#endif
