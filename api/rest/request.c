/* The life of a request, from libmicrohttpd's callbacks to the answer.
 *
 * The callbacks run on the library's thread. What may block runs on a worker: there the connection is
 * suspended, and the worker touches nothing of it but the resume at its end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/rest/call.h"
#include "api/rest/headers.h"
#include "api/rest/routes.h"
#include "api/rest/server.h"
#include "base/clock.h"

enum {
    SMALL_BODY = 4 * 1024,    /* always admitted */
    SMALL_ANSWER = 64 * 1024, /* likewise */
    LARGE_BODIES = 64,        /* so many bodies of the limit are all the memory that larger ones may hold */
    RETRY_AFTER_SECONDS = 1
};

enum stage { REQUEST_NEW, REQUEST_RECEIVING, REQUEST_ANSWERED };

struct request {
    struct job job; /* stands first: the worker's job is the request */
    struct rest *rest;
    struct MHD_Connection *http;
    struct connection *connection;
    enum stage stage;
    const char *method; /* the library's */
    struct target target;
    struct route_match match;
    char request_id[REQUEST_ID_SIZE];
    struct caller caller;
    struct error error; /* the first thing that is wrong with it */
    char *body;
    size_t body_length, body_capacity, discarded;
    size_t large_bytes; /* its part of rest->large_bytes */
    bool in_gate;
    int64_t complete_ns;
    struct answer answer;
    struct MHD_Response *response;
};

/* ---- memory that clients can make the daemon hold ---- */

/* Books so many bytes more. */
static bool take_memory(struct request *request, size_t bytes)
{
    struct rest *rest = request->rest;
    size_t limit = LARGE_BODIES * rest->config.body_limit;
    size_t before = atomic_fetch_add(&rest->large_bytes, bytes);
    if (before > limit || bytes > limit - before) {
        atomic_fetch_sub(&rest->large_bytes, bytes);
        return false;
    }
    request->large_bytes += bytes;
    return true;
}

static int grow_body(struct request *request, size_t needed)
{
    size_t capacity = request->body_capacity == 0 ? SMALL_BODY : request->body_capacity;
    while (capacity < needed)
        capacity *= 2;
    if (capacity > SMALL_BODY && !take_memory(request, capacity - request->body_capacity))
        return error_set(&request->error, REASON_RESOURCE_LIMIT, "too many large requests at the same time");
    char *body = realloc(request->body, capacity);
    if (body == NULL)
        return error_set(&request->error, REASON_RESOURCE_LIMIT, "no memory for the body");
    request->body = body;
    request->body_capacity = capacity;
    return 0;
}

/* Gives the body and its booking back, for a request that is refused already. */
static void drop_body(struct request *request)
{
    atomic_fetch_sub(&request->rest->large_bytes, request->large_bytes);
    request->large_bytes = 0;
    free(request->body);
    request->body = NULL;
    request->body_length = request->body_capacity = 0;
}

/* ---- making and ending ---- */

void *request_new(void *argument, const char *target, struct MHD_Connection *http)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (info == NULL || info->socket_context == NULL)
        return NULL;
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL)
        return NULL;
    request->rest = argument;
    request->http = http;
    request->connection = info->socket_context;
    if (target_parse(target == NULL ? "" : target, &request->target) != 0) {
        free(request);
        return NULL;
    }
    return request;
}

void request_completed(void *argument, struct MHD_Connection *http, void **context,
                       enum MHD_RequestTerminationCode how)
{
    (void)http;
    (void)how;
    struct rest *rest = argument;
    struct request *request = *context;
    *context = NULL;
    if (request == NULL)
        return;
    connection_waits(request->connection);
    atomic_fetch_sub(&rest->large_bytes, request->large_bytes);
    if (request->response != NULL)
        MHD_destroy_response(request->response);
    if (request->in_gate)
        gate_leave(&rest->gate);
    answer_clear(&request->answer);
    target_clear(&request->target);
    free(request->body);
    free(request);
}

