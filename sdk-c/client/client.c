/* The client: one libcurl handle, and so one connection that is kept open. */
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "sdk-c/client/internal.h"

enum { MAX_HEADER_BYTES = 64 * 1024, FIRST_BODY_BYTES = 4096 };

struct chan_client {
    CURL *curl;
    unsigned int connect_ms, total_ms;
    char socket_path[sizeof((struct sockaddr_un *)0)->sun_path];
};

/* An answer while it comes in. */
struct collector {
    char *body;
    size_t used, size;
    size_t header_bytes;
    int result; /* why it was stopped, or 0 */
};

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_state; /* written once, before any use */

static void start_curl(void)
{
    curl_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int collect_room(struct collector *collector, size_t more)
{
    if (more > (size_t)CHAN_CLIENT_MAX_BYTES - collector->used)
        return -EMSGSIZE;
    size_t needed = collector->used + more + 1;
    if (needed <= collector->size)
        return 0;
    size_t size = collector->size == 0 ? FIRST_BODY_BYTES : collector->size;
    while (size < needed)
        size *= 2;
    char *body = realloc(collector->body, size);
    if (body == NULL)
        return -ENOMEM;
    collector->body = body;
    collector->size = size;
    return 0;
}

static size_t collect_body(char *data, size_t one, size_t count, void *context)
{
    struct collector *collector = context;
    (void)one; /* always 1 */
    collector->result = collect_room(collector, count);
    if (collector->result != 0)
        return CURL_WRITEFUNC_ERROR;
    if (count > 0)
        memcpy(collector->body + collector->used, data, count);
    collector->used += count;
    collector->body[collector->used] = '\0';
    return count;
}

/* Headers are read afterwards through curl_easy_header; here they are only kept from growing without end. */
static size_t count_header(char *data, size_t one, size_t count, void *context)
{
    struct collector *collector = context;
    (void)data;
    (void)one;
    collector->header_bytes += count;
    if (collector->header_bytes <= MAX_HEADER_BYTES)
        return count;
    collector->result = -EMSGSIZE;
    return CURL_WRITEFUNC_ERROR;
}

int chan_client_new(const char *socket_path, struct chan_client **ret)
{
    if (socket_path == NULL || socket_path[0] == '\0')
        return -EINVAL;
    if (strlen(socket_path) >= sizeof((struct chan_client *)0)->socket_path)
        return -ENAMETOOLONG;
    if (pthread_once(&curl_once, start_curl) != 0 || curl_state != CURLE_OK)
        return -ENOMEM;
    struct chan_client *client = calloc(1, sizeof *client);
    if (client == NULL)
        return -ENOMEM;
    (void)snprintf(client->socket_path, sizeof client->socket_path, "%s", socket_path);
    client->connect_ms = CHAN_CLIENT_CONNECT_MS;
    client->total_ms = CHAN_CLIENT_TOTAL_MS;
    client->curl = curl_easy_init();
    if (client->curl == NULL) {
        free(client);
        return -ENOMEM;
    }
    *ret = client;
    return 0;
}

void chan_client_free(struct chan_client *client)
{
    if (client == NULL)
        return;
    curl_easy_cleanup(client->curl);
    free(client);
}

void chan_client_set_timeouts(struct chan_client *client, unsigned int connect_ms, unsigned int total_ms)
{
    if (connect_ms != 0)
        client->connect_ms = connect_ms;
    if (total_ms != 0)
        client->total_ms = total_ms;
}

/* Nothing that could end a line and start another one. */
static bool is_clean(const char *text, bool spaces)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f || (c == ' ' && !spaces))
            return false;
    }
    return true;
}

static int add_header(struct curl_slist **headers, const char *name, const char *value)
{
    char line[512];
    int length = snprintf(line, sizeof line, "%s: %s", name, value);
    if (length < 0 || (size_t)length >= sizeof line || !is_clean(value, true))
        return -EINVAL;
    struct curl_slist *longer = curl_slist_append(*headers, line);
    if (longer == NULL)
        return -ENOMEM;
    *headers = longer;
    return 0;
}

static int make_headers(const struct call *call, struct curl_slist **headers)
{
    const struct chan_call_options *options = call->options;
    int result = add_header(headers, "Accept", "application/json, application/problem+json, */*;q=0.1");
    if (result == 0 && call->body != NULL)
        result = add_header(headers, "Content-Type", "application/json");
    /* libcurl would ask for leave before a larger body, and wait. */
    if (result == 0 && call->body != NULL)
        result = add_header(headers, "Expect", "");
    if (result == 0 && options != NULL && options->if_match != 0) {
        char etag[32];
        (void)snprintf(etag, sizeof etag, "\"%" PRId64 "\"", options->if_match);
        result = add_header(headers, "If-Match", etag);
    }
    if (result == 0 && options != NULL && options->idempotency_key != NULL)
        result = add_header(headers, "Idempotency-Key", options->idempotency_key);
    if (result == 0 && options != NULL && options->request_id != NULL)
        result = add_header(headers, "X-Request-ID", options->request_id);
    return result;
}

static CURLcode set_options(struct chan_client *client, const struct call *call, const char *url,
                            struct curl_slist *headers, struct collector *collector)
{
    CURL *curl = client->curl;
    curl_easy_reset(curl); /* options only: the connection stays */
    CURLcode code = curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, client->socket_path);
