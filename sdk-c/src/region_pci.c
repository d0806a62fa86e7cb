/* Regions in a guest: the memory of an ivshmem device, BAR 2, through the files that sysfs has for it. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "region.h"

enum { DEFAULT_VENDOR = 0x1af4, DEFAULT_DEVICE = 0x1110, PATH_BYTES = 512, ERROR_NAMES = 8 };

struct pci_query {
    unsigned flags;
    enum chan_mapping mapping;
    unsigned vendor, device;
    const char *sysfs;
};

static int make_query(const struct chan_region_options *options, struct pci_query *query,
                      struct chan_error *error)
{
    static const struct chan_region_options none = {0};
    if (options == NULL)
        options = &none;
    if ((options->flags & ~(unsigned)(CHAN_REGION_READ_ONLY | CHAN_REGION_RAW)) != 0 ||
        (options->mapping != CHAN_MAPPING_AUTO && options->mapping != CHAN_MAPPING_WRITE_COMBINING &&
         options->mapping != CHAN_MAPPING_UNCACHED))
        return chan_error_set(error, -EINVAL,
                              "flags must be known, and the mapping automatic, write-combining or uncached");
    *query = (struct pci_query){
        .flags = options->flags,
        .mapping = options->mapping,
        .vendor = options->vendor != 0 ? options->vendor : DEFAULT_VENDOR,
        .device = options->device != 0 ? options->device : DEFAULT_DEVICE,
        .sysfs = options->sysfs != NULL ? options->sysfs : "/sys",
    };
    return 0;
}

/* Accepts dddd:bb:ss.f and bb:ss.f, nothing else, as it becomes part of a path. */
static bool normalise_address(const char *given, struct chan_pci_address *out)
{
    static const char pattern[] = "hhhh:hh:hh.h";
    const char *prefix = strlen(given) == strlen(pattern) - 5 ? "0000:" : "";
    int written = snprintf(out->text, sizeof out->text, "%s%s", prefix, given);
    if (written != (int)strlen(pattern))
        return false;
    for (size_t i = 0; pattern[i] != '\0'; i++) {
        bool fits =
            pattern[i] == 'h' ? isxdigit((unsigned char)out->text[i]) != 0 : out->text[i] == pattern[i];
        if (!fits)
            return false;
        out->text[i] = (char)tolower((unsigned char)out->text[i]);
    }
    return true;
}

static int device_path(const struct pci_query *query, const char *address, const char *file,
                       char out[PATH_BYTES])
{
    int written = snprintf(out, PATH_BYTES, "%s/bus/pci/devices/%s/%s", query->sysfs, address, file);
    return written < PATH_BYTES ? 0 : -ENAMETOOLONG;
}

/* Reads a number as sysfs writes it: "0x1af4\n", "1\n". */
static int read_number(const struct pci_query *query, const char *address, const char *file, unsigned *out)
{
    char path[PATH_BYTES];
    int r = device_path(query, address, file, path);
    if (r < 0)
        return r;
    chan_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char text[32];
    ssize_t got = read(fd, text, sizeof text - 1);
    if (got < 0)
        return -errno;
    text[got] = '\0';
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 0);
    if (end == text || (*end != '\n' && *end != '\0') || value > UINT_MAX)
        return -EBADMSG;
    *out = (unsigned)value;
    return 0;
}

static bool matches(const struct pci_query *query, const char *address)
{
    unsigned vendor = 0;
    unsigned device = 0;
    return read_number(query, address, "vendor", &vendor) == 0 && vendor == query->vendor &&
           read_number(query, address, "device", &device) == 0 && device == query->device;
}

/* A device that nobody has enabled does not answer to its addresses: reads give all ones. */
static int enable_device(const struct pci_query *query, const char *address, struct chan_error *error)
{
    unsigned enabled = 0;
    int r = read_number(query, address, "enable", &enabled);
    if (r < 0)
        return chan_error_set(error, r, "cannot read whether PCI device %s is enabled: %s", address,
                              strerror(-r));
    if (enabled > 0)
        return 0;

    char path[PATH_BYTES];
    r = device_path(query, address, "enable", path);
    if (r < 0)
        return r;
    chan_auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1", 1) != 1)
        return chan_error_set(error, -errno,
                              "cannot enable PCI device %s by writing 1 to %s: %s; run as root", address,
                              path, strerror(errno));
    return 0;
}

static int open_resource(const struct pci_query *query, const char *address, enum chan_mapping mapping,
                         struct chan_region **region, struct chan_error *error)
{
    char path[PATH_BYTES];
    int r = device_path(query, address,
                        mapping == CHAN_MAPPING_WRITE_COMBINING ? "resource2_wc" : "resource2", path);
    if (r < 0)
        return chan_error_set(error, r, "the path of PCI device %s is too long", address);
    int access_mode = (query->flags & CHAN_REGION_READ_ONLY) != 0 ? O_RDONLY : O_RDWR;
    int fd = open(path, access_mode | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        int number = errno;
        return chan_error_set(
            error, -number, "cannot open %s: %s%s", path, strerror(number),
            number == EACCES || number == EPERM ? "; run as root, or chown the file to the user" : "");
    }
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_size <= 0 || status.st_size % CHAN_PAGE_BYTES != 0) {
        (void)close(fd);
        return chan_error_set(error, -EINVAL, "%s has no memory of a multiple of %u bytes", path,
                              CHAN_PAGE_BYTES);
    }
    const struct chan_region_source source = {
        .fd = fd,
        .path = path,
        .size = (uint64_t)status.st_size,
        .mapping = mapping,
        .natural_side = CHAN_SIDE_GUEST,
        .flags = query->flags,
    };
    return chan_region_create(&source, region, error);
}