/* ---- the headers ---- */

static const char *header(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->http, MHD_HEADER_KIND, name);
}

static bool is_safe(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

static void fill_caller(struct request *request)
{
    const struct connection *connection = request->connection;
    header_request_id(header(request, "X-Request-ID"), request->request_id);
    request->caller = (struct caller){.has_peer = connection->has_peer,
                                      .uid = connection->uid,
                                      .gid = connection->gid,
                                      .pid = connection->pid,
                                      .request_id = request->request_id};
    if (strcmp(request->method, "POST") == 0)
        request->caller.idempotency_key = header(request, "Idempotency-Key");
}

static int check_route(struct request *request)
{
    struct error *err = &request->error;
    route_find(request->method, &request->target, &request->match);
    if (request->match.allow[0] == '\0')
        return error_set(err, REASON_ROUTE_NOT_FOUND, "there is nothing at %s", request->target.path);
    if (request->match.route == NULL && strcmp(request->method, "OPTIONS") != 0)
        return error_set(err, REASON_METHOD_NOT_ALLOWED, "%s is not allowed at %s; allowed are %s",
                         request->method, request->target.path, request->match.allow);
    if (request->match.id != NULL && request->match.id->malformed)
        return error_set(err, REASON_INVALID_ID,
                         "the id in the path has a bad percent sequence or a zero byte");
    return 0;
}

static int check_conditions(struct request *request)
{
    const char *if_match = is_safe(request->method) ? NULL : header(request, "If-Match");
    if (if_match == NULL)
        return 0;
    request->caller.has_if_match = true;
    return header_if_match(if_match, &request->caller.if_match, &request->error);
}

/* declared: the length that the client announces; SIZE_MAX when it does not say. */
static int check_body(struct request *request, size_t declared)
{
    const struct route *route = request->match.route;
    if (route != NULL && route->body != BODY_IGNORED && declared > 0 &&
        !header_is_json(header(request, "Content-Type")))
        return error_set(&request->error, REASON_UNSUPPORTED_MEDIA_TYPE,
                         "the body must be application/json in UTF-8, and Content-Type must say so");
    if (declared != SIZE_MAX && declared > request->rest->config.body_limit)
        return error_set(&request->error, REASON_BODY_TOO_LARGE,
                         "the body has %zu bytes, at most %zu are allowed", declared,
                         request->rest->config.body_limit);
    return 0;
}

static int check_headers(struct request *request, size_t declared)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->http, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (info != NULL && info->header_size > request->rest->config.header_limit)
        return error_set(&request->error, REASON_HEADERS_TOO_LARGE,
                         "the headers have %zu bytes, at most %zu are allowed", info->header_size,
                         request->rest->config.header_limit);
    if (check_route(request) != 0)
        return -1;
    const char *const *parameters = request->match.route == NULL ? NULL : request->match.route->parameters;
    if (target_query(&request->target, parameters, &request->error) != 0 || check_conditions(request) != 0)
        return -1;
    return check_body(request, declared);
}

static size_t declared_length(const struct request *request)
{
    const char *length = header(request, "Content-Length");
    if (header(request, "Transfer-Encoding") != NULL)
        return SIZE_MAX;
    return length == NULL ? 0 : (size_t)strtoull(length, NULL, 10);
}

/* ---- the answer ---- */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    /* Fails only without memory, or for text that no header can have; the answer is good without it. */
    (void)MHD_add_response_header(response, name, value);
}

static void add_headers(struct request *request, struct MHD_Response *response)
{
    const struct answer *answer = &request->answer;
    char text[32];
    add_header(response, "X-Request-ID", request->request_id);
    if (answer->content_type != NULL)
        add_header(response, "Content-Type", answer->content_type);
    if (answer->revision != 0) {
        (void)snprintf(text, sizeof text, "\"%" PRId64 "\"", answer->revision);
        add_header(response, "ETag", text);
    }
    if (answer->created)
        add_header(response, "Location", request->target.path);
    if (request->match.allow[0] != '\0' && request->match.route == NULL)
        add_header(response, "Allow", request->match.allow);
    if (answer->status == 503) {
        (void)snprintf(text, sizeof text, "%d", RETRY_AFTER_SECONDS);
        add_header(response, "Retry-After", text);
    }
    if (gate_is_draining(&request->rest->gate))
        add_header(response, "Connection", "close");
}

