#include "api/rest/listener.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "suites.h"

static char directory[64];
static char path[96];

static void set_up(void)
{
    static const char pattern[] = "/tmp/chan-rest-XXXXXX";
    memcpy(directory, pattern, sizeof pattern);
    ck_assert_ptr_nonnull(mkdtemp(directory));
    (void)snprintf(path, sizeof path, "%s/s", directory);
}

static void tear_down(void)
{
    char lock[128];
    (void)snprintf(lock, sizeof lock, "%s.lock", path);
    (void)unlink(lock);
    (void)unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

static bool exists(void)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

START_TEST(mode_and_removal)
{
    struct listener listener = LISTENER_INIT;
    struct error err = ERROR_INIT;
    mode_t old = umask(0);
    ck_assert_msg(listen_unix(path, 0660, NULL, &listener, &err) == 0, "%s", err.detail);
    (void)umask(old);
    struct stat status;
    ck_assert_int_eq(lstat(path, &status), 0);
    ck_assert(S_ISSOCK(status.st_mode));
    ck_assert_uint_eq(status.st_mode & 07777, 0660);
    listener_retire(&listener);
    ck_assert(!exists());
    listener_close(&listener);
}
END_TEST

START_TEST(a_group_by_name_or_number)
{
    struct listener listener = LISTENER_INIT;
    struct error err = ERROR_INIT;
    char number[16];
    struct stat status;
    (void)snprintf(number, sizeof number, "%u", (unsigned int)getgid());
    ck_assert_msg(listen_unix(path, 0660, number, &listener, &err) == 0, "%s", err.detail);
    ck_assert_int_eq(lstat(path, &status), 0);
    ck_assert_uint_eq(status.st_gid, getgid());
    listener_retire(&listener);
    listener_close(&listener);
    ck_assert_int_eq(listen_unix(path, 0660, "no-such-group", &listener, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "no-such-group"));
    ck_assert(!exists());
}
END_TEST

START_TEST(a_stale_socket_is_replaced)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(dead, (const struct sockaddr *)&address, sizeof address), 0);
    (void)close(dead);
    struct listener listener = LISTENER_INIT;
    struct error err = ERROR_INIT;
    ck_assert_msg(listen_unix(path, 0600, NULL, &listener, &err) == 0, "%s", err.detail);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
    (void)close(client);
    listener_retire(&listener);
    listener_close(&listener);
}
END_TEST

START_TEST(a_live_one_stays)
{
    struct listener first = LISTENER_INIT;
    struct listener second = LISTENER_INIT;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(listen_unix(path, 0600, NULL, &first, &err), 0);
    ck_assert_int_eq(listen_unix(path, 0600, NULL, &second, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "another daemon"));
    ck_assert(exists());
    listener_retire(&first);
    listener_close(&first);
}
END_TEST

START_TEST(a_strangers_live_one_stays)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int live = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(live, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(live, 1), 0);
    struct listener listener = LISTENER_INIT;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(listen_unix(path, 0600, NULL, &listener, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "another daemon"));
    ck_assert(exists());
    (void)close(live);
}
END_TEST

START_TEST(no_socket_is_never_removed)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    struct listener listener = LISTENER_INIT;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(listen_unix(path, 0600, NULL, &listener, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "not a socket"));
    ck_assert(exists());
}
END_TEST

START_TEST(what_took_its_place_is_not_removed)
{
    struct listener listener = LISTENER_INIT;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(listen_unix(path, 0600, NULL, &listener, &err), 0);
    ck_assert_int_eq(unlink(path), 0);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    listener_retire(&listener);
    ck_assert(exists());
    listener_close(&listener);
}
END_TEST

START_TEST(a_path_that_is_too_long)
{
    char long_path[200];
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    struct listener listener = LISTENER_INIT;
    struct error err = ERROR_INIT;
    ck_assert_int_eq(listen_unix(long_path, 0600, NULL, &listener, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.detail, "107 characters"));
}
END_TEST

START_TEST(tcp_addresses)
{
    static const char *const bad[] = {"",        "127.0.0.1",   ":80",         "localhost:80",
                                      "[::1:80", "127.0.0.1:x", "300.0.0.1:80"};
    struct listener listener = LISTENER_INIT;
    struct error err = ERROR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(listen_tcp(bad[i], &listener, &err) == -1, "%s was taken", bad[i]);
    ck_assert_msg(listen_tcp("127.0.0.1:0", &listener, &err) == 0, "%s", err.detail);
    int listens = 0;
    socklen_t length = sizeof listens;
    ck_assert_int_eq(getsockopt(listener.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length), 0);
    ck_assert_int_eq(listens, 1);
    listener_close(&listener);
    ck_assert_int_eq(listener.fd, -1);
}
END_TEST

TCase *listener_tests(void)
{
    TCase *tests = tcase_create("listener");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, mode_and_removal);
    tcase_add_test(tests, a_group_by_name_or_number);
    tcase_add_test(tests, a_stale_socket_is_replaced);
    tcase_add_test(tests, a_live_one_stays);
    tcase_add_test(tests, a_strangers_live_one_stays);
    tcase_add_test(tests, no_socket_is_never_removed);
    tcase_add_test(tests, what_took_its_place_is_not_removed);
    tcase_add_test(tests, a_path_that_is_too_long);
    tcase_add_test(tests, tcp_addresses);
    return tests;
}
