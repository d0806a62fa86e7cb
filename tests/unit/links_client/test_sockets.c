/* Directories and sockets of the ends. */
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/links_client/fixture.h"

static int directory;
static struct end_owner owners[2];

static void open_directory(void)
{
    directory = sockets_open(fx.directory, &fx.err);
    ck_assert_msg(directory >= 0, "%s", fx.err.detail);
    for (unsigned end = 0; end < 2; end++)
        owners[end] = (struct end_owner){.uid = geteuid(), .gid = getegid()};
}

static void make(const struct link_row *row)
{
    int listeners[2];
    assert_works(sockets_make(directory, fx.directory, row, owners, listeners, &fx.err));
    for (unsigned end = 0; end < 2; end++)
        if (listeners[end] >= 0)
            (void)close(listeners[end]);
}

static void remove_link(const char *id, bool expect_left)
{
    bool left = !expect_left;
    assert_works(sockets_remove(directory, id, &left, &fx.err));
    ck_assert_msg(left == expect_left, "something is left: %d, expected %d", left, expect_left);
}

START_TEST(everything_has_its_mode_and_owner)
{
    open_directory();
    if (geteuid() == 0) {
        owners[0] = (struct end_owner){.uid = 1234, .gid = 2345};
        owners[1] = (struct end_owner){.uid = 3456, .gid = 4567};
    }
    const struct link_row row = make_row("l");
    int listeners[2];
    assert_works(sockets_make(directory, fx.directory, &row, owners, listeners, &fx.err));
    ck_assert_int_eq(status_of("links").st_mode & 07777, 0711);
    ck_assert_int_eq(status_of("links/l").st_mode & 07777, 0711);
    ck_assert_uint_eq(status_of("links/l").st_uid, geteuid());
    static const char *const names[2] = {"links/l/0", "links/l/1"};
    for (unsigned end = 0; end < 2; end++) {
        char name[64];
        ck_assert_int_eq(status_of(names[end]).st_mode & 07777, 0700);
        ck_assert_uint_eq(status_of(names[end]).st_uid, owners[end].uid);
        ck_assert_uint_eq(status_of(names[end]).st_gid, owners[end].gid);
        (void)snprintf(name, sizeof name, "%s/vhost-user.sock", names[end]);
        ck_assert(S_ISSOCK(status_of(name).st_mode));
        ck_assert_int_eq(status_of(name).st_mode & 07777, 0600);
        ck_assert_uint_eq(status_of(name).st_uid, owners[end].uid);
        connects(name);
        ck_assert_int_eq(close(listeners[end]), 0);
    }
    ck_assert(!exists("links/l/.0"));
    remove_link("l", false);
    ck_assert(!exists("links/l"));
    (void)close(directory);
}
END_TEST

START_TEST(an_end_of_role_client_needs_nothing)
{
    open_directory();
    struct link_row row = make_row("l");
    row.ends[0].role = LINK_ROLE_CLIENT;
    (void)snprintf(row.ends[0].socket_path, sizeof row.ends[0].socket_path, "/run/vm.sock");
    make(&row);
    ck_assert(!exists("links/l/0"));
    ck_assert(exists("links/l/1/vhost-user.sock"));
    ck_assert(sockets_present(directory, &row));
    (void)close(directory);
}
END_TEST

START_TEST(sockets_that_are_there_are_replaced)
{
    open_directory();
    const struct link_row row = make_row("l");
    make(&row);
    const ino_t before = status_of("links/l/0/vhost-user.sock").st_ino;
    int listeners[2];
    assert_works(sockets_make(directory, fx.directory, &row, owners, listeners, &fx.err));
    ck_assert_uint_ne(status_of("links/l/0/vhost-user.sock").st_ino, before);
    connects("links/l/0/vhost-user.sock");
    connects("links/l/1/vhost-user.sock");
    (void)close(listeners[0]);
    (void)close(listeners[1]);
    (void)close(directory);
}
END_TEST

