/* libchan: regions. A region is memory that a host and a guest share: on the host a file, in the guest the
 * memory (BAR 2) of an ivshmem PCI device. Opening one maps it; chan/channel.h makes a channel of it.
 *
 *   struct chan_region *region;
 *   struct chan_error error;
 *   if (chan_region_open_path("/dev/shm/ivshmem-sb-1", 0, &region, &error) < 0)
 *       errx(1, "%s", error.text);
 *
 * Results: 0, or a negative errno value; outputs are set on success only. A region may be used by any thread;
 * it is unmapped when it was closed and every channel on it was closed. The file must not be made shorter
 * while it is mapped: a program that touches what is gone gets SIGBUS.
 */
#ifndef CHAN_REGION_H
#define CHAN_REGION_H

#include "chan/error.h"
#include "chan/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

struct chan_region;

/* How the memory is mapped, which decides how it may be accessed. On a mapping other than CHAN_MAPPING_CACHED
 * use aligned accesses of at most 8 bytes, no atomic read-modify-write, and no memcpy (arm64 faults when it
 * is unaligned); libchan's own calls heed that. */
enum chan_mapping {
    CHAN_MAPPING_AUTO = 0,            /* as an option: the best there is */
    CHAN_MAPPING_CACHED = 1,          /* ordinary memory */
    CHAN_MAPPING_WRITE_COMBINING = 2, /* resource2_wc */
    CHAN_MAPPING_UNCACHED = 3,        /* resource2 */
};

enum chan_region_flags {
    CHAN_REGION_READ_ONLY = 1u << 0, /* to look at; no channel can be opened on it */
    CHAN_REGION_RAW = 1u << 1,       /* take the content for raw bytes even if it begins with a superblock */
};

/* For the PCI calls. NULL, or a field that is 0, means the default. */
struct chan_region_options {
    unsigned flags; /* enum chan_region_flags */
    enum chan_mapping
        mapping;             /* AUTO: write-combining, or uncached where the kernel offers no resource2_wc */
    uint16_t vendor, device; /* 1af4:1110 */
    const char *sysfs;       /* "/sys" */
};

/* "0000:00:04.0" */
enum { CHAN_PCI_ADDRESS_BYTES = 16 };
struct chan_pci_address {
    char text[CHAN_PCI_ADDRESS_BYTES];
};

/* Opens the region behind a file. Symbolic links are not followed.
 * -ENOENT, -EACCES, -ELOOP (a symbolic link), other errors of open(2) and mmap(2); -EINVAL: not a regular
 * file, or not a multiple of 4 KiB, or empty; -EBADMSG, -EPROTONOSUPPORT, -EMSGSIZE: the content begins as a
 * superblock but chan_superblock_check() refuses it (CHAN_REGION_RAW opens it nevertheless). */
CHAN_API int chan_region_open_path(const char *path, unsigned flags, struct chan_region **region,
                                   struct chan_error *error);

/* Opens the memory of the PCI device at `address` ("0000:00:04.0", or "00:04.0" in domain 0), and enables the
 * device if it is not. Needs root, or the ownership of the device's resource files. -EINVAL: not an address;
 * -ENODEV: no device there; -ENXIO: another device than vendor:device; else as above. */
CHAN_API int chan_region_open_pci(const char *address, const struct chan_region_options *options,
                                  struct chan_region **region, struct chan_error *error);

/* Opens the only device that matches. -ENODEV: there is none; -ENOTUNIQ: there are several, error->text names
 * them. */
CHAN_API int chan_region_find_pci(const struct chan_region_options *options, struct chan_region **region,
                                  struct chan_error *error);

/* Writes the addresses of the devices that match, in order, `capacity` at most; *count becomes how many there
 * are. */
CHAN_API int chan_region_list_pci(const struct chan_region_options *options,
                                  struct chan_pci_address *addresses, size_t capacity, size_t *count,
                                  struct chan_error *error);

/* Closes the handle; NULL is accepted. Channels that are open on it stay usable. */
CHAN_API void chan_region_close(struct chan_region *region);

/* The mapped bytes: everything, the superblock included. What is in the half of a side is that side's to
 * write. */
CHAN_API void *chan_region_base(const struct chan_region *region);
CHAN_API size_t chan_region_size(const struct chan_region *region);

CHAN_API enum chan_mapping chan_region_mapping(const struct chan_region *region);
CHAN_API const char *
chan_mapping_name(enum chan_mapping mapping); /* "cached", "write-combining", "uncached" */

/* The checked superblock as it was when the region was opened; NULL for a raw region. */
CHAN_API const struct chan_superblock *chan_region_superblock(const struct chan_region *region);

/* The file that is mapped: the path that was given, or the device's resource file. */
CHAN_API const char *chan_region_path(const struct chan_region *region);

#ifdef __cplusplus
}
#endif
#endif
