/* Links, with a dataplane that moves nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "tests/unit/links_client/fake.h"

static struct fake *fake;

static void setup(void)
{
    char path[96];
    fixture_setup();
    (void)snprintf(path, sizeof path, "%s/dataplane.sock", fx.state);
    fake = fake_start(path);
    ck_assert_ptr_nonnull(fake);
    fixture_reopen();
    put_template("t", false, 0);
}

static void teardown(void)
{
    fixture_teardown();
    fake_stop(fake);
}

static int put_ends(const char *id, const struct link_end_spec ends[2], struct link_view *view, bool *created)
{
    const struct link_spec spec = {.ends = ends, .end_count = 2};
    return operations_link_put(fx.operations, &fx.caller, id, &spec, view, created, &fx.err);
}

static int put(const char *id, const char *first, const char *second, struct link_view *view, bool *created)
{
    const struct link_end_spec ends[2] = {{.sandbox_id = first}, {.sandbox_id = second}};
    return put_ends(id, ends, view, created);
}

static struct link_view make(const char *id, const char *first, const char *second)
{
    struct link_view view;
    bool created = false;
    assert_works(put(id, first, second, &view, &created));
    ck_assert_msg(created, "link %s was there before", id);
    return view;
}

static void put_fails(const char *id, const char *first, const char *second, enum reason reason,
                      const char *part)
{
    struct link_view view;
    bool created;
    assert_fails(put(id, first, second, &view, &created), reason, part);
}

static int get(const char *id, struct link_view *view)
{
    return operations_link_get(fx.operations, &fx.caller, id, view, &fx.err);
}

static int erase(const char *id)
{
    return operations_link_delete(fx.operations, &fx.caller, id, &fx.err);
}

static bool has_directory(const char *id)
{
    char path[256];
    struct stat status;
    (void)snprintf(path, sizeof path, "%s/links/%s", fx.state, id);
    return lstat(path, &status) == 0;
}

/* The kinds of all events about a link, each with a space. */
static void event_kinds(const char *id, char *out, size_t size)
{
    struct event_row *rows = NULL;
    size_t count = 0;
    int64_t last = 0;
    int64_t newest = 0;
    size_t used = 0;
    out[0] = '\0';
    assert_works(operations_event_list(fx.operations, &fx.caller, EVENTS_SINCE_OLDEST, 1000, &rows, &count,
                                       &last, &newest, &fx.err));
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].object_id, id) == 0 && strcmp(rows[i].object_kind, "link") == 0)
            used += (size_t)snprintf(out + used, size - used, "%s ", rows[i].kind);
    store_event_list_free(rows, count);
}

static void assert_events(const char *id, const char *expected)
{
    char kinds[512];
    event_kinds(id, kinds, sizeof kinds);
    ck_assert_str_eq(kinds, expected);
}

static int insert(struct store_txn *txn, void *argument, struct error *err)
{
    struct link_row *row = argument;
    if (store_link_insert(txn, row, err) != 0)
        return -1;
    return store_event_add(txn, "link.tested", "link", row->id, NULL, err);
}

/* A row as a crash leaves it. */
static void leave_row(const char *id, enum link_row_state state)
{
    struct link_row row = {.state = state};
    const struct store_actor actor = {.who = "test", .operation = "test", .object_id = id, .result = "ok"};
    (void)snprintf(row.id, sizeof row.id, "%s", id);
    for (size_t end = 0; end < 2; end++)
        (void)snprintf(row.ends[end].type, sizeof row.ends[end].type, "vhost-user");
    assert_works(store_write(fx.store, &actor, insert, &row, &fx.err));
}

START_TEST(a_link_is_made_as_asked)
{
    (void)create_sandbox("a", "t");
    const struct link_view view = make("l", "a", NULL);
    struct link_view again;
    struct fake_link there;
    ck_assert_int_eq(view.row.state, LINK_READY);
    ck_assert_str_eq(view.row.ends[0].sandbox_id, "a");
    ck_assert_str_eq(view.row.ends[1].sandbox_id, "");
    ck_assert_uint_eq(view.row.uid, geteuid());
    ck_assert(view.state.known);
    ck_assert(fake_find(fake, "l", &there));
    ck_assert_str_eq(view.state.ends[1].socket_path, there.ends[1].path);
    ck_assert_int_eq(access(there.ends[1].path, F_OK), 0);
    assert_works(get("l", &again));
    ck_assert_int_eq(again.row.revision, view.row.revision);
    assert_events("l", "link.creating link.created ");
    struct node_view node;
    assert_works(operations_node_get(fx.operations, &fx.caller, &node, &fx.err));
    ck_assert_uint_eq(node.links, 1);
    ck_assert_uint_eq(node.links_by_state[LINK_READY], 1);
    ck_assert(node.dataplane.connected);
}
END_TEST

