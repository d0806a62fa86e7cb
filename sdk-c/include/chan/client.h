/* libchan-client: the API of chand over its unix socket.
 *
 *   struct chan_client *client = NULL;
 *   struct chan_reply reply = CHAN_REPLY_INIT;
 *   int r = chan_client_new("/run/chan/chand.sock", &client);
 *   if (r == 0)
 *       r = chan_client_sandbox_create(client, "sb-1", "{\"templateID\":\"tpl\"}", NULL, &reply);
 *   if (r == 0)
 *       puts(reply.body);
 *   else
 *       fprintf(stderr, "%s\n", reply.detail);
 *   chan_reply_clear(&reply);
 *   chan_client_free(client);
 *
 * Results: every call returns 0, or a negative errno value. 0: chand answered with a 2xx status and
 * reply->body holds what it said. On failure reply->detail says in words what went wrong, and the value is
 * one of -EREMOTEIO   chand refused: reply->status and reply->reason say why, reply->fields which fields
 *   -ENOENT, -ECONNREFUSED, -EACCES or another errno of connect(2): chand cannot be reached
 *   -ETIMEDOUT   no complete answer in time; whether chand did what was asked is not known
 *   -ECONNRESET  the connection ended before an answer; whether chand did what was asked is not known
 *   -EPROTO      the answer is not one of chand's: cut short, not HTTP, not JSON
 *   -EMSGSIZE    the answer is larger than CHAN_CLIENT_MAX_BYTES
 *   -EINVAL      an argument is not usable (an empty id, a line break in a header's value)
 *   -ENOMEM      out of memory
 *   -EIO         anything else that libcurl reports
 * The calls of this API are safe to repeat, so after -ETIMEDOUT or -ECONNRESET call again.
 *
 * Threads: a client serves one thread at a time; clients do not affect each other. The library keeps one
 * connection per client open between calls, installs no signal handler and never raises SIGPIPE.
 */
#ifndef CHAN_CLIENT_H
#define CHAN_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef CHAN_API
#define CHAN_API __attribute__((visibility("default")))
#endif

#define CHAN_CLIENT_DEFAULT_SOCKET "/run/chan/chand.sock"

enum {
    CHAN_CLIENT_MAX_BYTES = 64 * 1024 * 1024, /* the largest body of an answer */
    CHAN_CLIENT_CONNECT_MS = 5000,            /* default time-outs */
    CHAN_CLIENT_TOTAL_MS = 30000,
    CHAN_REPLY_FIELDS_MAX = 8
};

struct chan_client;

/* A field that chand refused: where it is ("ivshmem.sizeBytes") and what is wrong with it. */
struct chan_reply_field {
    char field[96];
    char detail[200];
};

/* How a call went. Only body is allocated; the texts are "" when there is none and are cut to fit. */
struct chan_reply {
    int status;        /* HTTP status, 0 when no usable answer came */
    char *body;        /* the answer's body as it came, with a terminating zero; NULL when status is 0 */
    size_t body_bytes; /* without the zero */
    char reason[64];   /* the problem's stable word, such as "template_not_found" */
    char title[128];   /* what that word means */
    char detail[512];  /* what went wrong, for people; set after every failure */
    char request_id[129];
    size_t field_count; /* at most CHAN_REPLY_FIELDS_MAX; more are dropped */
    struct chan_reply_field fields[CHAN_REPLY_FIELDS_MAX];
};

#define CHAN_REPLY_INIT                                                                                      \
    {                                                                                                        \
        0                                                                                                    \
    }

/* Frees the body and empties the reply. Every call does it first, so that one reply serves many calls. NULL
 * is fine. */
CHAN_API void chan_reply_clear(struct chan_reply *reply);

/* Makes a client of the socket at that path; connects at the first call. *ret is the caller's, for
 * chan_client_free. Returns 0, -EINVAL for an empty path, -ENAMETOOLONG for one that no unix socket can have,
 * or -ENOMEM. */
CHAN_API int chan_client_new(const char *socket_path, struct chan_client **ret);

/* Closes the connection. NULL is fine. */
CHAN_API void chan_client_free(struct chan_client *client);

