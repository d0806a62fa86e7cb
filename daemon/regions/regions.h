/* The files of shared-memory regions: made, examined and removed, and nothing else. No rule of the API and no
 * store row is known here; what is recorded of a file is in store/rows.h (struct region_identity).
 *
 * How a file is made, so that a crash at any point leaves something that is provably ours or nothing:
 *   1. open(".chan-{token}", O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC, 0600) in the directory; the token is 128
 *      random bits that the store knows before (the intent)
 *   2. mode 0600 whatever the umask, owner, then storage reserved by fallocate (so that the guest never meets
 *      a SIGBUS)
 *   3. layout chan: the superblock is written; layout raw: zeros
 *   4. linkat to the region's name: the file appears complete or not at all, and a file that is there
 *      already, a symlink too, makes it fail with EEXIST and is never touched
 *   5. the store records the identity; then region_unstage removes the staging name
 * A staging file that exists proves whose the file of the final name is: ours if both are one inode.
 */
#ifndef CHAN_DAEMON_REGIONS_REGIONS_H
#define CHAN_DAEMON_REGIONS_REGIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "store/rows.h"

struct regions;

struct regions_config {
    const char *directory; /* "/dev/shm"; absolute, at most 255 bytes */
    /* "ivshmem-{sandboxID}": exactly one {sandboxID}, no slash, at most NAME_MAX when an id of 128 characters
     * is put in, and whatever the id, not starting with ".chan-" */
    const char *name_pattern;
};

/* Opens the directory and keeps a descriptor of it. Fails with a clear detail on a bad pattern or directory.
 */
int regions_open(const struct regions_config *config, struct regions **ret, struct error *err);
void regions_close(struct regions *regions); /* NULL is fine */

const char *regions_directory(const struct regions *regions);

/* May files of the directory be there after a power cut? No on a tmpfs or hugetlbfs. */
bool regions_outlive_host(const struct regions *regions);

/* The file name of a sandbox's region. The id must already be a valid one. */
void region_name(const struct regions *regions, const char *sandbox_id, char out[REGION_NAME_SIZE]);

/* 128 random bits in hex, from getrandom. */
int region_make_token(char out[STAGING_TOKEN_SIZE], struct error *err);

/* Makes the file that `row` describes (name, staging_token, settings, uid, gid, epoch), steps 1 to 4, and
 * fills in row->identity. On failure nothing is left behind. REASON_FILE_EXISTS: something of that name is
 * there and is not ours. REASON_NO_SPACE: no room. REASON_UID_NOT_PERMITTED: chown refused.
 * REASON_RESOURCE_LIMIT: EMFILE, ENFILE or ENOMEM. REASON_INTERNAL also when the directory's path leads
 * elsewhere by now. Any thread. */
int region_create(struct regions *regions, struct region_row *row, struct error *err);

/* Step 5: removes the staging name. Not there: fine. */
int region_unstage(struct regions *regions, const struct region_row *row, struct error *err);

enum region_condition {
    REGION_IS_OURS,      /* the file is there, its identity matches, and its size is right */
    REGION_IS_MISSING,   /* nothing of that name */
    REGION_IS_FOREIGN,   /* something else is there under that name: another inode, a symlink, a directory */
    REGION_IS_WRONG_SIZE /* our inode, but someone changed its size */
};

/* Looks at the file without opening it for use. Returns 0, or -1 when the file system cannot be asked. */
int region_examine(struct regions *regions, const struct region_row *row, enum region_condition *ret,
                   struct error *err);

/* Removes the file of a region whose identity is recorded; a foreign file of that name is left alone, a
 * missing one is fine. *left_foreign says whether one was left. A staging name that was left behind goes too.
 */
int region_remove(struct regions *regions, const struct region_row *row, bool *left_foreign,
                  struct error *err);

/* Removes what an interrupted region_create of this row left (identity not recorded): the staging file, and
 * the file of the final name if it is the same inode. Anything else is left alone. */
int region_remove_unfinished(struct regions *regions, const struct region_row *row, struct error *err);

/* Calls fn for each file in the directory whose name fits the pattern (sandbox_id set) or looks like a
 * staging file (token set). The other argument is NULL. fn returns 0 to go on. */
typedef int (*region_scan_fn)(void *context, const char *name, const char *sandbox_id, const char *token);
int regions_scan(struct regions *regions, region_scan_fn fn, void *context, struct error *err);

/* Is anything of that name in the directory? */
bool regions_has_file(const struct regions *regions, const char *name);

/* When names in the directory were last made or removed, to tell whether a scan could find anything new. */
int regions_changed(const struct regions *regions, int64_t *changed_ns, struct error *err);

/* Size and free bytes of the directory's file system. */
int regions_space(const struct regions *regions, uint64_t *total_bytes, uint64_t *free_bytes,
                  struct error *err);

#endif