START_TEST(the_same_request_changes_nothing_and_another_is_refused)
{
    (void)create_sandbox("a", "t");
    const struct link_view first = make("l", "a", NULL);
    struct link_view view;
    bool created = true;
    const int64_t before = newest_revision();
    assert_works(put("l", "a", NULL, &view, &created));
    ck_assert(!created);
    ck_assert_int_eq(view.row.revision, first.row.revision);
    put_fails("l", NULL, NULL, REASON_LINK_EXISTS, "its ends[0] is another one");
    put_fails("l", "a", "a", REASON_LINK_EXISTS, "its ends[1] is another one");
    if (geteuid() == 0) {
        fx.caller.uid = 1234; /* who could not enter the directory of the end without a sandbox */
        put_fails("l", "a", NULL, REASON_LINK_EXISTS, "belong to uid 0");
    }
    ck_assert_int_eq(newest_revision(), before);
}
END_TEST

START_TEST(bad_fields_are_named)
{
    char long_path[128];
    memset(long_path, 'p', sizeof long_path);
    long_path[0] = '/';
    long_path[108] = '\0';
    static char at_most[108];
    memcpy(at_most, long_path, 107);
    static const struct link_end_spec good = {.type = NULL};
    const struct {
        struct link_end_spec end;
        const char *field, *part;
    } cases[] = {
        {{.type = "tap"}, "ends[1].type", "vhost-user"},
        {{.sandbox_id = "../x"}, "ends[1].sandboxID", "not allowed"},
        {{.role = "both"}, "ends[1].role", "\"server\" or \"client\""},
        {{.role = "client"}, "ends[1].socketPath", "is required"},
        {{.role = "client", .socket_path = ""}, "ends[1].socketPath", "is required"},
        {{.role = "client", .socket_path = "vm.sock"}, "ends[1].socketPath", "absolute"},
        {{.role = "client", .socket_path = long_path}, "ends[1].socketPath", "has 108 bytes"},
        {{.socket_path = "/vm.sock"}, "ends[1].socketPath", "is for the role client"},
        {{.has_mtu = true, .mtu = 67}, "ends[1].mtu", "68 to 65535"},
        {{.has_mtu = true, .mtu = 65536}, "ends[1].mtu", "68 to 65535"},
    };
    struct link_view view;
    bool created;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct link_end_spec ends[2] = {good, cases[i].end};
        assert_fails(put_ends("l", ends, &view, &created), REASON_INVALID_FIELD, "");
        ck_assert_uint_eq(fx.err.field_count, 1);
        assert_field(cases[i].field, cases[i].part);
    }
    const struct link_spec three = {.ends = &good, .end_count = 3};
    assert_fails(operations_link_put(fx.operations, &fx.caller, "l", &three, &view, &created, &fx.err),
                 REASON_INVALID_FIELD, "");
    assert_field("ends", "must be two");
    const struct link_end_spec same[2] = {{.role = "client", .socket_path = "/vm.sock"},
                                          {.role = "client", .socket_path = "/vm.sock"}};
    assert_fails(put_ends("l", same, &view, &created), REASON_INVALID_FIELD, "");
    assert_field("ends[1].socketPath", "the other end's too");
    const struct link_end_spec edge[2] = {
        {.has_mtu = true, .mtu = 68},
        {.role = "client", .socket_path = at_most, .has_mtu = true, .mtu = 65535}};
    assert_works(put_ends("l", edge, &view, &created));
    ck_assert_str_eq(view.row.ends[1].socket_path, at_most);
    put_fails("no/slash", NULL, NULL, REASON_INVALID_ID, "linkID");
    char id[ID_SIZE];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    put_fails(id, NULL, NULL, REASON_INVALID_ID, "unix socket");
}
END_TEST

START_TEST(a_sandbox_of_a_link_must_be_there)
{
    (void)create_sandbox("a", "t");
    put_fails("l", "a", "b", REASON_SANDBOX_NOT_FOUND, "no sandbox b");
    set_state("a", SANDBOX_DELETING, "");
    put_fails("l", "a", NULL, REASON_SANDBOX_BUSY, "is deleting");
    set_state("a", SANDBOX_ORPHANED, "owner_gone");
    put_fails("l", NULL, "a", REASON_OWNER_GONE, "owner_gone");
    set_state("a", SANDBOX_PAUSED, "");
    (void)make("l", "a", NULL);
    assert_events("l", "link.creating link.created ");
}
END_TEST

