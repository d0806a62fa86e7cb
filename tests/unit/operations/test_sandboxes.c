/* Creation, deletion and lists. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

static int create(const char *id, const struct sandbox_spec *spec, struct sandbox_view *view, bool *created)
{
    return operations_sandbox_create(fx.operations, &fx.caller, id, spec, view, created, &fx.err);
}

static void create_fails(const char *id, const struct sandbox_spec *spec, enum reason reason,
                         const char *part)
{
    struct sandbox_view view;
    bool created;
    int64_t before = newest_revision();
    assert_fails(create(id, spec, &view, &created), reason, part);
    ck_assert_int_eq(newest_revision(), before);
}

START_TEST(a_region_is_made_as_asked)
{
    put_template("t", true, 131072);
    struct sandbox_view view = create_sandbox("s", "t");
    char path[256];
    struct stat status;
    region_path("s", path);
    ck_assert_str_eq(view.path, path);
    ck_assert_int_eq(view.row.state, SANDBOX_RUNNING);
    ck_assert(view.row.has_region);
    ck_assert_int_eq(view.row.region.state, REGION_READY);
    ck_assert_uint_eq(view.row.region.epoch, 1);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_size, 131072);
    ck_assert_int_eq(status.st_mode & 07777, 0600);
    ck_assert_uint_eq(status.st_ino, view.row.region.identity.inode);
    ck_assert_uint_eq(status.st_nlink, 1); /* the staging name is gone */
    ck_assert_uint_eq(region_files(), 1);
    struct sandbox_view again = get_sandbox("s");
    ck_assert_int_eq(again.row.revision, view.row.revision);
    ck_assert_uint_eq(again.row.region.identity.inode, view.row.region.identity.inode);
}
END_TEST

START_TEST(without_opt_in_there_is_no_region)
{
    put_template("t", false, 0);
    int64_t before = newest_revision();
    struct sandbox_view view = create_sandbox("s", "t");
    ck_assert_int_eq(view.row.state, SANDBOX_RUNNING);
    ck_assert(!view.row.has_region);
    ck_assert_str_eq(view.path, "");
    ck_assert_uint_eq(region_files(), 0);
    ck_assert_int_eq(newest_revision(), before + 1); /* one unit is enough */
    struct node_view node;
    assert_works(operations_node_get(fx.operations, &fx.caller, &node, &fx.err));
    ck_assert_uint_eq(node.usage.regions, 0);
    ck_assert_uint_eq(node.sandboxes[SANDBOX_RUNNING], 1);
}
END_TEST

START_TEST(the_same_request_again_answers_the_sandbox)
{
    put_template("t", true, 0);
    struct sandbox_spec spec = {.template_id = "t", .owner = {.kind = OWNER_PID, .pid = getpid()}};
    struct sandbox_view first;
    struct sandbox_view second;
    bool created = false;
    assert_works(create("s", &spec, &first, &created));
    ck_assert(created);
    int64_t before = newest_revision();
    assert_works(create("s", &spec, &second, &created));
    ck_assert(!created);
    ck_assert_int_eq(second.row.revision, first.row.revision);
    ck_assert_str_eq(second.path, first.path);
    ck_assert_int_eq(newest_revision(), before);
    /* Not even a template that has changed since makes it another request. */
    put_template("t", true, 131072);
    assert_works(create("s", &spec, &second, &created));
    ck_assert(!created);
    ck_assert_uint_eq(second.row.region.settings.size_bytes, 65536);
}
END_TEST

