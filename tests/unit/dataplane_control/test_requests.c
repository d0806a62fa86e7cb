/* Requests: what is decoded, refused and answered, byte for byte as a client sends it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/proto/control.pb-c.h"
#include "base/cleanup.h"
#include "dataplane/control/requests.h"
#include "tests/unit/dataplane_control/fixture.h"

static const unsigned cpus[] = {3, 5};
static struct requests *requests;
static struct requester requester;
static struct response_packet packet;
static Chan__Control__V1__Response *response;

/* The generated structures have no const; nothing is changed through them. */
static char *text(const char *words)
{
    return (char *)(uintptr_t)words;
}

static void setup(void)
{
    fixture_setup();
    const struct requests_config config = {.table = table,
                                           .statistics = statistics,
                                           .software = "test 0",
                                           .instance = "0123456789abcdef0123456789abcdef",
                                           .cpus = cpus,
                                           .cpu_count = 2,
                                           .max_links = FIXTURE_LINKS};
    struct error err = ERROR_INIT;
    ck_assert_msg(requests_new(&config, &requests, &err) == 0, "%s", err.detail);
    requester = (struct requester){.greeted = true};
}

static void forget_response(void)
{
    if (response != NULL)
        chan__control__v1__response__free_unpacked(response, NULL);
    response = NULL;
    free(packet.bytes);
    packet.bytes = NULL;
}

static void teardown(void)
{
    forget_response();
    requests_free(requests);
    fixture_teardown();
}

static void send_packet(const struct request_packet *request)
{
    forget_response();
    struct error err = ERROR_INIT;
    ck_assert_msg(requests_answer(requests, &requester, request, &packet, &err) == 0, "%s", err.detail);
    ck_assert_uint_le(packet.size, CONTROL_PACKET_MAX);
    response = chan__control__v1__response__unpack(NULL, packet.size, packet.bytes);
    ck_assert_ptr_nonnull(response);
    ck_assert_msg((response->detail[0] == '\0') == (response->code == CHAN__CONTROL__V1__CODE__OK),
                  "code %d has the detail \"%s\"", (int)response->code, response->detail);
}

/* With these descriptors; -1 ends them. */
static void send_with(Chan__Control__V1__Request *request, const int *descriptors)
{
    request->id = 42;
    const size_t size = chan__control__v1__request__get_packed_size(request);
    auto_free uint8_t *bytes = malloc(size + 1);
    ck_assert_ptr_nonnull(bytes);
    (void)chan__control__v1__request__pack(request, bytes);
    struct request_packet to_send = {.bytes = bytes, .size = size};
    for (; *descriptors >= 0; descriptors++)
        to_send.descriptors[to_send.descriptor_count++] = *descriptors;
    send_packet(&to_send);
    ck_assert_uint_eq(response->id, 42);
    ck_assert(!packet.disconnect);
}

static void send_request(Chan__Control__V1__Request *request)
{
    static const int none[] = {-1};
    send_with(request, none);
}

static void say_hello(uint32_t version)
{
    Chan__Control__V1__Hello hello;
    chan__control__v1__hello__init(&hello);
    hello.version = version;
    hello.client = text("a name that is longer than the sixty-three bytes that there are for one");
    Chan__Control__V1__Request request;
    chan__control__v1__request__init(&request);
    request.call_case = CHAN__CONTROL__V1__REQUEST__CALL_HELLO;
    request.hello = &hello;
    send_request(&request);
}

static void list(uint32_t limit, const char *after, const char *only)
{
    Chan__Control__V1__ListLinks links;
    chan__control__v1__list_links__init(&links);
    links.limit = limit;
    links.after_id = text(after);
    links.only_id = text(only);
    Chan__Control__V1__Request request;
    chan__control__v1__request__init(&request);
    request.call_case = CHAN__CONTROL__V1__REQUEST__CALL_LIST_LINKS;
    request.list_links = &links;
    send_request(&request);
}

/* A link whose ends have listeners as the mask says. */
static void create_with(unsigned mask, const int *descriptors)
{
    Chan__Control__V1__EndSpec ends[2];
    Chan__Control__V1__EndSpec *pointers[2] = {&ends[0], &ends[1]};
    for (unsigned i = 0; i < 2; i++) {
        chan__control__v1__end_spec__init(&ends[i]);
        ends[i].type = text("quiet");
        ends[i].socket_path = text(i == 0 ? "/first" : "/second");
        ends[i].has_listener = (mask >> i & 1) != 0;
    }
    Chan__Control__V1__CreateLink create_link;
    chan__control__v1__create_link__init(&create_link);
    create_link.id = text("l");
    create_link.ends = pointers;
    create_link.n_ends = 2;
    Chan__Control__V1__Request request;
    chan__control__v1__request__init(&request);
    request.call_case = CHAN__CONTROL__V1__REQUEST__CALL_CREATE_LINK;
    request.create_link = &create_link;
    send_with(&request, descriptors);
}

START_TEST(hello_tells_who_is_there)
{
    requester.greeted = false;
    list(0, "", "");
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__INVALID);
    say_hello(2);
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__VERSION_MISMATCH);
    ck_assert(!requester.greeted);
    ck_assert_int_eq(packet.descriptor, -1);
    say_hello(1);
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__OK);
    ck_assert(requester.greeted);
    ck_assert_uint_eq(strlen(requester.name), CONTROL_CLIENT_NAME_SIZE - 1);
    ck_assert_int_eq(packet.descriptor, statistics_memory_fd(statistics));
    ck_assert_int_eq(response->reply_case, CHAN__CONTROL__V1__RESPONSE__REPLY_HELLO);
    const Chan__Control__V1__HelloReply *hello = response->hello;
    ck_assert_str_eq(hello->software, "test 0");
    ck_assert_str_eq(hello->instance, "0123456789abcdef0123456789abcdef");
    ck_assert_uint_eq(hello->max_links, FIXTURE_LINKS);
    ck_assert_uint_eq(hello->n_cpus, 2);
    ck_assert_uint_eq(hello->cpus[1], 5);
    list(0, "", "");
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__OK);
    ck_assert_int_eq(packet.descriptor, -1);
}
END_TEST