/* Hands the body over to the response; without memory there is none, and the connection is closed. */
static void make_response(struct request *request)
{
    struct answer *answer = &request->answer;
    request->response = MHD_create_response_from_buffer(answer->body_length, answer->body,
                                                        answer->body_is_static ? MHD_RESPMEM_PERSISTENT
                                                                               : MHD_RESPMEM_MUST_FREE);
    if (request->response == NULL)
        return;
    answer->body = NULL;
    add_headers(request, request->response);
}

static void log_request(const struct request *request, int64_t duration_ns)
{
    const struct log *log = request->rest->config.log;
    bool failed = request->answer.status >= 500 && request->error.reason != REASON_NONE &&
                  request->error.reason != REASON_NOT_READY;
    if (log == NULL || (!failed && log->level < LOG_LEVEL_DEBUG))
        return;
    char status[16];
    char duration[24];
    (void)snprintf(status, sizeof status, "%d", request->answer.status);
    (void)snprintf(duration, sizeof duration, "%" PRId64, duration_ns / 1000);
    log_write(log, failed ? LOG_LEVEL_ERROR : LOG_LEVEL_DEBUG, failed ? "request failed" : "request",
              "method", request->method, "path", request->target.path, "status", status, "requestID",
              request->request_id, "microseconds", duration, failed ? "detail" : NULL, request->error.detail,
              NULL);
}

static enum MHD_Result send_answer(struct request *request)
{
    const struct route *route = request->match.route;
    int64_t duration_ns = clock_monotonic_ns() - request->complete_ns;
    request->stage = REQUEST_ANSWERED;
    metrics_count_request(request->rest->config.metrics,
                          route == NULL ? "none" : operation_word(route->operation), request->answer.status,
                          duration_ns);
    log_request(request, duration_ns);
    if (request->response == NULL)
        return MHD_NO;
    return MHD_queue_response(request->http, (unsigned int)request->answer.status, request->response);
}

/* ---- running it ---- */

/* *ret is to be released with json_decref; NULL when there is no body. */
static int parse_body(struct request *request, json_t **ret)
{
    *ret = NULL;
    enum route_body kind = request->match.route->body;
    if (kind == BODY_IGNORED || (kind == BODY_OPTIONAL && request->body_length == 0))
        return 0;
    if (request->body_length == 0)
        return error_set(&request->error, REASON_INVALID_JSON,
                         "a JSON object is needed as body, there is none");
    json_error_t fault;
    json_t *body = json_loadb(request->body, request->body_length, JSON_REJECT_DUPLICATES, &fault);
    if (body == NULL)
        return error_set(&request->error, REASON_INVALID_JSON, "line %d, column %d: %s", fault.line,
                         fault.column, fault.text);
    if (!json_is_object(body)) {
        json_decref(body);
        return error_set(&request->error, REASON_INVALID_JSON, "the body must be a JSON object");
    }
    *ret = body;
    return 0;
}

static int run_operation(struct request *request)
{
    json_t *body = NULL;
    if (parse_body(request, &body) != 0)
        return -1;
    const struct call call = {.operations = request->rest->config.operations,
                              .metrics = request->rest->config.metrics,
                              .caller = &request->caller,
                              .target = &request->target,
                              .id = request->match.id == NULL ? NULL : request->match.id->text,
                              .body = body};
    int done = request->match.route->handle(&call, &request->answer, &request->error);
    json_decref(body);
    if (done == 0 && !request->answer.body_is_static && request->answer.body_length > SMALL_ANSWER &&
        !take_memory(request, request->answer.body_length))
        return error_set(&request->error, REASON_RESOURCE_LIMIT, "too many large answers at the same time");
    return done;
}

