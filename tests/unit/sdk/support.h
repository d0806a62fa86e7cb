/* What the tests of libchan share: a scratch folder, regions in it, and connected pairs of channels. */
#ifndef TESTS_UNIT_SDK_SUPPORT_H
#define TESTS_UNIT_SDK_SUPPORT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "chan/channel.h"
#include "chan/region.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

enum { SMALL_REGION = 32768, SMALL_RING = 8192, MEDIUM_REGION = 65536, PATH_BYTES = 256 };

/* Makes and removes the folder that all files of the tests are in. In the process that runs the tests. */
void scratch_make(void);
void scratch_remove(void);

/* A path in the scratch folder that no other test uses. */
void scratch_path(char out[PATH_BYTES], const char *name);

/* A file of this size, with a superblock of epoch 1 or of zeros only. */
void make_region_file(const char *path, size_t size, bool with_superblock);

/* Puts a new superblock into it, as a rollback does. */
void replace_superblock(const char *path, size_t size, uint64_t epoch);

struct chan_region *open_path(const char *path);

/* A tree like sysfs: one device with these ids at the address; `wc`: with a resource2_wc. */
void make_sysfs_device(const char *sysfs, const char *address, const char *vendor, const char *device,
                       size_t size, bool wc);

/* A region of its own, in a file or behind a device of a made-up sysfs, whose accesses take the path for that
 * mapping. */
struct chan_region *new_region(size_t size, enum chan_mapping mapping);

struct chan_channel *open_side(struct chan_region *region, enum chan_side side);

/* Both sides of one region, connected. */
struct pair {
    struct chan_region *region;
    struct chan_channel *host, *guest;
};
struct pair new_pair(size_t size, enum chan_mapping mapping);
void free_pair(struct pair *pair);

/* Lets both go on with their handshake in turns until both are connected. */
void connect_both(struct chan_channel *a, struct chan_channel *b);

/* Receives without waiting, and forgets what came. On device mappings only every 16th empty look is a look at
 * the peer's state as well, so it looks that often. */
int try_recv(struct chan_channel *channel);

/* Deterministic noise. */
uint64_t next_random(uint64_t *state);
void fill_pattern(unsigned char *out, size_t length, uint64_t seed);
bool is_pattern(const unsigned char *data, size_t length, uint64_t seed);

int64_t now_ms(void);

/* The words of a side as they are in the region, for tests that play a side themselves. */
struct chan_control *control_of(const struct chan_region *region, enum chan_side side);
unsigned char *ring_of(const struct chan_region *region, enum chan_side side);

/* A loop test that gets every kind of mapping as its _i. */
#define add_mapping_test(tests, test)                                                                        \
    tcase_add_loop_test(tests, test, CHAN_MAPPING_CACHED, CHAN_MAPPING_UNCACHED + 1)

TCase *superblock_tests(void);
TCase *region_tests(void);
TCase *region_pci_tests(void);
TCase *session_tests(void);
TCase *message_tests(void);
TCase *batch_tests(void);
TCase *mistrust_tests(void);
TCase *traffic_tests(void);
TCase *restart_tests(void);
TCase *hostile_tests(void);

#endif
