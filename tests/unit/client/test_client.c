#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "chan/client.h"
#include "tests/unit/client/server.h"

#define OK_EMPTY_OBJECT "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

static struct server *server;
static struct chan_client *client;
static struct chan_reply reply;

static void start(const struct answer *answers, size_t count)
{
    server = server_start(answers, count);
    ck_assert_int_eq(chan_client_new(server_path(server), &client), 0);
}
#define START(...)                                                                                           \
    static const struct answer answers[] = {__VA_ARGS__};                                                    \
    start(answers, sizeof answers / sizeof answers[0])

static void tear_down(void)
{
    chan_reply_clear(&reply);
    chan_client_free(client);
    client = NULL;
    if (server != NULL)
        server_stop(server);
    server = NULL;
}

static void assert_asked(const char *part)
{
    ck_assert_msg(strstr(server_request(server), part) != NULL, "'%s' is not in the request:\n%s", part,
                  server_request(server));
}

START_TEST(an_object_comes_as_it_was_sent)
{
    START({"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nX-Request-ID: r-7\r\n"
           "Content-Length: 14\r\n\r\n{ \"a\" : [1] }\n",
           0, NULL, 0, 0});
    ck_assert_int_eq(chan_client_template_get(client, "tpl-1", &reply), 0);
    ck_assert_int_eq(reply.status, 200);
    ck_assert_str_eq(reply.body, "{ \"a\" : [1] }\n");
    ck_assert_uint_eq(reply.body_bytes, 14);
    ck_assert_str_eq(reply.request_id, "r-7");
    ck_assert_str_eq(reply.detail, "");
    assert_asked("GET /v1/templates/tpl-1 HTTP/1.1\r\n");
    ck_assert_ptr_null(strstr(server_request(server), "Content-Type"));
}
END_TEST

START_TEST(a_body_and_all_headers_go_along)
{
    START({OK_EMPTY_OBJECT, 0, NULL, 0, 0});
    const struct chan_call_options options = {.if_match = 12, .idempotency_key = "k 1", .request_id = "r-1"};
    ck_assert_int_eq(chan_client_sandbox_renew(client, "sb", "{\"leaseSeconds\":5}", &options, &reply), 0);
    assert_asked("POST /v1/sandboxes/sb/renew HTTP/1.1\r\n");
    assert_asked("\r\nContent-Type: application/json\r\n");
    assert_asked("\r\nIf-Match: \"12\"\r\n");
    assert_asked("\r\nIdempotency-Key: k 1\r\n");
    assert_asked("\r\nX-Request-ID: r-1\r\n");
    assert_asked("\r\n\r\n{\"leaseSeconds\":5}");
    ck_assert_ptr_null(strstr(server_request(server), "Expect"));
}
END_TEST

