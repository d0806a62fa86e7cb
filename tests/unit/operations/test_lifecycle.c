/* Pause, resume, renew, and idempotency keys. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "fixture.h"

static struct sandbox_view view;

static int pause_it(const char *id)
{
    return operations_sandbox_pause(fx.operations, &fx.caller, id, &view, &fx.err);
}

static int resume_it(const char *id, const struct owner_spec *owner)
{
    return operations_sandbox_resume(fx.operations, &fx.caller, id, owner, &view, &fx.err);
}

static int renew_it(const char *id, int64_t seconds)
{
    return operations_sandbox_renew(fx.operations, &fx.caller, id, seconds, &view, &fx.err);
}

static void create_owned(const char *id, struct owner_spec owner)
{
    struct sandbox_spec spec = {.template_id = "t", .owner = owner};
    bool created = false;
    assert_works(operations_sandbox_create(fx.operations, &fx.caller, id, &spec, &view, &created, &fx.err));
}

static void setup(void)
{
    fixture_setup();
    put_template("t", true, 0);
}

START_TEST(pause_keeps_the_file_and_its_bytes)
{
    (void)create_sandbox("s", "t");
    char path[256];
    char bytes[8] = "";
    region_path("s", path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, "kept", 4, 60000), 4);
    assert_works(pause_it("s"));
    ck_assert_int_eq(view.row.state, SANDBOX_PAUSED);
    assert_works(resume_it("s", NULL));
    ck_assert_int_eq(view.row.state, SANDBOX_RUNNING);
    (void)close(fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(pread(fd, bytes, 4, 60000), 4);
    ck_assert_str_eq(bytes, "kept");
    (void)close(fd);
}
END_TEST

START_TEST(doing_it_twice_changes_nothing)
{
    (void)create_sandbox("s", "t");
    assert_works(pause_it("s"));
    int64_t revision = view.row.revision;
    assert_works(pause_it("s"));
    ck_assert_int_eq(view.row.revision, revision);
    assert_works(resume_it("s", NULL));
    revision = view.row.revision;
    assert_works(resume_it("s", NULL));
    ck_assert_int_eq(view.row.revision, revision);
    ck_assert_int_eq(newest_revision(), revision);
}
END_TEST

START_TEST(what_is_not_there_or_busy)
{
    assert_fails(pause_it("s"), REASON_SANDBOX_NOT_FOUND, "no sandbox s");
    assert_fails(resume_it("s", NULL), REASON_SANDBOX_NOT_FOUND, "");
    assert_fails(renew_it("s", 0), REASON_SANDBOX_NOT_FOUND, "");
    assert_fails(pause_it(".."), REASON_INVALID_ID, "");
    (void)create_sandbox("s", "t");
    set_state("s", SANDBOX_DELETING, "");
    assert_fails(pause_it("s"), REASON_SANDBOX_BUSY, "is deleting");
    assert_fails(resume_it("s", NULL), REASON_SANDBOX_BUSY, "");
    assert_fails(renew_it("s", 0), REASON_SANDBOX_BUSY, "");
}
END_TEST

START_TEST(resume_takes_a_new_owner)
{
    pid_t first = start_process();
    pid_t second = start_process();
    create_owned("s", (struct owner_spec){.kind = OWNER_PID, .pid = first});
    assert_works(pause_it("s"));
    end_process(first);
    assert_fails(resume_it("s", NULL), REASON_OWNER_GONE, "resume it with a new owner");
    struct owner_spec owner = {.kind = OWNER_PID, .pid = second};
    assert_works(resume_it("s", &owner));
    ck_assert_int_eq(view.row.state, SANDBOX_RUNNING);
    ck_assert_int_eq(view.row.owner.pid, second);
    ck_assert_int_eq(view.owner_condition, OWNER_ALIVE);
    end_process(second);
    struct sandbox_view now = get_sandbox("s");
    ck_assert_int_eq(now.owner_condition, OWNER_ENDED);
    assert_fails(resume_it("s", &owner), REASON_OWNER_GONE, "");
}
END_TEST

START_TEST(resume_without_an_owner_needs_the_old_one)
{
    pid_t pid = start_process();
    create_owned("s", (struct owner_spec){.kind = OWNER_PID, .pid = pid});
    assert_works(pause_it("s"));
    assert_works(resume_it("s", NULL));
    ck_assert_int_eq(view.row.owner.pid, pid);
    end_process(pid);
}
END_TEST

START_TEST(resume_checks_the_new_owner)
{
    (void)create_sandbox("s", "t");
    assert_works(pause_it("s"));
    struct owner_spec owner = {.kind = OWNER_PID, .pid = 0};
    assert_fails(resume_it("s", &owner), REASON_INVALID_FIELD, "owner.pid");
    owner = (struct owner_spec){.kind = OWNER_LEASE, .lease_seconds = 3601};
    assert_fails(resume_it("s", &owner), REASON_INVALID_FIELD, "owner.leaseSeconds");
    owner.lease_seconds = 5;
    assert_works(resume_it("s", &owner));
    ck_assert_int_eq(view.row.owner.kind, OWNER_LEASE);
    ck_assert_int_gt(view.lease_remaining_ms, 0);
    ck_assert_int_le(view.lease_remaining_ms, 5000);
}
END_TEST

START_TEST(resume_refuses_a_region_that_is_not_the_one)
{
    (void)create_sandbox("s", "t");
    assert_works(pause_it("s"));
    ck_assert_int_eq(truncate(view.path, 4096), 0);
    assert_fails(resume_it("s", NULL), REASON_REGION_LOST, "another size");
    ck_assert_int_eq(unlink(view.path), 0);
    assert_fails(resume_it("s", NULL), REASON_REGION_LOST, "missing");
    int fd = open(view.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, 65536), 0);
    (void)close(fd);
    assert_fails(resume_it("s", NULL), REASON_REGION_LOST, "another file");
    ck_assert_int_eq(get_sandbox("s").row.state, SANDBOX_PAUSED);
}
END_TEST

START_TEST(pause_saves_an_orphan_whose_region_is_there)
{
    (void)create_sandbox("s", "t");
    set_state("s", SANDBOX_ORPHANED, "owner_gone");
    assert_works(pause_it("s"));
    ck_assert_int_eq(view.row.state, SANDBOX_PAUSED);
    ck_assert_str_eq(view.row.reason, "");
    (void)create_sandbox("lost", "t");
    set_state("lost", SANDBOX_ORPHANED, "owner_gone");
    char path[256];
    region_path("lost", path);
    ck_assert_int_eq(unlink(path), 0);
    assert_fails(pause_it("lost"), REASON_REGION_LOST, "missing");
}
END_TEST

START_TEST(renew_extends_a_lease)
{
    create_owned("s", (struct owner_spec){.kind = OWNER_LEASE, .lease_seconds = 60});
    int64_t expires = view.row.owner.lease_expires_boot_ms;
    assert_works(renew_it("s", 0));
    ck_assert_int_eq(view.row.owner.lease_seconds, 60);
    ck_assert_int_ge(view.row.owner.lease_expires_boot_ms, expires);
    assert_works(renew_it("s", 600));
    ck_assert_int_eq(view.row.owner.lease_seconds, 600);
    ck_assert_int_ge(view.row.owner.lease_expires_boot_ms, expires + 540000);
    ck_assert_int_gt(view.lease_remaining_ms, 540000);
    assert_fails(renew_it("s", 3601), REASON_INVALID_FIELD, "leaseSeconds: must be 1 to 3600");
    assert_fails(renew_it("s", -1), REASON_INVALID_FIELD, "leaseSeconds");
    assert_works(pause_it("s"));
    assert_works(renew_it("s", 0));
    ck_assert_int_eq(view.row.state, SANDBOX_PAUSED);
}
END_TEST

START_TEST(renew_saves_an_orphan)
{
    create_owned("s", (struct owner_spec){.kind = OWNER_LEASE, .lease_seconds = 60});
    set_state("s", SANDBOX_ORPHANED, "lease_expired");
    assert_works(renew_it("s", 0));
    ck_assert_int_eq(view.row.state, SANDBOX_RUNNING);
    ck_assert_str_eq(view.row.reason, "");
}
END_TEST

START_TEST(only_leases_are_renewed)
{
    create_owned("process", (struct owner_spec){.kind = OWNER_PID, .pid = getpid()});
    assert_fails(renew_it("process", 60), REASON_NOT_LEASED, "process");
    (void)create_sandbox("free", "t");
    assert_fails(renew_it("free", 60), REASON_NOT_LEASED, "no owner");
}
END_TEST

START_TEST(actions_honour_if_match)
{
    struct sandbox_view created = create_sandbox("s", "t");
    fx.caller.has_if_match = true;
    fx.caller.if_match = created.row.revision + 1;
    assert_fails(pause_it("s"), REASON_REVISION_STALE, "at revision");
    fx.caller.if_match = created.row.revision;
    assert_works(pause_it("s"));
}
END_TEST

START_TEST(a_key_does_a_request_once)
{
    create_owned("s", (struct owner_spec){.kind = OWNER_LEASE, .lease_seconds = 60});
    fx.caller.idempotency_key = "k1";
    assert_works(pause_it("s"));
    int64_t paused = view.row.revision;
    fx.caller.idempotency_key = "k2";
    assert_works(resume_it("s", NULL));
    int64_t resumed = view.row.revision;
    ck_assert_int_gt(resumed, paused);
    /* A late repetition of the pause answers the sandbox as it is now and does not pause it again. */
    fx.caller.idempotency_key = "k1";
    assert_works(pause_it("s"));
    ck_assert_int_eq(view.row.state, SANDBOX_RUNNING);
    ck_assert_int_eq(view.row.revision, resumed);
    fx.caller.idempotency_key = "k3";
    assert_works(renew_it("s", 0));
    int64_t renewed = view.row.revision;
    assert_works(renew_it("s", 0));
    ck_assert_int_eq(view.row.revision, renewed);
    ck_assert_int_eq(newest_revision(), renewed);
}
END_TEST

