/* Cleanup attributes release at the end of the scope, and not what was handed on. */
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "tests/unit/base/cases.h"

START_TEST(test_descriptor)
{
    int number;
    {
        auto_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        number = fd;
    }
    ck_assert_int_eq(fcntl(number, F_GETFD), -1);
    ck_assert_int_eq(errno, EBADF);
}
END_TEST

START_TEST(test_descriptor_handed_on)
{
    int taken;
    {
        auto_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        taken = take_fd(&fd);
        ck_assert_int_eq(fd, -1);
    }
    ck_assert_int_ge(fcntl(taken, F_GETFD), 0);
    ck_assert_int_eq(close(taken), 0);
}
END_TEST

START_TEST(test_pointer_handed_on)
{
    char *taken;
    {
        auto_free char *text = malloc(4);
        ck_assert_ptr_nonnull(text);
        text[0] = 'x';
        taken = take_pointer(text);
        ck_assert_ptr_null(text);
    }
    ck_assert_int_eq(taken[0], 'x'); /* AddressSanitizer sees it if it was freed */
    free(taken);
}
END_TEST

TCase *cleanup_case(void)
{
    TCase *tcase = tcase_create("cleanup");
    tcase_add_test(tcase, test_descriptor);
    tcase_add_test(tcase, test_descriptor_handed_on);
    tcase_add_test(tcase, test_pointer_handed_on);
    return tcase;
}