START_TEST(every_call_has_its_path)
{
    START({OK_EMPTY_OBJECT, 0, NULL, 0, 0});
    ck_assert_int_eq(chan_client_template_put(client, "t", NULL, NULL, &reply), 0);
    assert_asked("PUT /v1/templates/t HTTP/1.1\r\n");
    assert_asked("\r\n\r\n{}");
    ck_assert_int_eq(chan_client_template_delete(client, "t", NULL, &reply), 0);
    assert_asked("DELETE /v1/templates/t HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_template_list(client, 0, NULL, &reply), 0);
    assert_asked("GET /v1/templates HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_template_list(client, 5, "a+b/=", &reply), 0);
    assert_asked("GET /v1/templates?limit=5&pageToken=a%2Bb%2F%3D HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_sandbox_create(client, "s", "{}", NULL, &reply), 0);
    assert_asked("PUT /v1/sandboxes/s HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_sandbox_get(client, "s", &reply), 0);
    assert_asked("GET /v1/sandboxes/s HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_sandbox_delete(client, "s", NULL, &reply), 0);
    assert_asked("DELETE /v1/sandboxes/s HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_sandbox_list(client, 0, "x", &reply), 0);
    assert_asked("GET /v1/sandboxes?pageToken=x HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_sandbox_pause(client, "s", NULL, &reply), 0);
    assert_asked("POST /v1/sandboxes/s/pause HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_sandbox_resume(client, "s", NULL, NULL, &reply), 0);
    assert_asked("POST /v1/sandboxes/s/resume HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_link_put(client, "l", "{}", NULL, &reply), 0);
    assert_asked("PUT /v1/links/l HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_link_get(client, "l", &reply), 0);
    assert_asked("GET /v1/links/l HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_link_delete(client, "l", NULL, &reply), 0);
    assert_asked("DELETE /v1/links/l HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_link_list(client, 0, NULL, NULL, &reply), 0);
    assert_asked("GET /v1/links HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_link_list(client, 3, "t", "a&b", &reply), 0);
    assert_asked("GET /v1/links?limit=3&pageToken=t&sandboxID=a%26b HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_link_list(client, 0, "", "s", &reply), 0);
    assert_asked("GET /v1/links?sandboxID=s HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_event_list(client, 7, 9, &reply), 0);
    assert_asked("GET /v1/events?since=7&limit=9 HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_event_list(client, 0, 0, &reply), 0);
    assert_asked("GET /v1/events?since=0 HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_event_list(client, -1, 9, &reply), 0);
    assert_asked("GET /v1/events?limit=9 HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_event_list(client, -1, 0, &reply), 0);
    assert_asked("GET /v1/events HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_node_get(client, &reply), 0);
    assert_asked("GET /v1/node HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_ready(client, &reply), 0);
    assert_asked("GET /readyz HTTP/1.1\r\n");
    /* All of them went over one connection. */
    ck_assert_int_eq(server_connections(server), 1);
}
END_TEST

START_TEST(an_id_never_leads_elsewhere)
{
    START({OK_EMPTY_OBJECT, 0, NULL, 0, 0});
    ck_assert_int_eq(chan_client_sandbox_get(client, "../templates/x?a=b#c d\r\ne", &reply), 0);
    assert_asked("GET /v1/sandboxes/..%2Ftemplates%2Fx%3Fa%3Db%23c%20d%0D%0Ae HTTP/1.1\r\n");
    ck_assert_int_eq(chan_client_sandbox_get(client, "..", &reply), 0);
    assert_asked("GET /v1/sandboxes/.. HTTP/1.1\r\n"); /* as it is; chand refuses it */
}
END_TEST

START_TEST(no_content)
{
    START({"HTTP/1.1 204 No Content\r\n\r\n", 0, NULL, 0, 0});
    ck_assert_int_eq(chan_client_sandbox_delete(client, "s", NULL, &reply), 0);
    ck_assert_int_eq(reply.status, 204);
    ck_assert_str_eq(reply.body, "");
}
END_TEST

START_TEST(text_is_handed_over)
{
    START({"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nchan 1", 0, NULL, 0, 0});
    ck_assert_int_eq(chan_client_call(client, "GET", "/metrics", NULL, NULL, &reply), 0);
    ck_assert_str_eq(reply.body, "chan 1");
}
END_TEST

START_TEST(a_problem_is_taken_apart)
{
    START({"HTTP/1.1 422 Unprocessable Content\r\nContent-Type: application/problem+json\r\nConnection: close"
           "\r\n\r\n"
           "{\"type\":\"about:blank\",\"title\":\"A field\",\"status\":422,\"detail\":\"size: bad\","
           "\"reason\":\"invalid_field\",\"requestID\":\"r-9\",\"errors\":[{\"field\":\"size\",\"detail\":"
           "\"bad\"},"
           "{\"nonsense\":1},{\"field\":\"b\",\"detail\":null}]}",
           0, NULL, 1, 0});
    ck_assert_int_eq(chan_client_template_put(client, "t", "{}", NULL, &reply), -EREMOTEIO);
    ck_assert_int_eq(reply.status, 422);
    ck_assert_str_eq(reply.reason, "invalid_field");
    ck_assert_str_eq(reply.title, "A field");
    ck_assert_str_eq(reply.detail, "size: bad");
    ck_assert_str_eq(reply.request_id, "r-9");
    ck_assert_uint_eq(reply.field_count, 2);
    ck_assert_str_eq(reply.fields[0].field, "size");
    ck_assert_str_eq(reply.fields[0].detail, "bad");
    ck_assert_str_eq(reply.fields[1].detail, "");
}
END_TEST

START_TEST(long_texts_are_cut_between_characters)
{
    static const struct answer cut[] = {
        {"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n{\"reason\":\""
         "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
         "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
         "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
         "xx"
         "\xe2\x82\xac\"}",
         0, NULL, 1, 0}};
    start(cut, 1);
    ck_assert_int_eq(chan_client_sandbox_get(client, "s", &reply), -EREMOTEIO);
    ck_assert_uint_eq(strlen(reply.reason), 62);
    ck_assert_str_eq(reply.reason + 60, "xx");
}
END_TEST

START_TEST(a_refusal_without_a_problem)
{
    START({"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 9\r\n\r\n<html>oh!", 0, NULL, 0, 0});
    ck_assert_int_eq(chan_client_node_get(client, &reply), -EREMOTEIO);
    ck_assert_int_eq(reply.status, 502);
    ck_assert_str_eq(reply.reason, "");
    ck_assert_str_eq(reply.detail, "the daemon answered with HTTP status 502");
    ck_assert_str_eq(reply.body, "<html>oh!");
}
END_TEST

static const struct {
    struct answer answer;
    int result;
    const char *detail;
} nonsense[] = {
    {{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"a\":", 0, NULL, 1,
      0},
     -EPROTO,
     "cut short"},
    {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n", 0, NULL, 1, 0},
     -EPROTO,
     "cut short"},
    {{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":", 0, NULL, 1, 0},
     -EPROTO,
     "not valid JSON"},
    {{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n", 0, NULL, 0, 0},
     -EPROTO,
     "not valid JSON"},
    {{"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nokay", 0, NULL, 0, 0},
     -EPROTO,
     "not valid JSON"},
    {{"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"\xff\":1}", 0, NULL, 0, 0}, -EPROTO, "not valid JSON"},
    {{"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"a\":1,\"a\":2}", 0, NULL, 0, 0},
     -EPROTO,
     "not valid JSON"},
    {{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", 0, NULL, 0, 0}, -EPROTO, "not an object"},
    {{"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 0, NULL, 0, 0},
     -EPROTO,
     "status 302"},
    {{"SSH-2.0-OpenSSH_9.2\r\n", 0, NULL, 1, 0}, -EPROTO, "not HTTP"},
    {{NULL, 0, NULL, 1, 0}, -ECONNRESET, "ended before an answer"},
    {{"HTTP/1.1 200 OK\r\n", 2000, "X-Filler: 0123456789012345678901234567890123456789\r\n", 1, 0},
     -EMSGSIZE,
     "too large"},
    {{NULL, 0, NULL, 0, 1}, -ETIMEDOUT, "within 300 ms"},
    {{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", 0, NULL, 0, 0}, -ETIMEDOUT, "within 300 ms"},
};

START_TEST(nonsense_is_told_from_answers)
{
    start(&nonsense[_i].answer, 1);
    chan_client_set_timeouts(client, 300, 300);
    if (nonsense[_i].result != -ETIMEDOUT)
        chan_client_set_timeouts(client, 30000, 30000);
    int result = chan_client_node_get(client, &reply);
    ck_assert_msg(result == nonsense[_i].result, "expected %d, got %d: %s", nonsense[_i].result, result,
                  reply.detail);
    ck_assert_msg(strstr(reply.detail, nonsense[_i].detail) != NULL, "'%s' is not in: %s",
                  nonsense[_i].detail, reply.detail);
    ck_assert_ptr_null(reply.body);
    ck_assert_int_eq(reply.status, 0);
}
END_TEST

START_TEST(an_endless_body_is_given_up)
{
    char filler[65537];
    memset(filler, ' ', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    const struct answer answer = {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{", 1025, filler, 1, 0};
    start(&answer, 1);
    ck_assert_int_eq(chan_client_node_get(client, &reply), -EMSGSIZE);
    ck_assert_ptr_null(reply.body);
}
END_TEST

START_TEST(a_connection_that_was_closed_meanwhile_is_made_again)
{
    START({OK_EMPTY_OBJECT, 0, NULL, 1, 0}, {OK_EMPTY_OBJECT, 0, NULL, 0, 0});
    ck_assert_int_eq(chan_client_node_get(client, &reply), 0);
    ck_assert_int_eq(chan_client_node_get(client, &reply), 0);
    ck_assert_int_eq(server_requests(server), 2);
    ck_assert_int_eq(server_connections(server), 2);
}
END_TEST

START_TEST(one_reply_serves_after_a_failure)
{
    START({"HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\n\r\n{\"reason\":\"x\"}", 0, NULL, 0, 0},
          {OK_EMPTY_OBJECT, 0, NULL, 0, 0});
    ck_assert_int_eq(chan_client_node_get(client, &reply), -EREMOTEIO);
    ck_assert_str_eq(reply.reason, "x");
    ck_assert_int_eq(chan_client_node_get(client, &reply), 0);
    ck_assert_str_eq(reply.reason, "");
    ck_assert_str_eq(reply.detail, "");
}
END_TEST

START_TEST(what_cannot_be_sent_is_refused)
{
    START({OK_EMPTY_OBJECT, 0, NULL, 0, 0});
    const struct chan_call_options two_lines = {.idempotency_key = "a\r\nX-Evil: 1"};
    ck_assert_int_eq(chan_client_sandbox_pause(client, "s", &two_lines, &reply), -EINVAL);
    char key[600];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    const struct chan_call_options long_one = {.request_id = key};
    ck_assert_int_eq(chan_client_sandbox_pause(client, "s", &long_one, &reply), -EINVAL);
    ck_assert_int_eq(chan_client_sandbox_get(client, "", &reply), -EINVAL);
    ck_assert_str_eq(reply.detail, "the id is empty");
    ck_assert_int_eq(chan_client_sandbox_get(client, NULL, &reply), -EINVAL);
    ck_assert_int_eq(chan_client_call(client, "GET", "v1/node", NULL, NULL, &reply), -EINVAL);
    ck_assert_int_eq(chan_client_call(client, "GET", "/v1/node HTTP/1.1\r\n", NULL, NULL, &reply), -EINVAL);
    ck_assert_int_eq(chan_client_call(client, "GET\n", "/v1/node", NULL, NULL, &reply), -EINVAL);
    ck_assert_int_eq(server_requests(server), 0);
}
END_TEST

START_TEST(the_environment_has_no_say)
{
    START({OK_EMPTY_OBJECT, 0, NULL, 0, 0});
    ck_assert_int_eq(setenv("http_proxy", "http://192.0.2.1:9", 1), 0);
    ck_assert_int_eq(setenv("ALL_PROXY", "http://192.0.2.1:9", 1), 0);
    ck_assert_int_eq(chan_client_node_get(client, &reply), 0);
}
END_TEST

START_TEST(nobody_there)
{
    ck_assert_int_eq(chan_client_new("/nonexistent/chand.sock", &client), 0);
    ck_assert_int_eq(chan_client_node_get(client, &reply), -ENOENT);
    ck_assert_str_eq(reply.detail, "cannot connect to /nonexistent/chand.sock: No such file or directory");
}
END_TEST

START_TEST(a_socket_that_nobody_listens_on)
{
    char directory[] = "/tmp/chan-client-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(directory));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", directory);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    (void)close(fd);
    ck_assert_int_eq(chan_client_new(address.sun_path, &client), 0);
    int result = chan_client_node_get(client, &reply);
    (void)unlink(address.sun_path);
    (void)rmdir(directory);
    ck_assert_int_eq(result, -ECONNREFUSED);
}
END_TEST

START_TEST(socket_paths)
{
    char path[200];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    ck_assert_int_eq(chan_client_new(path, &client), -ENAMETOOLONG);
    ck_assert_int_eq(chan_client_new("", &client), -EINVAL);
    ck_assert_int_eq(chan_client_new(NULL, &client), -EINVAL);
    ck_assert_ptr_null(client);
    path[107] = '\0'; /* the longest */
    ck_assert_int_eq(chan_client_new(path, &client), 0);
    ck_assert_int_eq(chan_client_node_get(client, &reply), -ENOENT);
    chan_client_free(NULL);
    chan_reply_clear(NULL);
}
END_TEST

static Suite *client_suite(void)
{
    Suite *suite = suite_create("client");
    TCase *tests = tcase_create("client");
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, an_object_comes_as_it_was_sent);
    tcase_add_test(tests, a_body_and_all_headers_go_along);
    tcase_add_test(tests, every_call_has_its_path);
    tcase_add_test(tests, an_id_never_leads_elsewhere);
    tcase_add_test(tests, no_content);
    tcase_add_test(tests, text_is_handed_over);
    tcase_add_test(tests, a_problem_is_taken_apart);
    tcase_add_test(tests, long_texts_are_cut_between_characters);
    tcase_add_test(tests, a_refusal_without_a_problem);
    tcase_add_loop_test(tests, nonsense_is_told_from_answers, 0, sizeof nonsense / sizeof nonsense[0]);
    tcase_add_test(tests, an_endless_body_is_given_up);
    tcase_add_test(tests, a_connection_that_was_closed_meanwhile_is_made_again);
    tcase_add_test(tests, one_reply_serves_after_a_failure);
    tcase_add_test(tests, what_cannot_be_sent_is_refused);
    tcase_add_test(tests, the_environment_has_no_say);
    tcase_add_test(tests, nobody_there);
    tcase_add_test(tests, a_socket_that_nobody_listens_on);
    tcase_add_test(tests, socket_paths);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(client_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