START_TEST(another_request_of_the_same_id_is_told_the_difference)
{
    put_template("t", true, 0);
    put_template("u", true, 0);
    struct sandbox_spec spec = {.template_id = "t", .owner = {.kind = OWNER_LEASE, .lease_seconds = 60}};
    struct sandbox_view view;
    bool created;
    assert_works(create("s", &spec, &view, &created));
    struct sandbox_spec other = spec;
    other.template_id = "u";
    create_fails("s", &other, REASON_SANDBOX_EXISTS, "templateID is t, not u");
    other = spec;
    other.owner.lease_seconds = 61;
    create_fails("s", &other, REASON_SANDBOX_EXISTS, "a lease of 60 s, not a lease of 61 s");
    other = spec;
    other.owner.kind = OWNER_NONE;
    create_fails("s", &other, REASON_SANDBOX_EXISTS, "not none");
    if (geteuid() == 0) {
        other = spec;
        other.has_uid = other.has_gid = true;
        other.uid = 12345;
        other.gid = 23456;
        create_fails("s", &other, REASON_SANDBOX_EXISTS, "uid is 0, not 12345; its gid is 0, not 23456");
    }
}
END_TEST

START_TEST(an_id_that_is_busy_or_orphaned)
{
    put_template("t", false, 0);
    (void)create_sandbox("s", "t");
    struct sandbox_spec spec = {.template_id = "t"};
    set_state("s", SANDBOX_DELETING, "");
    create_fails("s", &spec, REASON_SANDBOX_BUSY, "is deleting");
    set_state("s", SANDBOX_CREATING, "");
    create_fails("s", &spec, REASON_SANDBOX_BUSY, "is creating");
    set_state("s", SANDBOX_ORPHANED, "owner_gone");
    create_fails("s", &spec, REASON_SANDBOX_EXISTS, "owner is gone (owner_gone); DELETE it first");
}
END_TEST

START_TEST(bad_fields_are_reported_together)
{
    struct sandbox_spec spec = {.owner = {.kind = OWNER_PID, .pid = 0},
                                .has_uid = true,
                                .uid = UINT32_MAX,
                                .has_gid = true,
                                .gid = UINT64_MAX};
    create_fails("s", &spec, REASON_INVALID_FIELD, "templateID: is required");
    assert_field("owner.pid", "must be 1 to");
    assert_field("uid", "must be 0 to 4294967294");
    assert_field("gid", "must be 0 to 4294967294");
    ck_assert_uint_eq(fx.err.field_count, 4);
    static const int64_t pids[] = {0, -1, INT64_MIN, (int64_t)INT_MAX + 1};
    for (size_t i = 0; i < sizeof pids / sizeof pids[0]; i++) {
        spec = (struct sandbox_spec){.template_id = "t", .owner = {.kind = OWNER_PID, .pid = pids[i]}};
        create_fails("s", &spec, REASON_INVALID_FIELD, "owner.pid");
    }
    static const int64_t leases[] = {0, -1, 3601, INT64_MAX};
    for (size_t i = 0; i < sizeof leases / sizeof leases[0]; i++) {
        spec = (struct sandbox_spec){.template_id = "t",
                                     .owner = {.kind = OWNER_LEASE, .lease_seconds = leases[i]}};
        create_fails("s", &spec, REASON_INVALID_FIELD, "owner.leaseSeconds: must be 1 to 3600");
    }
    spec = (struct sandbox_spec){.template_id = "../t"};
    create_fails("s", &spec, REASON_INVALID_FIELD, "templateID");
    spec = (struct sandbox_spec){.template_id = "t"};
    create_fails("../s", &spec, REASON_INVALID_ID, "sandboxID");
}
END_TEST

START_TEST(a_template_that_is_not_there)
{
    struct sandbox_spec spec = {.template_id = "nowhere"};
    create_fails("s", &spec, REASON_TEMPLATE_NOT_FOUND, "no template nowhere");
}
END_TEST

START_TEST(an_owner_that_has_ended_owns_nothing)
{
    put_template("t", true, 0);
    pid_t pid = start_process();
    end_process(pid);
    struct sandbox_spec spec = {.template_id = "t", .owner = {.kind = OWNER_PID, .pid = pid}};
    create_fails("s", &spec, REASON_OWNER_GONE, "");
    ck_assert_uint_eq(region_files(), 0);
}
END_TEST