/* Time-outs of the calls that follow, in milliseconds: to connect, and of the whole call. 0 keeps what is
 * set. */
CHAN_API void chan_client_set_timeouts(struct chan_client *client, unsigned int connect_ms,
                                       unsigned int total_ms);

/* What may come along with a call. Zero means not given. */
struct chan_call_options {
    int64_t if_match;            /* the revision that the object must still have (If-Match) */
    const char *idempotency_key; /* for pause, resume and renew (Idempotency-Key) */
    const char *request_id; /* to find the call in chand's log (X-Request-ID); chand makes one otherwise */
};

/* Any call of the API. path starts with "/", is percent-encoded and may have a query; body is JSON, or NULL
 * for none. options may be NULL. An answer that says it is JSON must be JSON; anything else (/metrics) is
 * handed over as it is. */
CHAN_API int chan_client_call(struct chan_client *client, const char *method, const char *path,
                              const char *body, const struct chan_call_options *options,
                              struct chan_reply *reply);

/* The calls by name. An id is put into the path in encoded form, so it can never lead elsewhere. json is the
 * request's body; NULL stands for {}. Each answers with a JSON object, delete with an empty body. options may
 * be NULL. */
CHAN_API int chan_client_template_put(struct chan_client *client, const char *id, const char *json,
                                      const struct chan_call_options *options, struct chan_reply *reply);
CHAN_API int chan_client_template_get(struct chan_client *client, const char *id, struct chan_reply *reply);
CHAN_API int chan_client_template_delete(struct chan_client *client, const char *id,
                                         const struct chan_call_options *options, struct chan_reply *reply);
CHAN_API int chan_client_sandbox_create(struct chan_client *client, const char *id, const char *json,
                                        const struct chan_call_options *options, struct chan_reply *reply);
CHAN_API int chan_client_sandbox_get(struct chan_client *client, const char *id, struct chan_reply *reply);
CHAN_API int chan_client_sandbox_delete(struct chan_client *client, const char *id,
                                        const struct chan_call_options *options, struct chan_reply *reply);
CHAN_API int chan_client_sandbox_pause(struct chan_client *client, const char *id,
                                       const struct chan_call_options *options, struct chan_reply *reply);
CHAN_API int chan_client_sandbox_resume(struct chan_client *client, const char *id, const char *json,
                                        const struct chan_call_options *options, struct chan_reply *reply);
CHAN_API int chan_client_sandbox_renew(struct chan_client *client, const char *id, const char *json,
                                       const struct chan_call_options *options, struct chan_reply *reply);
CHAN_API int chan_client_link_put(struct chan_client *client, const char *id, const char *json,
                                  const struct chan_call_options *options, struct chan_reply *reply);
CHAN_API int chan_client_link_get(struct chan_client *client, const char *id, struct chan_reply *reply);
CHAN_API int chan_client_link_delete(struct chan_client *client, const char *id,
                                     const struct chan_call_options *options, struct chan_reply *reply);

/* One page. limit 0 is chand's default; page_token NULL or "" is the first page, the answer's nextPageToken
 * leads to the next one. */
CHAN_API int chan_client_template_list(struct chan_client *client, unsigned int limit, const char *page_token,
                                       struct chan_reply *reply);
CHAN_API int chan_client_sandbox_list(struct chan_client *client, unsigned int limit, const char *page_token,
                                      struct chan_reply *reply);
/* sandbox_id, if not NULL: only links with an end of that sandbox. */
CHAN_API int chan_client_link_list(struct chan_client *client, unsigned int limit, const char *page_token,
                                   const char *sandbox_id, struct chan_reply *reply);

/* Events after the revision `since`, which must still be kept (410 when not); below 0: from the oldest that
 * is kept. The answer's lastRevision is the next page's since. */
CHAN_API int chan_client_event_list(struct chan_client *client, int64_t since, unsigned int limit,
                                    struct chan_reply *reply);

CHAN_API int chan_client_node_get(struct chan_client *client, struct chan_reply *reply);

/* 0: chand has repaired its state and serves. -EREMOTEIO with status 503: not yet. */
CHAN_API int chan_client_ready(struct chan_client *client, struct chan_reply *reply);

#ifdef __cplusplus
}
#endif
#endif
