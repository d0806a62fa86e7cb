/* The control socket's place: what is replaced, what is left alone, what is removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataplane/control/socket.h"
#include "tests/unit/dataplane_control/fixture.h"

static char directory[] = "/tmp/chan-control-XXXXXX";
static char path[64], lock[72], other[64];
static struct error err;

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    (void)snprintf(path, sizeof path, "%s/socket", directory);
    (void)snprintf(lock, sizeof lock, "%s.lock", path);
    (void)snprintf(other, sizeof other, "%s/other", directory);
    err = ERROR_INIT;
}

static void teardown(void)
{
    (void)unlink(path);
    (void)unlink(lock);
    (void)unlink(other);
    ck_assert_int_eq(rmdir(directory), 0);
}

static bool exists(const char *what)
{
    struct stat status;
    return lstat(what, &status) == 0;
}

START_TEST(it_is_private_and_removed)
{
    struct control_socket socket = CONTROL_SOCKET_NONE;
    ck_assert_msg(control_socket_open(path, &socket, &err) == 0, "%s", err.detail);
    struct stat status;
    ck_assert_int_eq(lstat(path, &status), 0);
    ck_assert(S_ISSOCK(status.st_mode));
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    struct control_socket second = CONTROL_SOCKET_NONE;
    ck_assert_int_eq(control_socket_open(path, &second, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "another chan-dataplane uses it"));
    ck_assert_int_eq(second.fd, -1);
    ck_assert(exists(path));
    control_socket_close(&socket);
    ck_assert(!exists(path));
    ck_assert_int_eq(control_socket_open(path, &socket, &err), 0);
    control_socket_close(&socket);
    control_socket_close(&socket); /* once more is fine */
}
END_TEST

START_TEST(a_stale_one_is_replaced)
{
    struct control_socket socket = CONTROL_SOCKET_NONE;
    ck_assert_int_eq(control_socket_open(path, &socket, &err), 0);
    ck_assert_int_eq(rename(path, other), 0); /* so that it stays, with nobody behind it */
    control_socket_close(&socket);
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert_msg(control_socket_open(path, &socket, &err) == 0, "%s", err.detail);
    control_socket_close(&socket);
}
END_TEST

START_TEST(what_took_its_place_is_left_alone)
{
    struct control_socket socket = CONTROL_SOCKET_NONE;
    ck_assert_int_eq(control_socket_open(path, &socket, &err), 0);
    ck_assert_int_eq(unlink(path), 0);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    control_socket_close(&socket);
    ck_assert(exists(path));
    ck_assert_int_eq(control_socket_open(path, &socket, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "is not a socket"));
    ck_assert(exists(path));
}
END_TEST

START_TEST(a_symbolic_link_is_not_followed)
{
    ck_assert_int_eq(symlink(other, path), 0);
    struct control_socket socket = CONTROL_SOCKET_NONE;
    ck_assert_int_eq(control_socket_open(path, &socket, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "is not a socket"));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(unlink(lock), 0);
    ck_assert_int_eq(symlink(other, lock), 0);
    ck_assert_int_eq(control_socket_open(path, &socket, &err), -1);
    ck_assert(!exists(other));
}
END_TEST

START_TEST(a_path_that_is_too_long_is_refused)
{
    char too_long[200];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    struct control_socket socket = CONTROL_SOCKET_NONE;
    ck_assert_int_eq(control_socket_open(too_long, &socket, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "longer than the 107 bytes"));
}
END_TEST

TCase *socket_tcase(void)
{
    TCase *tcase = tcase_create("socket");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, it_is_private_and_removed);
    tcase_add_test(tcase, a_stale_one_is_replaced);
    tcase_add_test(tcase, what_took_its_place_is_left_alone);
    tcase_add_test(tcase, a_symbolic_link_is_not_followed);
    tcase_add_test(tcase, a_path_that_is_too_long_is_refused);
    return tcase;
}