START_TEST(files_belong_to_the_peer_when_root_makes_them)
{
    if (geteuid() != 0)
        return;
    put_template("t", true, 0);
    fx.caller.uid = 1234;
    fx.caller.gid = 2345;
    struct sandbox_view view = create_sandbox("peer", "t");
    struct stat status;
    ck_assert_int_eq(stat(view.path, &status), 0);
    ck_assert_uint_eq(status.st_uid, 1234);
    ck_assert_uint_eq(status.st_gid, 2345);
    struct sandbox_spec spec = {
        .template_id = "t", .has_uid = true, .uid = 4294967294, .has_gid = true, .gid = 7};
    bool created;
    assert_works(create("named", &spec, &view, &created));
    ck_assert_int_eq(stat(view.path, &status), 0);
    ck_assert_uint_eq(status.st_uid, 4294967294);
    ck_assert_uint_eq(status.st_gid, 7);
    fx.caller.has_peer = false;
    view = create_sandbox("tcp", "t");
    ck_assert_uint_eq(view.row.uid, 0);
    ck_assert_uint_eq(view.row.gid, 0);
}
END_TEST

START_TEST(an_ordinary_user_gives_no_files_away)
{
    if (geteuid() == 0) {
        /* The test runs in a process of its own. */
        enum { NOBODY = 65534 };
        ck_assert_int_eq(chown(fx.shm, NOBODY, NOBODY), 0);
        ck_assert_int_eq(chown(fx.state, NOBODY, NOBODY), 0);
        operations_free(fx.operations);
        ck_assert_int_eq(setegid(NOBODY), 0);
        ck_assert_int_eq(seteuid(NOBODY), 0);
        struct operations_config config = {.store = fx.store,
                                           .regions = fx.regions,
                                           .reclaim = fx.reclaim,
                                           .limits = fx.limits,
                                           .state_directory = fx.state};
        assert_works(operations_new(&config, &fx.operations, &fx.err));
        operations_set_ready(fx.operations, true);
    }
    put_template("t", true, 0);
    struct sandbox_spec spec = {.template_id = "t", .has_uid = true, .uid = geteuid() + 1};
    create_fails("s", &spec, REASON_UID_NOT_PERMITTED, "can only make files of that user");
    fx.caller.uid = geteuid() + 1; /* a peer of another user gets a file of the daemon's */
    struct sandbox_view view = create_sandbox("s", "t");
    ck_assert_uint_eq(view.row.uid, geteuid());
    struct stat status;
    ck_assert_int_eq(stat(view.path, &status), 0);
    ck_assert_uint_eq(status.st_uid, geteuid());
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(a_strangers_file_is_in_the_way)
{
    put_template("t", true, 0);
    char path[256];
    region_path("s", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "theirs", 6), 6);
    struct sandbox_spec spec = {.template_id = "t"};
    struct sandbox_view view;
    bool created;
    assert_fails(create("s", &spec, &view, &created), REASON_FILE_EXISTS, path);
    struct stat status;
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(status.st_size, 6);
    ck_assert_uint_eq(status.st_nlink, 1);
    ck_assert_uint_eq(region_files(), 1);
    assert_fails(operations_sandbox_get(fx.operations, &fx.caller, "s", &view, &fx.err),
                 REASON_SANDBOX_NOT_FOUND, "");
    (void)close(fd);
    ck_assert_int_eq(unlink(path), 0);
    (void)create_sandbox("s", "t"); /* nothing of the failed one is left */
}
END_TEST

