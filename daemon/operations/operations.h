/* The operations of chand: every rule of the API stands here, once, and knows nothing of HTTP or gRPC. A face
 * fills a request struct, calls, and renders the result or the error. All calls are for any thread and may
 * block on the disk.
 */
#ifndef CHAN_DAEMON_OPERATIONS_OPERATIONS_H
#define CHAN_DAEMON_OPERATIONS_OPERATIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "daemon/links/links.h"
#include "daemon/metrics.h"
#include "daemon/reclaim/owner.h"
#include "daemon/reclaim/reclaim.h"
#include "daemon/regions/regions.h"
#include "store/store.h"

enum operation {
#define OPERATION(name, word, changes) OPERATION_##name,
#include "daemon/operations/operations.def"
#undef OPERATION
    OPERATION_COUNT
};

/* "sandbox.create"; a static string. */
const char *operation_word(enum operation operation);

struct operations;

struct operations_limits {
    uint64_t default_region_bytes;     /* 1 MiB */
    uint64_t max_region_bytes;         /* a power of two */
    uint64_t node_regions, node_bytes; /* quotas; 0 is no limit */
    uint64_t uid_regions, uid_bytes;
    int64_t max_lease_seconds;
    size_t page_default, page_max; /* 100 and 1000 */
};

struct operations_config {
    struct store *store;
    struct regions *regions;
    struct reclaim *reclaim;
    struct links *links;
    struct metrics *metrics;
    struct operations_limits limits;
    const char *state_directory;
};

int operations_new(const struct operations_config *config, struct operations **ret, struct error *err);
void operations_free(struct operations *operations);

/* main says so once the repair is done; before that every call but node and readiness is REASON_NOT_READY. */
void operations_set_ready(struct operations *operations, bool ready);
bool operations_is_ready(const struct operations *operations);

/* As if_match: any revision, but the object must exist. */
enum { IF_MATCH_ANY = 0 };

/* Who calls, and the conditions that came along. */
struct caller {
    bool has_peer; /* uid, gid and pid are of a unix socket's peer */
    uid_t uid;
    gid_t gid;
    pid_t pid;
    const char *request_id;
    const char *idempotency_key; /* or NULL; POST actions only */
    bool has_if_match;
    int64_t if_match; /* a revision, or IF_MATCH_ANY */
};

struct string_pair {
    const char *key, *value;
};

/* ---- templates ---- */

struct template_spec {
    bool enable_ivshmem; /* false when the field is absent or null */
    bool has_size, has_layout, has_on_rollback, has_vectors;
    uint64_t size_bytes;
    const char *layout;      /* "chan" or "raw" */
    const char *on_rollback; /* "restore", "keep" or "clear" */
    uint64_t vectors;
    const struct string_pair *annotations;
    size_t annotation_count;
};

/* Creates or replaces; the same content again changes nothing, not even the revision. *created: it is new. */
int operations_template_put(struct operations *operations, const struct caller *caller, const char *id,
                            const struct template_spec *spec, struct template_row *ret, bool *created,
                            struct error *err);
int operations_template_get(struct operations *operations, const struct caller *caller, const char *id,
                            struct template_row *ret, struct error *err);
/* REASON_TEMPLATE_IN_USE while sandboxes use it, REASON_TEMPLATE_NOT_FOUND when there is none. */
int operations_template_delete(struct operations *operations, const struct caller *caller, const char *id,
                               struct error *err);

/* Pages. limit 0 is the default; page_token NULL the first page. next_token is "" after the last page. */
enum { PAGE_TOKEN_SIZE = 192 };
struct page_request {
    size_t limit;
    const char *page_token;
};
/* A page may be shorter than its limit and yet not be the last, which may be empty. */
int operations_template_list(struct operations *operations, const struct caller *caller,
                             const struct page_request *page, struct template_row **ret, size_t *count,
                             char next_token[PAGE_TOKEN_SIZE], struct error *err);

/* ---- sandboxes ---- */

struct owner_spec {
    enum owner_kind kind; /* OWNER_NONE: not given */
    int64_t pid;
    int64_t lease_seconds;
};

struct sandbox_spec {
    const char *template_id;
    struct owner_spec owner;
    bool has_uid, has_gid;
    uint64_t uid, gid; /* default: the peer's when the daemon may give files away, else the daemon's */
};

/* A sandbox as it is answered. */
struct sandbox_view {
    struct sandbox_row row;
    enum owner_condition owner_condition;
    int64_t lease_remaining_ms; /* OWNER_LEASE only; never below 0 */
    char path[512];             /* the region's, when row.has_region */
};

/* The same request again answers the existing sandbox (*created false); another one of the same id is
 * REASON_SANDBOX_EXISTS. After a failure nothing of the sandbox is left. */
int operations_sandbox_create(struct operations *operations, const struct caller *caller, const char *id,
                              const struct sandbox_spec *spec, struct sandbox_view *ret, bool *created,
                              struct error *err);
int operations_sandbox_get(struct operations *operations, const struct caller *caller, const char *id,
                           struct sandbox_view *ret, struct error *err);
int operations_sandbox_list(struct operations *operations, const struct caller *caller,
                            const struct page_request *page, struct sandbox_view **ret, size_t *count,
                            char next_token[PAGE_TOKEN_SIZE], struct error *err); /* free(*ret) */
/* Done too when it never was (but an id that can never be valid is still an error). */
int operations_sandbox_delete(struct operations *operations, const struct caller *caller, const char *id,
                              struct error *err);