#define SET(option, value)                                                                                   \
    if (code == CURLE_OK)                                                                                    \
    code = curl_easy_setopt(curl, option, value)
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http");
    SET(CURLOPT_PROXY, ""); /* whatever the environment says */
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)client->connect_ms);
    SET(CURLOPT_TIMEOUT_MS, (long)client->total_ms);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_WRITEFUNCTION, collect_body);
    SET(CURLOPT_WRITEDATA, (void *)collector);
    SET(CURLOPT_HEADERFUNCTION, count_header);
    SET(CURLOPT_HEADERDATA, (void *)collector);
    if (call->body != NULL) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(call->body));
        SET(CURLOPT_POSTFIELDS, call->body);
    }
    if (strcmp(call->method, "HEAD") == 0) {
        SET(CURLOPT_NOBODY, 1L);
    } else {
        SET(CURLOPT_CUSTOMREQUEST, call->method);
    }
#undef SET
    return code;
}

static int explain_failure(struct chan_client *client, CURLcode code, const struct collector *collector,
                           struct chan_reply *reply)
{
    long os_errno = 0;
    char text[128];
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        (void)curl_easy_getinfo(client->curl, CURLINFO_OS_ERRNO, &os_errno);
        if (os_errno <= 0)
            os_errno = ECONNREFUSED;
        return reply_fail(reply, -(int)os_errno, "cannot connect to %s: %s", client->socket_path,
                          strerror_r((int)os_errno, text, sizeof text));
    case CURLE_OPERATION_TIMEDOUT:
        return reply_fail(reply, -ETIMEDOUT, "no complete answer on %s within %u ms", client->socket_path,
                          client->total_ms);
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        return reply_fail(reply, -ECONNRESET, "the connection to %s ended before an answer came",
                          client->socket_path);
    case CURLE_PARTIAL_FILE:
        return reply_fail(reply, -EPROTO, "the answer on %s is cut short, %zu bytes of its body came",
                          client->socket_path, collector->used);
    case CURLE_UNSUPPORTED_PROTOCOL: /* libcurl's word for an answer that does not start as HTTP/1 does */
    case CURLE_WEIRD_SERVER_REPLY:
        return reply_fail(reply, -EPROTO, "the answer on %s is not HTTP", client->socket_path);
    case CURLE_OUT_OF_MEMORY:
        return reply_fail(reply, -ENOMEM, "out of memory");
    default:
        break;
    }
    if (collector->result == -ENOMEM)
        return reply_fail(reply, -ENOMEM, "out of memory");
    if (collector->result == -EMSGSIZE)
        return reply_fail(reply, -EMSGSIZE,
                          "the answer on %s is too large (limit: headers %d bytes, body %d bytes)",
                          client->socket_path, (int)MAX_HEADER_BYTES, (int)CHAN_CLIENT_MAX_BYTES);
    return reply_fail(reply, -EIO, "talking to %s failed: %s", client->socket_path, curl_easy_strerror(code));
}

static const char *header_value(CURL *curl, const char *name)
{
    struct curl_header *header = NULL;
    if (curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
        return NULL;
    return header->value;
}

static int exchange(struct chan_client *client, const struct call *call, const char *url,
                    struct curl_slist *headers, struct chan_reply *reply)
{
    struct collector collector = {0};
    CURLcode code = collect_room(&collector, 0) == 0 ? CURLE_OK : CURLE_OUT_OF_MEMORY;
    if (code == CURLE_OK) {
        collector.body[0] = '\0';
        code = set_options(client, call, url, headers, &collector);
    }
    if (code == CURLE_OK)
        code = curl_easy_perform(client->curl);
    if (code != CURLE_OK) {
        free(collector.body);
        return explain_failure(client, code, &collector, reply);
    }
    long status = 0;
    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    return reply_judge(reply, (int)status, header_value(client->curl, "Content-Type"),
                       header_value(client->curl, "X-Request-ID"), collector.body, collector.used,
                       call->expect_object);
}

int client_perform(struct chan_client *client, const struct call *call, struct chan_reply *reply)
{
    chan_reply_clear(reply);
    if (call->method == NULL || call->method[0] == '\0' || !is_clean(call->method, false) ||
        call->path == NULL || call->path[0] != '/' || !is_clean(call->path, false))
        return reply_fail(reply, -EINVAL, "not a method and path that can be sent");

    static const char origin[] = "http://localhost"; /* HTTP wants a name; the socket decides */
    size_t url_size = sizeof origin + strlen(call->path);
    char *url = malloc(url_size);
    if (url == NULL)
        return reply_fail(reply, -ENOMEM, "out of memory");
    (void)snprintf(url, url_size, "%s%s", origin, call->path);

    struct curl_slist *headers = NULL;
    int result = make_headers(call, &headers);
    if (result == -EINVAL)
        (void)reply_fail(reply, result, "a header's value is too long or has a control character");
    else if (result != 0)
        (void)reply_fail(reply, result, "out of memory");
    else
        result = exchange(client, call, url, headers, reply);
    curl_slist_free_all(headers);
    free(url);
    return result;
}

int chan_client_call(struct chan_client *client, const char *method, const char *path, const char *body,
                     const struct chan_call_options *options, struct chan_reply *reply)
{
    const struct call call = {.method = method, .path = path, .body = body, .options = options};
    return client_perform(client, &call, reply);
}