START_TEST(quotas_of_the_host)
{
    fx.limits.node_regions = 3;
    fx.limits.node_bytes = 196608;
    fixture_reopen();
    put_template("t", true, 0);
    put_template("big", true, 262144);
    put_template("none", false, 0);
    struct sandbox_spec spec = {.template_id = "big"};
    create_fails("s", &spec, REASON_QUOTA_EXCEEDED,
                 "host's quota of bytes: asked 262144, used 0, allowed 196608");
    (void)create_sandbox("a", "t");
    (void)create_sandbox("b", "t");
    (void)create_sandbox("c", "t");
    spec.template_id = "t";
    create_fails("s", &spec, REASON_QUOTA_EXCEEDED, "host's quota of regions: asked 1, used 3, allowed 3");
    (void)create_sandbox("plain", "none");
    delete_sandbox("b");
    (void)create_sandbox("s", "t");
}
END_TEST

START_TEST(a_template_older_than_the_maximum)
{
    put_template("t", true, 262144);
    (void)create_sandbox("a", "t");
    fx.limits.max_region_bytes = 131072;
    fixture_reopen();
    struct sandbox_spec spec = {.template_id = "t"};
    create_fails("s", &spec, REASON_QUOTA_EXCEEDED,
                 "bytes of one region: asked 262144, used 0, allowed 131072");
    ck_assert_int_eq(get_sandbox("a").row.state, SANDBOX_RUNNING);
}
END_TEST

START_TEST(quotas_of_a_user)
{
    if (geteuid() != 0)
        return;
    fx.limits.uid_regions = 1;
    fx.limits.uid_bytes = 65536;
    fixture_reopen();
    put_template("t", true, 0);
    fx.caller.uid = 1000;
    (void)create_sandbox("a", "t");
    struct sandbox_spec spec = {.template_id = "t"};
    create_fails("b", &spec, REASON_QUOTA_EXCEEDED,
                 "uid 1000's quota of regions: asked 1, used 1, allowed 1");
    fx.caller.uid = 1001;
    (void)create_sandbox("b", "t");
}
END_TEST