START_TEST(a_key_outlives_the_passes_of_the_collector)
{
    (void)create_sandbox("s", "t");
    fx.caller.idempotency_key = "k1";
    int64_t before_ms = clock_real_ms();
    assert_works(pause_it("s"));
    fx.caller.idempotency_key = NULL;
    assert_works(resume_it("s", NULL));
    size_t removed = 0;
    assert_works(store_prune(fx.store, 1000, before_ms, 100, &removed, &fx.err));
    ck_assert_uint_eq(removed, 0);
    fx.caller.idempotency_key = "k1";
    assert_works(pause_it("s"));
    ck_assert_int_eq(view.row.state, SANDBOX_RUNNING);
    assert_works(store_prune(fx.store, 1000, clock_real_ms() + 1, 100, &removed, &fx.err));
    ck_assert_uint_eq(removed, 1);
}
END_TEST

START_TEST(a_key_is_for_one_request)
{
    create_owned("s", (struct owner_spec){.kind = OWNER_LEASE, .lease_seconds = 60});
    create_owned("z", (struct owner_spec){.kind = OWNER_LEASE, .lease_seconds = 60});
    fx.caller.idempotency_key = "k";
    assert_works(renew_it("s", 0));
    int64_t revision = newest_revision();
    assert_fails(renew_it("s", 61), REASON_IDEMPOTENCY_MISMATCH, "sandbox.renew s leaseSeconds=61");
    assert_fails(renew_it("z", 0), REASON_IDEMPOTENCY_MISMATCH, "");
    assert_fails(pause_it("s"), REASON_IDEMPOTENCY_MISMATCH, "");
    ck_assert_int_eq(newest_revision(), revision);
    fx.caller.uid++; /* keys of different users never meet */
    assert_works(pause_it("s"));
}
END_TEST