static int open_device(const struct pci_query *query, const char *address, struct chan_region **region,
                       struct chan_error *error)
{
    int r = enable_device(query, address, error);
    if (r < 0)
        return r;
    if (query->mapping != CHAN_MAPPING_AUTO)
        return open_resource(query, address, query->mapping, region, error);
    /* resource2_wc exists only for a prefetchable BAR on a CPU with page attributes. */
    struct chan_error refused;
    r = open_resource(query, address, CHAN_MAPPING_WRITE_COMBINING, region, &refused);
    if (r == -ENOENT)
        return open_resource(query, address, CHAN_MAPPING_UNCACHED, region, error);
    return r < 0 ? chan_error_set(error, r, "%s", refused.text) : 0;
}

int chan_region_open_pci(const char *address, const struct chan_region_options *options,
                         struct chan_region **region, struct chan_error *error)
{
    struct pci_query query;
    int r = make_query(options, &query, error);
    if (r < 0)
        return r;
    struct chan_pci_address normal;
    if (address == NULL || !normalise_address(address, &normal))
        return chan_error_set(error, -EINVAL, "%s is no PCI address; one looks like 0000:00:04.0",
                              address != NULL ? address : "(null)");

    unsigned vendor = 0;
    unsigned device = 0;
    r = read_number(&query, normal.text, "vendor", &vendor);
    if (r == 0)
        r = read_number(&query, normal.text, "device", &device);
    if (r == -ENOENT)
        return chan_error_set(error, -ENODEV, "there is no PCI device %s; lspci lists them", normal.text);
    if (r < 0)
        return chan_error_set(error, r, "cannot read the ids of PCI device %s: %s", normal.text,
                              strerror(-r));
    if (vendor != query.vendor || device != query.device)
        return chan_error_set(error, -ENXIO, "PCI device %s is %04x:%04x, not %04x:%04x", normal.text, vendor,
                              device, query.vendor, query.device);
    return open_device(&query, normal.text, region, error);
}

static int compare_addresses(const void *a, const void *b)
{
    const struct chan_pci_address *left = a;
    const struct chan_pci_address *right = b;
    return strcmp(left->text, right->text);
}

static void close_directory(DIR **directory)
{
    if (*directory != NULL)
        (void)closedir(*directory);
}

/* Keeps the lowest `capacity` addresses, in order. */
static int list_devices(const struct pci_query *query, struct chan_pci_address *addresses, size_t capacity,
                        size_t *count, struct chan_error *error)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/bus/pci/devices", query->sysfs) >= (int)sizeof path)
        return chan_error_set(error, -ENAMETOOLONG, "the path of sysfs is too long");
    __attribute__((cleanup(close_directory))) DIR *directory = opendir(path);
    if (directory == NULL)
        return chan_error_set(error, -errno, "cannot list PCI devices in %s: %s; is sysfs mounted?", path,
                              strerror(errno));
    size_t found = 0;
    const struct dirent *entry = NULL;
    while ((entry = readdir(directory)) != NULL) {
        struct chan_pci_address address;
        if (!normalise_address(entry->d_name, &address) || !matches(query, address.text))
            continue;
        size_t kept = found < capacity ? found : capacity;
        found++;
        if (kept < capacity) {
            addresses[kept] = address;
            qsort(addresses, kept + 1, sizeof *addresses, compare_addresses);
        } else if (capacity > 0 && compare_addresses(&address, &addresses[capacity - 1]) < 0) {
            addresses[capacity - 1] = address;
            qsort(addresses, capacity, sizeof *addresses, compare_addresses);
        }
    }
    *count = found;
    return 0;
}

int chan_region_list_pci(const struct chan_region_options *options, struct chan_pci_address *addresses,
                         size_t capacity, size_t *count, struct chan_error *error)
{
    struct pci_query query;
    int r = make_query(options, &query, error);
    return r < 0 ? r : list_devices(&query, addresses, capacity, count, error);
}

int chan_region_find_pci(const struct chan_region_options *options, struct chan_region **region,
                         struct chan_error *error)
{
    struct pci_query query;
    int r = make_query(options, &query, error);
    if (r < 0)
        return r;
    struct chan_pci_address addresses[ERROR_NAMES];
    size_t count = 0;
    r = list_devices(&query, addresses, ERROR_NAMES, &count, error);
    if (r < 0)
        return r;
    if (count == 0)
        return chan_error_set(error, -ENODEV,
                              "there is no PCI device %04x:%04x: was the VM started with an ivshmem device?",
                              query.vendor, query.device);
    if (count == 1)
        return open_device(&query, addresses[0].text, region, error);

    char names[ERROR_NAMES * (CHAN_PCI_ADDRESS_BYTES + 2)] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && i < ERROR_NAMES; i++)
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", addresses[i].text);
    return chan_error_set(error, -ENOTUNIQ,
                          "there are %zu PCI devices %04x:%04x, give the address of one: %s%s", count,
                          query.vendor, query.device, names, count > ERROR_NAMES ? ", ..." : "");
}
