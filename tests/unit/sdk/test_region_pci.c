#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/sdk/support.h"

enum { SIZE = 1 << 20 };

static const char ivshmem_vendor[] = "0x1af4\n";
static const char ivshmem_device[] = "0x1110\n";

static void expect_refusal(int r, int expected, const struct chan_region *region,
                           const struct chan_error *error, const char *word)
{
    ck_assert_msg(r == expected, "expected %d, got %d (%s)", expected, r, error->text);
    ck_assert_ptr_null(region);
    ck_assert_msg(strstr(error->text, word) != NULL, "'%s' does not say '%s'", error->text, word);
}

static void expect_open_refusal(const char *sysfs, const char *address, int expected, const char *word)
{
    const struct chan_region_options options = {.sysfs = sysfs};
    struct chan_region *region = NULL;
    struct chan_error error = {""};
    int r = chan_region_open_pci(address, &options, &region, &error);
    expect_refusal(r, expected, region, &error, word);
}

static void read_attribute(const char *sysfs, const char *address, const char *name, char out[16])
{
    char path[2 * PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/bus/pci/devices/%s/%s", sysfs, address, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, out, 15);
    (void)close(fd);
    ck_assert_int_ge(got, 0);
    out[got] = '\0';
}

START_TEST(test_opens_by_address_and_enables)
{
    char sysfs[PATH_BYTES];
    scratch_path(sysfs, "sysfs");
    make_sysfs_device(sysfs, "0000:00:04.0", ivshmem_vendor, ivshmem_device, SIZE, true);
    const struct chan_region_options options = {.sysfs = sysfs};
    struct chan_region *region = NULL;
    struct chan_error error = {"untouched"};
    ck_assert_int_eq(chan_region_open_pci("00:04.0", &options, &region, &error), 0);
    ck_assert_str_eq(error.text, "untouched");
    ck_assert_int_eq(chan_region_mapping(region), CHAN_MAPPING_WRITE_COMBINING);
    ck_assert_uint_eq(chan_region_size(region), SIZE);
    ck_assert_uint_eq(chan_region_superblock(region)->epoch, 1);
    char enabled[16];
    read_attribute(sysfs, "0000:00:04.0", "enable", enabled);
    ck_assert_uint_eq(enabled[0], '1');
    chan_region_close(region);
}
END_TEST

START_TEST(test_falls_back_to_uncached)
{
    char sysfs[PATH_BYTES];
    scratch_path(sysfs, "sysfs");
    make_sysfs_device(sysfs, "0000:00:04.0", ivshmem_vendor, ivshmem_device, SIZE, false);
    struct chan_region_options options = {.sysfs = sysfs};
    struct chan_region *region = NULL;
    struct chan_error error = {"untouched"};
    ck_assert_int_eq(chan_region_find_pci(&options, &region, &error), 0);
    ck_assert_str_eq(error.text, "untouched");
    ck_assert_int_eq(chan_region_mapping(region), CHAN_MAPPING_UNCACHED);
    chan_region_close(region);

    /* Not when write-combining was asked for. */
    region = NULL;
    options.mapping = CHAN_MAPPING_WRITE_COMBINING;
    expect_refusal(chan_region_find_pci(&options, &region, &error), -ENOENT, region, &error, "resource2_wc");
}
END_TEST

START_TEST(test_mapping_can_be_forced)
{
    char sysfs[PATH_BYTES];
    scratch_path(sysfs, "sysfs");
    make_sysfs_device(sysfs, "0000:00:04.0", ivshmem_vendor, ivshmem_device, SIZE, true);
    struct chan_region_options options = {.sysfs = sysfs, .mapping = CHAN_MAPPING_UNCACHED};
    struct chan_region *region = NULL;
    ck_assert_int_eq(chan_region_find_pci(&options, &region, NULL), 0);
    ck_assert_int_eq(chan_region_mapping(region), CHAN_MAPPING_UNCACHED);
    chan_region_close(region);
    options.mapping = CHAN_MAPPING_CACHED; /* sysfs has no such file */
    ck_assert_int_eq(chan_region_find_pci(&options, &region, NULL), -EINVAL);
}
END_TEST

START_TEST(test_refuses_another_device)
{
    char sysfs[PATH_BYTES];
    scratch_path(sysfs, "sysfs");
    make_sysfs_device(sysfs, "0000:00:03.0", ivshmem_vendor, "0x1000\n", SIZE, true); /* virtio-net */
    expect_open_refusal(sysfs, "0000:00:03.0", -ENXIO, "1af4:1000");
    char enabled[16];
    read_attribute(sysfs, "0000:00:03.0", "enable", enabled);
    ck_assert_uint_eq(enabled[0], '0'); /* it was left alone */

    /* Installations differ: other ids can be asked for. */
    const struct chan_region_options options = {.sysfs = sysfs, .vendor = 0x1af4, .device = 0x1000};
    struct chan_region *region = NULL;
    ck_assert_int_eq(chan_region_find_pci(&options, &region, NULL), 0);
    chan_region_close(region);
}
END_TEST

START_TEST(test_refuses_what_is_no_address)
{
    char sysfs[PATH_BYTES];
    scratch_path(sysfs, "sysfs");
    make_sysfs_device(sysfs, "0000:00:04.0", ivshmem_vendor, ivshmem_device, SIZE, true);
    static const char *const bad[] = {"",
                                      "4",
                                      "0000:00:04",
                                      "0000:00:04.00",
                                      "0000:00:g4.0",
                                      "../../../../etc",
                                      "0000:00/04.0",
                                      "00:04.0 ",
                                      "0000:00:04.0/../0000:00:04.0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_open_refusal(sysfs, bad[i], -EINVAL, "PCI address");
    expect_open_refusal(sysfs, NULL, -EINVAL, "PCI address");
    expect_open_refusal(sysfs, "0000:00:05.0", -ENODEV, "no PCI device");
}
END_TEST

START_TEST(test_refuses_a_device_without_memory)
{
    char sysfs[PATH_BYTES];
    scratch_path(sysfs, "sysfs");
    make_sysfs_device(sysfs, "0000:00:04.0", ivshmem_vendor, ivshmem_device, 0, true);
    expect_open_refusal(sysfs, "0000:00:04.0", -EINVAL, "memory");
}
END_TEST

START_TEST(test_nothing_found)
{
    char sysfs[PATH_BYTES];
    scratch_path(sysfs, "sysfs");
    const struct chan_region_options options = {.sysfs = sysfs};
    struct chan_region *region = NULL;
    struct chan_error error = {""};
    expect_refusal(chan_region_find_pci(&options, &region, &error), -ENOENT, region, &error, "sysfs");

    make_sysfs_device(sysfs, "0000:00:03.0", ivshmem_vendor, "0x1000\n", SIZE, true);
    make_sysfs_device(sysfs, "0000:00:04.0", "0x8086\n", ivshmem_device, SIZE, true);
    make_sysfs_device(sysfs, "0000:00:05.0", "nonsense", ivshmem_device, SIZE, true);
    expect_refusal(chan_region_find_pci(&options, &region, &error), -ENODEV, region, &error, "1af4:1110");
}
END_TEST

START_TEST(test_two_found_and_none_guessed)
{
    char sysfs[PATH_BYTES];
    scratch_path(sysfs, "sysfs");
    make_sysfs_device(sysfs, "0000:00:06.0", ivshmem_vendor, ivshmem_device, SIZE, true);
    make_sysfs_device(sysfs, "0000:00:04.0", ivshmem_vendor, ivshmem_device, SIZE, true);
    make_sysfs_device(sysfs, "0001:00:04.0", "0x8086\n", ivshmem_device, SIZE, true);
    const struct chan_region_options options = {.sysfs = sysfs};
    struct chan_region *region = NULL;
    struct chan_error error = {""};
    expect_refusal(chan_region_find_pci(&options, &region, &error), -ENOTUNIQ, region, &error,
                   "0000:00:04.0, 0000:00:06.0");

    struct chan_pci_address addresses[4];
    size_t count = 0;
    ck_assert_int_eq(chan_region_list_pci(&options, addresses, 4, &count, NULL), 0);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(addresses[0].text, "0000:00:04.0");
    ck_assert_str_eq(addresses[1].text, "0000:00:06.0");
    ck_assert_int_eq(chan_region_list_pci(&options, addresses, 1, &count, NULL), 0);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(addresses[0].text, "0000:00:04.0");
    ck_assert_int_eq(chan_region_list_pci(&options, NULL, 0, &count, NULL), 0);
    ck_assert_uint_eq(count, 2);

    ck_assert_int_eq(chan_region_open_pci(addresses[0].text, &options, &region, NULL), 0);
    chan_region_close(region);
}
END_TEST

START_TEST(test_side_follows_the_kind)
{
    struct chan_region *region = new_region(SIZE, CHAN_MAPPING_WRITE_COMBINING);
    struct chan_channel *guest = open_side(region, CHAN_SIDE_AUTO);
    struct chan_channel *host = open_side(region, CHAN_SIDE_HOST); /* so AUTO was not the host */
    chan_close(guest);
    chan_close(host);
    chan_region_close(region);
}
END_TEST

TCase *region_pci_tests(void)
{
    TCase *tests = tcase_create("region_pci");
    tcase_add_test(tests, test_opens_by_address_and_enables);
    tcase_add_test(tests, test_falls_back_to_uncached);
    tcase_add_test(tests, test_mapping_can_be_forced);
    tcase_add_test(tests, test_refuses_another_device);
    tcase_add_test(tests, test_refuses_what_is_no_address);
    tcase_add_test(tests, test_refuses_a_device_without_memory);
    tcase_add_test(tests, test_nothing_found);
    tcase_add_test(tests, test_two_found_and_none_guessed);
    tcase_add_test(tests, test_side_follows_the_kind);
    return tests;
}