START_TEST(a_repeated_resume_does_not_need_its_process_any_more)
{
    (void)create_sandbox("s", "t");
    assert_works(pause_it("s"));
    pid_t pid = start_process();
    struct owner_spec owner = {.kind = OWNER_PID, .pid = pid};
    fx.caller.idempotency_key = "k";
    assert_works(resume_it("s", &owner));
    end_process(pid);
    assert_works(resume_it("s", &owner));
    ck_assert_int_eq(view.owner_condition, OWNER_ENDED);
    fx.caller.idempotency_key = NULL;
    assert_fails(resume_it("s", &owner), REASON_OWNER_GONE, "");
}
END_TEST

START_TEST(a_failed_request_keeps_no_key)
{
    (void)create_sandbox("s", "t");
    fx.caller.idempotency_key = "k";
    assert_fails(renew_it("s", 60), REASON_NOT_LEASED, "");
    assert_works(pause_it("s"));
}
END_TEST

START_TEST(bad_keys)
{
    (void)create_sandbox("s", "t");
    char longest[130];
    memset(longest, 'k', sizeof longest - 1);
    longest[129] = '\0';
    const char *const bad[] = {"", longest, "a\n", "\xc3\xa4", "a\x7f"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fx.caller.idempotency_key = bad[i];
        assert_fails(pause_it("s"), REASON_INVALID_REQUEST, "1 to 128 printable");
    }
    longest[128] = '\0';
    fx.caller.idempotency_key = longest;
    fx.caller.uid = UINT_MAX - 1;
    assert_works(pause_it("s"));
    fx.caller.idempotency_key = longest;
    assert_works(pause_it("s"));
}
END_TEST