START_TEST(what_is_no_request_disconnects)
{
    static const uint8_t bytes[] = {0xff, 0xff, 0xff};
    const int fd = some_descriptor();
    const struct request_packet garbage = {
        .bytes = bytes, .size = sizeof bytes, .descriptors = {fd}, .descriptor_count = 1};
    send_packet(&garbage);
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__INVALID);
    ck_assert(packet.disconnect);
    ck_assert(!is_open(fd));
    /* The beginning of a packet that was too long is not looked at, whatever it is. */
    const struct request_packet truncated = {.bytes = bytes, .size = 0, .truncated = true};
    send_packet(&truncated);
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__INVALID);
    ck_assert(packet.disconnect);
}
END_TEST

START_TEST(descriptors_are_counted)
{
    const int first[] = {some_descriptor(), -1};
    create_with(3, first); /* one too few */
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__INVALID);
    ck_assert(!is_open(first[0]));
    ck_assert_uint_eq(link_table_count(table), 0);

    const int second[] = {some_descriptor(), some_descriptor(), -1};
    create_with(2, second); /* one too many */
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__OK);
    ck_assert(response->create_link->created);
    ck_assert(is_open(second[0]));
    ck_assert(!is_open(second[1]));

    const int third[] = {some_descriptor(), some_descriptor(), -1};
    create_with(3, third); /* it is there */
    ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__OK);
    ck_assert(!response->create_link->created);
    ck_assert(!is_open(third[0]));
    ck_assert(!is_open(third[1]));
    ck_assert(is_open(second[0]));
}
END_TEST

/* Every string as long as it can be and every number as large: a page must still fit into a packet. */
START_TEST(the_largest_page_fits)
{
    char reason[END_REASON_SIZE];
    memset(reason, 'r', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    for (unsigned i = 0; i < FIXTURE_LINKS; i++) {
        struct link_specification specification = {.id = ""};
        memset(specification.id, 'x', LINK_ID_MAX);
        for (unsigned digit = 0, rest = i; digit < 3; digit++, rest /= 10)
            specification.id[2 - digit] = (char)('0' + rest % 10);
        for (unsigned end = 0; end < 2; end++) {
            struct end_specification *to = &specification.ends[end];
            *to = (struct end_specification){.role = END_CLIENT, .offloads_off = UINT64_MAX, .mtu = 65535};
            memset(to->type, 't', sizeof to->type - 1);
            memset(to->socket_path, 'p', sizeof to->socket_path - 1);
        }
        struct error err = ERROR_INIT;
        const int none[2] = {-1, -1};
        const struct link_entry *made = NULL;
        bool created = false;
        ck_assert_msg(link_table_create(table, &specification, none, &made, &created, &err) == 0, "%s",
                      err.detail);
        quiet_end_set_status(link_end(made->link, 0), END_CONNECTED, reason);
        quiet_end_set_status(link_end(made->link, 1), END_CONNECTED, reason);
    }
    char after[LINK_ID_MAX + 1] = "";
    unsigned seen = 0;
    for (bool more = true; more;) {
        list(UINT32_MAX, after, ""); /* send_packet checks the size */
        ck_assert_int_eq(response->code, CHAN__CONTROL__V1__CODE__OK);
        const Chan__Control__V1__ListLinksReply *page = response->list_links;
        ck_assert_uint_eq(page->n_links, FIXTURE_LINKS - seen < 64 ? FIXTURE_LINKS - seen : 64);
        seen += (unsigned)page->n_links;
        ck_assert_str_eq(page->links[0]->ends[1]->reason, reason);
        ck_assert_uint_eq(page->links[0]->ends[1]->features, UINT64_MAX);
        (void)snprintf(after, sizeof after, "%s", page->links[page->n_links - 1]->id);
        more = page->more;
        ck_assert(more == (seen < FIXTURE_LINKS));
    }
    ck_assert_uint_eq(seen, FIXTURE_LINKS);
}
END_TEST

START_TEST(one_link_and_small_pages)
{
    (void)create("a");
    (void)create("b");
    (void)create("c");
    list(0, "", "b");
    ck_assert_uint_eq(response->list_links->n_links, 1);
    ck_assert_str_eq(response->list_links->links[0]->id, "b");
    ck_assert(!response->list_links->more);
    list(0, "", "d");
    ck_assert_uint_eq(response->list_links->n_links, 0);
    list(2, "", "");
    ck_assert_uint_eq(response->list_links->n_links, 2);
    ck_assert(response->list_links->more);
    list(2, "b", "");
    ck_assert_uint_eq(response->list_links->n_links, 1);
    ck_assert_str_eq(response->list_links->links[0]->id, "c");
    ck_assert(!response->list_links->more);
}
END_TEST

TCase *requests_tcase(void)
{
    TCase *tcase = tcase_create("requests");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, hello_tells_who_is_there);
    tcase_add_test(tcase, what_is_no_request_disconnects);
    tcase_add_test(tcase, descriptors_are_counted);
    tcase_add_test(tcase, the_largest_page_fits);
    tcase_add_test(tcase, one_link_and_small_pages);
    return tcase;
}