/* From a complete request to its response. */
static void answer_request(struct request *request)
{
    bool failed = request->error.reason != REASON_NONE;
    if (!failed && request->match.route == NULL)
        request->answer.status = 204; /* OPTIONS */
    else if (!failed)
        failed = run_operation(request) != 0;
    if (failed)
        answer_problem(&request->answer, &request->error, request->request_id);
    make_response(request);
}

static void run_on_worker(struct job *job)
{
    struct request *request = (struct request *)job;
    struct rest *rest = request->rest;
    if (gate_is_closed(&rest->gate))
        (void)error_set(&request->error, REASON_NOT_READY, "the daemon is stopping");
    answer_request(request);
    /* After the resume the request may be gone at any moment. */
    MHD_resume_connection(request->http);
    gate_answered(&rest->gate);
}

static enum MHD_Result run(struct request *request)
{
    struct rest *rest = request->rest;
    const struct route *route = request->match.route;
    request->complete_ns = clock_monotonic_ns();
    if (request->error.reason == REASON_NONE && route != NULL && !route->quick) {
        request->in_gate = gate_enter(&rest->gate);
        if (request->in_gate) {
            request->stage = REQUEST_ANSWERED;
            connection_works(request->connection);
            MHD_suspend_connection(request->http);
            request->job.run = run_on_worker;
            workers_submit(rest->workers, &request->job);
            return MHD_YES;
        }
        (void)error_set(&request->error, REASON_NOT_READY, "the daemon is stopping");
    }
    answer_request(request);
    return send_answer(request);
}

/* ---- receiving ---- */

static enum MHD_Result begin(struct request *request, const char *method)
{
    request->stage = REQUEST_RECEIVING;
    request->method = method;
    fill_caller(request);
    size_t declared = declared_length(request);
    if (check_headers(request, declared) == 0)
        return MHD_YES;
    /* A short body is read all the same, so that the client is not cut off while it writes and the connection
     * lives on. */
    const char *expect = header(request, "Expect");
    bool waits_for_leave = expect != NULL && strcasecmp(expect, "100-continue") == 0;
    if (waits_for_leave || (declared != SIZE_MAX && declared > request->rest->config.body_limit))
        return run(request);
    return MHD_YES;
}

static enum MHD_Result receive(struct request *request, const char *data, size_t length)
{
    size_t limit = request->rest->config.body_limit;
    const struct route *route = request->match.route;
    if (request->error.reason == REASON_NONE && route != NULL && route->body != BODY_IGNORED) {
        size_t needed = request->body_length + length;
        if (needed > limit)
            (void)error_set(&request->error, REASON_BODY_TOO_LARGE,
                            "the body has more than the %zu bytes allowed", limit);
        else if (needed <= request->body_capacity || grow_body(request, needed) == 0) {
            memcpy(request->body + request->body_length, data, length);
            request->body_length = needed;
            return MHD_YES;
        }
        drop_body(request);
    }
    /* A body of unknown length is dropped up to the limit; the library cannot answer in its midst, so beyond
     * that the connection is closed. */
    request->discarded += length;
    return request->discarded > limit ? MHD_NO : MHD_YES;
}

enum MHD_Result request_handle(void *argument, struct MHD_Connection *http, const char *url,
                               const char *method, const char *version, const char *data, size_t *data_length,
                               void **context)
{
    (void)argument;
    (void)http;
    (void)url; /* decoded by the library, which loses what an encoded slash or zero was; request_new has the
                  raw one */
    (void)version;
    struct request *request = *context;
    if (request == NULL)
        return MHD_NO;
    if (request->stage == REQUEST_NEW)
        return begin(request, method);
    if (request->stage == REQUEST_ANSWERED) {
        connection_waits(request->connection);
        return send_answer(request);
    }
    if (*data_length == 0)
        return run(request);
    size_t length = *data_length;
    *data_length = 0;
    return receive(request, data, length);
}
