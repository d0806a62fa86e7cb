/* What the store keeps: plain values, one struct a table. */
#ifndef CHAN_STORE_ROWS_H
#define CHAN_STORE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

enum {
    ID_SIZE = 129,          /* an id's 128 characters and the terminating zero */
    REGION_NAME_SIZE = 256, /* NAME_MAX and the terminating zero */
    STAGING_TOKEN_SIZE = 33 /* 128 random bits in hex */
};

enum region_layout { REGION_LAYOUT_CHAN, REGION_LAYOUT_RAW };
enum on_rollback { ON_ROLLBACK_RESTORE, ON_ROLLBACK_KEEP, ON_ROLLBACK_CLEAR };

/* The settings of a region, as a template gives them and a region keeps them. */
struct region_settings {
    uint64_t size_bytes;
    enum region_layout layout;
    enum on_rollback on_rollback;
    uint32_t vectors;
};

struct template_row {
    char id[ID_SIZE];
    bool enable_ivshmem;           /* the effective opt-in */
    struct region_settings region; /* defaults filled in */
    char *annotations;             /* a JSON object of strings, compact, keys sorted; owned by the row */
    int64_t revision;
    int64_t created_ms, updated_ms; /* real time */
};

enum sandbox_state {
    SANDBOX_CREATING, /* intent: the region's file may or may not exist */
    SANDBOX_RUNNING,
    SANDBOX_PAUSED,
    SANDBOX_ORPHANED, /* the owner is gone; reclaimed after the grace */
    SANDBOX_DELETING, /* intent: the region's file may or may not be gone */
    SANDBOX_STATE_COUNT
};

enum owner_kind { OWNER_NONE, OWNER_PID, OWNER_LEASE };

struct owner_row {
    enum owner_kind kind;
    /* OWNER_PID: a process of this boot; the start time is field 22 of /proc/PID/stat, in clock ticks since
     * boot. */
    pid_t pid;
    uint64_t start_time;
    /* OWNER_LEASE: expiry is on the boot clock of boot_id, so that clock jumps do not matter. */
    int64_t lease_seconds;
    int64_t lease_expires_boot_ms;
    char boot_id[BOOT_ID_SIZE]; /* the boot in which the owner was recorded */
};

enum region_state {
    REGION_CREATING,
    REGION_READY,
    REGION_LOST, /* the file is gone, was replaced, or the host rebooted; see reason */
    REGION_DELETING
};

/* What makes a file provably ours: recorded when it was made. */
struct region_identity {
    uint64_t device, inode;
    int64_t birth_ns;           /* statx btime; 0 where the file system has none */
    char boot_id[BOOT_ID_SIZE]; /* files on a tmpfs do not outlive it */
};

struct region_row {
    char sandbox_id[ID_SIZE];
    char name[REGION_NAME_SIZE];            /* within the shm directory */
    char staging_token[STAGING_TOKEN_SIZE]; /* names the file while it is being made */
    struct region_settings settings;
    uint64_t epoch;
    enum region_state state;
    char reason[64]; /* why it is lost: a word such as "host_reboot", "file_missing", "file_replaced" */
    uid_t uid;
    gid_t gid;
    struct region_identity identity;
};

struct sandbox_row {
    char id[ID_SIZE];
    char template_id[ID_SIZE];
    enum sandbox_state state;
    char reason[64]; /* why it is in that state, where that is not obvious: "owner_gone", "lease_expired" */
    struct owner_row owner;
    uid_t uid;
    gid_t gid;
    int64_t orphaned_boot_ms; /* when it became orphaned, on this boot's clock */
    int64_t revision;
    int64_t created_ms, updated_ms;
    bool has_region;
    struct region_row region; /* only when has_region */
};

enum link_role { LINK_ROLE_SERVER, LINK_ROLE_CLIENT };

struct link_end_row {
    char type[16];            /* "vhost-user" */
    char sandbox_id[ID_SIZE]; /* "" when the end belongs to no sandbox */
    enum link_role role;
    char socket_path[108]; /* role client only; else "" */
    uint32_t mtu;          /* 0: not given */
};

enum link_row_state {
    LINK_CREATING, /* intent: sockets and the dataplane's link may or may not exist */
    LINK_READY,
    LINK_DELETING, /* intent: they may or may not be gone */
    LINK_STATE_COUNT
};

struct link_row {
    char id[ID_SIZE];
    struct link_end_row ends[2];
    uid_t uid; /* who may enter the directory of an end that belongs to no sandbox */
    gid_t gid;
    enum link_row_state state;
    int64_t revision;
    int64_t created_ms, updated_ms;
};

struct event_row {
    int64_t revision;
    int64_t time_ms;
    char kind[48];        /* "sandbox.created" */
    char object_kind[16]; /* "sandbox", "template", "region" */
    char object_id[ID_SIZE];
    char *detail; /* a JSON object, or NULL; owned by the row */
};

/* Bytes and counts in use: kept by the store with each region row, inside the same transaction. */
struct usage_row {
    uint64_t regions;
    uint64_t bytes;
};

/* An Idempotency-Key that was used, and for what. */
struct idempotency_row {
    char key[ID_SIZE + 32]; /* "{uid}:{the caller's key}" */
    char request[512];      /* operation, object and fields, in one canonical line */
    int64_t created_ms;
};

#endif