/* The owner of an end's directory may put there what he likes. */
START_TEST(what_a_symlink_names_is_never_touched)
{
    char target[256];
    char path[256];
    open_directory();
    const struct link_row row = make_row("l");
    make(&row);
    path_in("precious", target);
    ck_assert_int_eq(mkdir(target, 0755), 0);
    path_in("links/l/0/vhost-user.sock", path);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink(target, path), 0);
    ck_assert(!sockets_present(directory, &row));
    make(&row); /* the symlink is replaced, not followed */
    ck_assert(S_ISSOCK(status_of("links/l/0/vhost-user.sock").st_mode));
    ck_assert_int_eq(status_of("precious").st_mode & 07777, 0755);
    (void)close(directory);
}
END_TEST

START_TEST(a_symlink_for_a_directory_is_refused)
{
    char target[256];
    char path[256];
    int listeners[2];
    open_directory();
    const struct link_row row = make_row("l");
    path_in("elsewhere", target);
    ck_assert_int_eq(mkdir(target, 0755), 0);
    path_in("links/l", path);
    ck_assert_int_eq(symlink(target, path), 0);
    assert_fails(sockets_make(directory, fx.directory, &row, owners, listeners, &fx.err),
                 REASON_SOCKET_FAILED, "cannot open the directory l");
    ck_assert(!exists("elsewhere/0"));
    remove_link("l", true);
    ck_assert(exists("links/l"));
    (void)close(directory);
}
END_TEST

START_TEST(what_others_have_put_there_stays)
{
    char path[256];
    open_directory();
    const struct link_row row = make_row("l");
    make(&row);
    path_in("links/l/1/note", path);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    (void)fclose(file);
    remove_link("l", true);
    ck_assert(exists("links/l/1/note"));
    ck_assert(!exists("links/l/1/vhost-user.sock"));
    ck_assert(!exists("links/l/0"));
    make(&row); /* and is not in the way */
    ck_assert_int_eq(unlink(path), 0);
    remove_link("l", false);
    remove_link("l", false); /* not there: fine */
    (void)close(directory);
}
END_TEST

START_TEST(a_directory_in_the_place_of_a_socket)
{
    char path[256];
    int listeners[2];
    open_directory();
    const struct link_row row = make_row("l");
    path_in("links/l", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    path_in("links/l/0", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    path_in("links/l/0/vhost-user.sock", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    assert_fails(sockets_make(directory, fx.directory, &row, owners, listeners, &fx.err),
                 REASON_SOCKET_FAILED, "its name");
    ck_assert_int_eq(listeners[0], -1);
    ck_assert_int_eq(listeners[1], -1);
    remove_link("l", true);
    ck_assert(!exists("links/l/.0"));
    (void)close(directory);
}
END_TEST

START_TEST(a_foreign_links_directory_is_refused)
{
    char path[256];
    if (geteuid() != 0)
        return; /* it takes root to make one */
    path_in("links", path);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    ck_assert_int_eq(chown(path, 1234, 1234), 0);
    assert_fails(sockets_open(fx.directory, &fx.err), REASON_SOCKET_FAILED, "not ours");
}
END_TEST

TCase *sockets_tests(void)
{
    TCase *tcase = tcase_create("sockets");
    tcase_add_test(tcase, everything_has_its_mode_and_owner);
    tcase_add_test(tcase, an_end_of_role_client_needs_nothing);
    tcase_add_test(tcase, sockets_that_are_there_are_replaced);
    tcase_add_test(tcase, what_a_symlink_names_is_never_touched);
    tcase_add_test(tcase, a_symlink_for_a_directory_is_refused);
    tcase_add_test(tcase, what_others_have_put_there_stays);
    tcase_add_test(tcase, a_directory_in_the_place_of_a_socket);
    tcase_add_test(tcase, a_foreign_links_directory_is_refused);
    return tcase;
}