START_TEST(what_the_dataplane_refuses_leaves_nothing)
{
    fake->refusal = CHAN__CONTROL__V1__CODE__LIMIT_REACHED;
    put_fails("l", NULL, NULL, REASON_RESOURCE_LIMIT, "as the test has it");
    struct link_view view;
    assert_fails(get("l", &view), REASON_LINK_NOT_FOUND, "no link l");
    ck_assert(!has_directory("l"));
    assert_events("l", "link.creating link.create_failed ");
    fake->refusal = CHAN__CONTROL__V1__CODE__OK;
    (void)make("l", NULL, NULL);
}
END_TEST

START_TEST(what_is_half_done_is_not_in_the_way)
{
    leave_row("creating", LINK_CREATING);
    leave_row("deleting", LINK_DELETING);
    const struct link_view created = make("creating", NULL, NULL);
    ck_assert_int_eq(created.row.state, LINK_READY);
    const struct link_view deleted = make("deleting", NULL, NULL);
    ck_assert_int_eq(deleted.row.state, LINK_READY);
    ck_assert_uint_eq(fake_count(fake), 2);
}
END_TEST

START_TEST(deletion)
{
    (void)make("l", NULL, NULL);
    fx.caller.has_if_match = true;
    fx.caller.if_match = 1;
    assert_fails(erase("l"), REASON_REVISION_STALE, "link l is at revision");
    fx.caller.has_if_match = false;
    assert_works(erase("l"));
    ck_assert(!has_directory("l"));
    ck_assert_uint_eq(fake_count(fake), 0);
    assert_fails(erase("l"), REASON_LINK_NOT_FOUND, "no link l");
    assert_fails(erase(".."), REASON_INVALID_ID, "linkID");
    assert_events("l", "link.creating link.created link.deleting link.deleted ");
}
END_TEST

START_TEST(a_sandbox_takes_its_links_along)
{
    struct link_view view;
    (void)create_sandbox("a", "t");
    (void)create_sandbox("b", "t");
    (void)make("first", "a", "b");
    (void)make("second", NULL, "a");
    (void)make("other", "b", NULL);
    delete_sandbox("a");
    assert_fails(get("first", &view), REASON_LINK_NOT_FOUND, "");
    assert_fails(get("second", &view), REASON_LINK_NOT_FOUND, "");
    assert_works(get("other", &view));
    ck_assert(!has_directory("first"));
    ck_assert(!has_directory("second"));
    ck_assert(has_directory("other"));
    ck_assert_uint_eq(fake_count(fake), 1);
    assert_events("first", "link.creating link.created link.deleted ");
}
END_TEST

START_TEST(lists)
{
    struct link_view *views = NULL;
    size_t count = 0;
    char token[PAGE_TOKEN_SIZE];
    (void)create_sandbox("a", "t");
    (void)make("l1", NULL, NULL);
    (void)make("l2", "a", NULL);
    (void)make("l3", NULL, "a");
    struct page_request page = {.limit = 2};
    assert_works(
        operations_link_list(fx.operations, &fx.caller, &page, NULL, &views, &count, token, &fx.err));
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(views[1].row.id, "l2");
    ck_assert(views[0].state.known && views[1].state.known);
    free(views);
    page.page_token = token;
    char last[PAGE_TOKEN_SIZE];
    assert_works(operations_link_list(fx.operations, &fx.caller, &page, NULL, &views, &count, last, &fx.err));
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(views[0].row.id, "l3");
    ck_assert_str_eq(last, "");
    free(views);
    page = (struct page_request){.limit = 0};
    assert_works(operations_link_list(fx.operations, &fx.caller, &page, "a", &views, &count, last, &fx.err));
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(views[0].row.id, "l2");
    free(views);
    assert_works(operations_link_list(fx.operations, &fx.caller, &page, "b", &views, &count, last, &fx.err));
    ck_assert_uint_eq(count, 0);
    free(views);
    struct sandbox_view *sandboxes = NULL;
    page.page_token = token;
    assert_fails(operations_sandbox_list(fx.operations, &fx.caller, &page, &sandboxes, &count, last, &fx.err),
                 REASON_INVALID_PAGE_TOKEN, "not one of this list");
}
END_TEST

TCase *links_tests(void)
{
    TCase *tcase = tcase_create("links");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_link_is_made_as_asked);
    tcase_add_test(tcase, the_same_request_changes_nothing_and_another_is_refused);
    tcase_add_test(tcase, bad_fields_are_named);
    tcase_add_test(tcase, a_sandbox_of_a_link_must_be_there);
    tcase_add_test(tcase, what_the_dataplane_refuses_leaves_nothing);
    tcase_add_test(tcase, what_is_half_done_is_not_in_the_way);
    tcase_add_test(tcase, deletion);
    tcase_add_test(tcase, a_sandbox_takes_its_links_along);
    tcase_add_test(tcase, lists);
    return tcase;
}
