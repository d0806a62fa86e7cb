#include "tests/unit/sdk/support.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char scratch[] = "/dev/shm/chan-unit-sdk-XXXXXX";

void scratch_make(void)
{
    if (mkdtemp(scratch) == NULL) {
        perror(scratch);
        exit(1);
    }
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

void scratch_remove(void)
{
    (void)nftw(scratch, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void scratch_path(char out[PATH_BYTES], const char *name)
{
    static unsigned count;
    (void)snprintf(out, PATH_BYTES, "%s/%d-%u-%s", scratch, (int)getpid(), count++, name);
}

static int make_file(const char *path, const void *content, size_t length)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_msg(fd >= 0, "cannot make %s: %s", path, strerror(errno));
    ck_assert_int_eq(write(fd, content, length), (ssize_t)length);
    return fd;
}

static void write_superblock(int fd, size_t size, uint64_t epoch)
{
    struct chan_superblock superblock;
    uint64_t nonce = (uint64_t)now_ms() << 16 | epoch;
    ck_assert_int_eq(chan_superblock_make(&superblock, size, nonce, epoch), 0);
    ck_assert_int_eq(pwrite(fd, &superblock, sizeof superblock, 0), sizeof superblock);
}

void make_region_file(const char *path, size_t size, bool with_superblock)
{
    int fd = make_file(path, "", 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
    if (with_superblock)
        write_superblock(fd, size, 1);
    (void)close(fd);
}

void replace_superblock(const char *path, size_t size, uint64_t epoch)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    write_superblock(fd, size, epoch);
    (void)close(fd);
}

struct chan_region *open_path(const char *path)
{
    struct chan_region *region = NULL;
    struct chan_error error = {""};
    int r = chan_region_open_path(path, 0, &region, &error);
    ck_assert_msg(r == 0, "opening %s: %d, %s", path, r, error.text);
    return region;
}

static void make_folders(const char *path)
{
    char part[2 * PATH_BYTES];
    for (size_t i = 1; path[i - 1] != '\0'; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        ck_assert_msg(mkdir(part, 0700) == 0 || errno == EEXIST, "cannot make %s: %s", part, strerror(errno));
    }
}

static void make_attribute(const char *folder, const char *name, const char *content)
{
    char path[2 * PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)close(make_file(path, content, strlen(content)));
}

void make_sysfs_device(const char *sysfs, const char *address, const char *vendor, const char *device,
                       size_t size, bool wc)
{
    char folder[PATH_BYTES + 64];
    char path[2 * PATH_BYTES];
    char other[2 * PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "%s/bus/pci/devices/%s", sysfs, address);
    make_folders(folder);
    make_attribute(folder, "vendor", vendor);
    make_attribute(folder, "device", device);
    make_attribute(folder, "enable", "0\n");
    (void)snprintf(path, sizeof path, "%s/resource2", folder);
    make_region_file(path, size, size >= CHAN_LAYOUT_MIN_BYTES);
    (void)snprintf(other, sizeof other, "%s/resource2_wc", folder);
    if (wc) /* the same memory, as with a real device */
        ck_assert_int_eq(link(path, other), 0);
}

struct chan_region *new_region(size_t size, enum chan_mapping mapping)
{
    char path[PATH_BYTES];
    struct chan_region *region = NULL;
    if (mapping == CHAN_MAPPING_CACHED) {
        scratch_path(path, "region");
        make_region_file(path, size, true);
        return open_path(path);
    }
    scratch_path(path, "sysfs");
    make_sysfs_device(path, "0000:00:04.0", "0x1af4\n", "0x1110\n", size, true);
    const struct chan_region_options options = {.sysfs = path, .mapping = mapping};
    struct chan_error error = {""};
    int r = chan_region_open_pci("0000:00:04.0", &options, &region, &error);
    ck_assert_msg(r == 0, "opening a device: %d, %s", r, error.text);
    ck_assert_int_eq(chan_region_mapping(region), mapping);
    return region;
}

struct chan_channel *open_side(struct chan_region *region, enum chan_side side)
{
    struct chan_channel *channel = NULL;
    struct chan_error error = {""};
    const struct chan_options options = {.side = side};
    int r = chan_open(region, &options, &channel, &error);
    ck_assert_msg(r == 0, "opening a channel: %d, %s", r, error.text);
    return channel;
}

void connect_both(struct chan_channel *a, struct chan_channel *b)
{
    int ra = -EAGAIN;
    int rb = -EAGAIN;
    for (int round = 0; round < 10 && (ra != 0 || rb != 0); round++) {
        ra = chan_connect(a, 0);
        rb = chan_connect(b, 0);
    }
    ck_assert_msg(ra == 0 && rb == 0, "after 10 rounds the handshake says %d and %d", ra, rb);
}

struct pair new_pair(size_t size, enum chan_mapping mapping)
{
    struct pair pair = {.region = new_region(size, mapping)};
    pair.host = open_side(pair.region, CHAN_SIDE_HOST);
    pair.guest = open_side(pair.region, CHAN_SIDE_GUEST);
    connect_both(pair.host, pair.guest);
    return pair;
}

void free_pair(struct pair *pair)
{
    chan_close(pair->host);
    chan_close(pair->guest);
    chan_region_close(pair->region);
}

int try_recv(struct chan_channel *channel)
{
    static unsigned char buffer[65536];
    size_t length = 0;
    int r = -EAGAIN;
    for (int i = 0; i < 16 && r == -EAGAIN; i++)
        r = chan_recv(channel, buffer, sizeof buffer, &length, 0);
    return r;
}

uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void fill_pattern(unsigned char *out, size_t length, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = next_random(&state);
        memcpy(out + i, &word, length - i < 8 ? length - i : 8);
    }
}

bool is_pattern(const unsigned char *data, size_t length, uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = next_random(&state);
        if (memcmp(data + i, &word, length - i < 8 ? length - i : 8) != 0)
            return false;
    }
    return true;
}

int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static unsigned char *half_of(const struct chan_region *region, enum chan_side side)
{
    const struct chan_superblock *superblock = chan_region_superblock(region);
    ck_assert_ptr_nonnull(superblock);
    uint64_t offset = side == CHAN_SIDE_HOST ? superblock->half_a_offset : superblock->half_b_offset;
    return (unsigned char *)chan_region_base(region) + offset;
}

struct chan_control *control_of(const struct chan_region *region, enum chan_side side)
{
    return (struct chan_control *)(void *)half_of(region, side);
}

unsigned char *ring_of(const struct chan_region *region, enum chan_side side)
{
    return half_of(region, side) + CHAN_CONTROL_BYTES;
}