START_TEST(a_failed_create_returns_its_quota)
{
    fx.limits.node_regions = 1;
    fixture_reopen();
    put_template("t", true, 0);
    char path[256];
    region_path("s", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    struct sandbox_spec spec = {.template_id = "t"};
    struct sandbox_view view;
    bool created;
    for (int i = 0; i < 3; i++)
        assert_fails(create("s", &spec, &view, &created), REASON_FILE_EXISTS, "");
    ck_assert_int_eq(rmdir(path), 0);
    (void)create_sandbox("s", "t");
}
END_TEST

START_TEST(if_match_of_a_sandbox)
{
    put_template("t", false, 0);
    struct sandbox_spec spec = {.template_id = "t"};
    struct sandbox_view view;
    bool created;
    fx.caller.has_if_match = true;
    fx.caller.if_match = 1;
    create_fails("s", &spec, REASON_REVISION_STALE, "does not exist");
    assert_fails(operations_sandbox_delete(fx.operations, &fx.caller, "s", &fx.err), REASON_REVISION_STALE,
                 "");
    fx.caller.has_if_match = false;
    view = create_sandbox("s", "t");
    fx.caller.has_if_match = true;
    fx.caller.if_match = view.row.revision - 1;
    create_fails("s", &spec, REASON_REVISION_STALE, "at revision");
    assert_fails(operations_sandbox_delete(fx.operations, &fx.caller, "s", &fx.err), REASON_REVISION_STALE,
                 "");
    fx.caller.if_match = view.row.revision;
    assert_works(create("s", &spec, &view, &created));
    ck_assert(!created);
    delete_sandbox("s");
}
END_TEST

START_TEST(deletion_leaves_nothing)
{
    put_template("t", true, 0);
    (void)create_sandbox("s", "t");
    delete_sandbox("s");
    ck_assert_uint_eq(region_files(), 0);
    struct sandbox_view view;
    assert_fails(operations_sandbox_get(fx.operations, &fx.caller, "s", &view, &fx.err),
                 REASON_SANDBOX_NOT_FOUND, "no sandbox s");
    int64_t before = newest_revision();
    delete_sandbox("s");
    delete_sandbox("never-was");
    ck_assert_int_eq(newest_revision(), before);
    assert_fails(operations_sandbox_delete(fx.operations, &fx.caller, "..", &fx.err), REASON_INVALID_ID, "");
}
END_TEST

START_TEST(deletion_leaves_a_strangers_file)
{
    put_template("t", true, 0);
    struct sandbox_view view = create_sandbox("s", "t");
    ck_assert_int_eq(unlink(view.path), 0);
    ck_assert_int_eq(symlink("/etc/passwd", view.path), 0);
    delete_sandbox("s");
    ck_assert_uint_eq(region_files(), 1);
    struct stat status;
    ck_assert_int_eq(lstat(view.path, &status), 0);
    ck_assert(S_ISLNK(status.st_mode));
}
END_TEST

START_TEST(lists_come_in_pages)
{
    enum { COUNT = 5 };
    put_template("t", true, 0);
    for (int i = COUNT - 1; i >= 0; i--) {
        char id[16];
        (void)snprintf(id, sizeof id, "s%d", i);
        (void)create_sandbox(id, "t");
    }
    char token[PAGE_TOKEN_SIZE] = "";
    int seen = 0;
    do {
        char used[PAGE_TOKEN_SIZE];
        memcpy(used, token, sizeof used);
        struct page_request page = {.limit = 2, .page_token = used[0] != '\0' ? used : NULL};
        struct sandbox_view *views = NULL;
        size_t count = 0;
        assert_works(
            operations_sandbox_list(fx.operations, &fx.caller, &page, &views, &count, token, &fx.err));
        for (size_t i = 0; i < count; i++) {
            char path[256];
            char id[16];
            (void)snprintf(id, sizeof id, "s%d", seen++);
            region_path(id, path);
            ck_assert_str_eq(views[i].row.id, id);
            ck_assert_str_eq(views[i].path, path);
        }
        free(views);
    } while (token[0] != '\0');
    ck_assert_int_eq(seen, COUNT);
}
END_TEST

START_TEST(an_empty_list)
{
    struct page_request page = {.limit = 0};
    struct sandbox_view *views = NULL;
    size_t count = 1;
    char token[PAGE_TOKEN_SIZE] = "x";
    assert_works(operations_sandbox_list(fx.operations, &fx.caller, &page, &views, &count, token, &fx.err));
    ck_assert_uint_eq(count, 0);
    ck_assert_str_eq(token, "");
    free(views);
}
END_TEST

TCase *sandboxes_tests(void)
{
    TCase *tests = tcase_create("sandboxes");
    tcase_add_checked_fixture(tests, fixture_setup, fixture_teardown);
    tcase_add_test(tests, a_region_is_made_as_asked);
    tcase_add_test(tests, without_opt_in_there_is_no_region);
    tcase_add_test(tests, the_same_request_again_answers_the_sandbox);
    tcase_add_test(tests, another_request_of_the_same_id_is_told_the_difference);
    tcase_add_test(tests, an_id_that_is_busy_or_orphaned);
    tcase_add_test(tests, bad_fields_are_reported_together);
    tcase_add_test(tests, a_template_that_is_not_there);
    tcase_add_test(tests, an_owner_that_has_ended_owns_nothing);
    tcase_add_test(tests, files_belong_to_the_peer_when_root_makes_them);
    tcase_add_test(tests, an_ordinary_user_gives_no_files_away);
    tcase_add_test(tests, a_strangers_file_is_in_the_way);
    tcase_add_test(tests, quotas_of_the_host);
    tcase_add_test(tests, a_template_older_than_the_maximum);
    tcase_add_test(tests, quotas_of_a_user);
    tcase_add_test(tests, a_failed_create_returns_its_quota);
    tcase_add_test(tests, if_match_of_a_sandbox);
    tcase_add_test(tests, deletion_leaves_nothing);
    tcase_add_test(tests, deletion_leaves_a_strangers_file);
    tcase_add_test(tests, lists_come_in_pages);
    tcase_add_test(tests, an_empty_list);
    return tests;
}