/* The file stays, even if the owner ends. Pausing a paused one changes nothing. An orphaned one whose region
 * is still there is saved by it. */
int operations_sandbox_pause(struct operations *operations, const struct caller *caller, const char *id,
                             struct sandbox_view *ret, struct error *err);
/* Back to running; owner replaces the recorded one (the VMM is often a new process). Without one, the
 * recorded owner must still be alive (REASON_OWNER_GONE says to pass one); a lease starts anew.
 * REASON_REGION_LOST when the file is not the one that was paused. */
int operations_sandbox_resume(struct operations *operations, const struct caller *caller, const char *id,
                              const struct owner_spec *owner, struct sandbox_view *ret, struct error *err);
/* Extends the lease: lease_seconds 0 keeps its length. An orphaned one whose lease ran out is saved by it. */
int operations_sandbox_renew(struct operations *operations, const struct caller *caller, const char *id,
                             int64_t lease_seconds, struct sandbox_view *ret, struct error *err);

/* Ready arguments for the VMMs. Each is a NULL-terminated list in one malloc'ed block; -1 when out of memory
 * or when there is no region. QEMU commas are doubled, as its option parser wants. */
int sandbox_qemu_arguments(const struct sandbox_view *sandbox, char ***ret);
int sandbox_cloud_hypervisor_arguments(const struct sandbox_view *sandbox, char ***ret);

/* Words for enum values, as the API writes them. */
const char *sandbox_state_word(enum sandbox_state state);
const char *region_state_word(enum region_state state);
const char *region_layout_word(enum region_layout layout);
const char *on_rollback_word(enum on_rollback on_rollback);

/* ---- links ---- */

struct link_end_spec {
    const char *type;        /* "vhost-user"; NULL: the same */
    const char *sandbox_id;  /* or NULL */
    const char *role;        /* "server" or "client"; NULL: server */
    const char *socket_path; /* with role client */
    bool has_mtu;
    uint64_t mtu; /* 68 to 65535 */
};
struct link_spec {
    const struct link_end_spec *ends;
    size_t end_count; /* must be 2 */
};

/* A link as it is answered. */
struct link_view {
    struct link_row row;
    struct link_state state;
};

/* The same request again answers the existing link (*created false); another one of the same id is
 * REASON_LINK_EXISTS. A sandbox that an end names must exist (REASON_SANDBOX_NOT_FOUND). When this returns 0
 * both sockets of role server exist, so that a VMM may be started at once. After a failure nothing of it is
 * left. */
int operations_link_put(struct operations *operations, const struct caller *caller, const char *id,
                        const struct link_spec *spec, struct link_view *ret, bool *created,
                        struct error *err);
int operations_link_get(struct operations *operations, const struct caller *caller, const char *id,
                        struct link_view *ret, struct error *err);
/* sandbox_id: only links with an end of that sandbox; NULL: all. free(*ret) */
int operations_link_list(struct operations *operations, const struct caller *caller,
                         const struct page_request *page, const char *sandbox_id, struct link_view **ret,
                         size_t *count, char next_token[PAGE_TOKEN_SIZE], struct error *err);
/* REASON_LINK_NOT_FOUND when there is none. */
int operations_link_delete(struct operations *operations, const struct caller *caller, const char *id,
                           struct error *err);

/* Ready arguments for the VMM at that end of the link, as sandbox_qemu_arguments. */
int link_qemu_arguments(const struct link_view *link, unsigned end, char ***ret);
int link_cloud_hypervisor_arguments(const struct link_view *link, unsigned end, char ***ret);
/* Names of the virtio-net and ring features in a mask ("mrg_rxbuf"), NULL-terminated, in one malloc'ed block.
 */
int link_feature_names(uint64_t features, char ***ret);
const char *link_role_word(enum link_role role);
const char *link_state_word(enum link_row_state state); /* "creating", "ready", "deleting" */

/* ---- events and node ---- */

/* since is a revision from 0 to the newest, else REASON_INVALID_PARAMETER, or EVENTS_SINCE_OLDEST. Only what
 * names a revision can be answered with REASON_REVISION_COMPACTED. free with store_event_list_free.
 * *newest: the store's revision; *last: the revision to pass as since for the next page. */
int operations_event_list(struct operations *operations, const struct caller *caller, int64_t since,
                          size_t limit, struct event_row **ret, size_t *count, int64_t *last, int64_t *newest,
                          struct error *err);

struct node_view {
    char hostname[65];
    char boot_id[BOOT_ID_SIZE];
    const char *version;
    int schema_version;
    int64_t revision;
    int64_t started_ms;
    bool ready;
    char shm_directory[256];
    uint64_t shm_total_bytes, shm_free_bytes;
    uint64_t state_total_bytes, state_free_bytes;
    uint64_t sandboxes[SANDBOX_STATE_COUNT];
    uint64_t templates, lost_regions;
    struct usage_row usage;
    struct operations_limits limits;
    struct reclaim_report reclaim;
    uint64_t links; /* in all states */
    uint64_t links_by_state[LINK_STATE_COUNT];
    struct links_report dataplane;
};
int operations_node_get(struct operations *operations, const struct caller *caller, struct node_view *ret,
                        struct error *err);

/* Sets the gauges that are read from the store; for the scrape. */
int operations_collect_metrics(struct operations *operations, struct error *err);

/* ---- rules that faces may ask for ---- */

/* 1 to 128 of [A-Za-z0-9._-], not starting with a dot or dash, no "..". kind is "sandboxID" or "templateID".
 */
int check_id(const char *id, const char *kind, struct error *err);

#endif