START_TEST(a_restart_forgets_nothing)
{
    create_owned("s", (struct owner_spec){.kind = OWNER_LEASE, .lease_seconds = 60});
    fx.caller.idempotency_key = "k";
    assert_works(pause_it("s"));
    int64_t revision = view.row.revision;
    fixture_reopen();
    assert_works(pause_it("s"));
    ck_assert_int_eq(view.row.state, SANDBOX_PAUSED);
    ck_assert_int_eq(view.row.revision, revision);
    ck_assert_uint_eq(region_files(), 1);
    fx.caller.idempotency_key = NULL;
    assert_works(resume_it("s", NULL));
    ck_assert_int_eq(view.row.region.state, REGION_READY);
}
END_TEST

TCase *lifecycle_tests(void)
{
    TCase *tests = tcase_create("lifecycle");
    tcase_add_checked_fixture(tests, setup, fixture_teardown);
    tcase_add_test(tests, pause_keeps_the_file_and_its_bytes);
    tcase_add_test(tests, doing_it_twice_changes_nothing);
    tcase_add_test(tests, what_is_not_there_or_busy);
    tcase_add_test(tests, resume_takes_a_new_owner);
    tcase_add_test(tests, resume_without_an_owner_needs_the_old_one);
    tcase_add_test(tests, resume_checks_the_new_owner);
    tcase_add_test(tests, resume_refuses_a_region_that_is_not_the_one);
    tcase_add_test(tests, pause_saves_an_orphan_whose_region_is_there);
    tcase_add_test(tests, renew_extends_a_lease);
    tcase_add_test(tests, renew_saves_an_orphan);
    tcase_add_test(tests, only_leases_are_renewed);
    tcase_add_test(tests, actions_honour_if_match);
    tcase_add_test(tests, a_key_does_a_request_once);
    tcase_add_test(tests, a_key_outlives_the_passes_of_the_collector);
    tcase_add_test(tests, a_key_is_for_one_request);
    tcase_add_test(tests, a_repeated_resume_does_not_need_its_process_any_more);
    tcase_add_test(tests, a_failed_request_keeps_no_key);
    tcase_add_test(tests, bad_keys);
    tcase_add_test(tests, a_restart_forgets_nothing);
    return tests;
}
