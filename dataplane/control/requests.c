#include "dataplane/control/requests.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/proto/control.pb-c.h"
#include "base/cleanup.h"
#include "dataplane/control/listing.h"

struct requests {
    struct requests_config config;
    struct listing *listing;
};

/* One request while it is answered. */
struct call {
    struct requests *requests;
    struct requester *requester;
    int descriptors[CONTROL_DESCRIPTORS_MAX]; /* what was not used is closed at the end */
    Chan__Control__V1__Response *response;
    Chan__Control__V1__HelloReply hello;
    Chan__Control__V1__CreateLinkReply created;
    int reply_descriptor;
};

int requests_new(const struct requests_config *config, struct requests **ret, struct error *err)
{
    struct requests *requests = calloc(1, sizeof *requests);
    if (requests == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making the control protocol's answers: out of memory");
    requests->config = *config;
    if (listing_new(&requests->listing, err) != 0) {
        free(requests);
        return -1;
    }
    *ret = requests;
    return 0;
}

void requests_free(struct requests *requests)
{
    if (requests == NULL)
        return;
    listing_free(requests->listing);
    free(requests);
}

static Chan__Control__V1__Code code_of(enum reason reason)
{
    switch (reason) {
    case REASON_INVALID_REQUEST:
        return CHAN__CONTROL__V1__CODE__INVALID;
    case REASON_LINK_NOT_FOUND:
        return CHAN__CONTROL__V1__CODE__LINK_NOT_FOUND;
    case REASON_LINK_EXISTS:
        return CHAN__CONTROL__V1__CODE__LINK_EXISTS;
    case REASON_QUOTA_EXCEEDED:
        return CHAN__CONTROL__V1__CODE__LIMIT_REACHED;
    case REASON_SOCKET_FAILED:
        return CHAN__CONTROL__V1__CODE__SOCKET_FAILED;
    case REASON_RESOURCE_LIMIT:
        return CHAN__CONTROL__V1__CODE__RESOURCES;
    default:
        return CHAN__CONTROL__V1__CODE__INTERNAL;
    }
}

/* ---- the calls ---- */

static int say_hello(struct call *call, const Chan__Control__V1__Hello *hello, struct error *err)
{
    struct requests_config *config = &call->requests->config;
    if (hello->version != CONTROL_VERSION) {
        call->response->code = CHAN__CONTROL__V1__CODE__VERSION_MISMATCH;
        return error_set(err, REASON_INVALID_REQUEST,
                         "version %u of the control protocol is not spoken here, version %d is",
                         hello->version, CONTROL_VERSION);
    }
    strncpy(call->requester->name, hello->client, sizeof call->requester->name - 1);
    call->requester->greeted = true;
    chan__control__v1__hello_reply__init(&call->hello);
    call->hello.version = CONTROL_VERSION;
    /* The generated structures have no const; nothing is changed through them. */
    call->hello.software = (char *)(uintptr_t)config->software;
    call->hello.instance = config->instance;
    call->hello.pid = (uint32_t)getpid();
    call->hello.max_links = config->max_links;
    call->hello.cpus = (uint32_t *)(uintptr_t)config->cpus;
    call->hello.n_cpus = config->cpu_count;
    call->hello.has_statistics = 1;
    call->reply_descriptor = statistics_memory_fd(config->statistics);
    call->response->reply_case = CHAN__CONTROL__V1__RESPONSE__REPLY_HELLO;
    call->response->hello = &call->hello;
    return 0;
}

static int decode_end(const Chan__Control__V1__EndSpec *from, struct end_specification *to, struct error *err)
{
    if (strlen(from->type) >= sizeof to->type)
        return error_set(err, REASON_INVALID_REQUEST, "its type is too long");
    if (from->role != CHAN__CONTROL__V1__ROLE__SERVER && from->role != CHAN__CONTROL__V1__ROLE__CLIENT)
        return error_set(err, REASON_INVALID_REQUEST, "its role is neither SERVER nor CLIENT");
    if (from->socket_path[0] != '/')
        return error_set(err, REASON_INVALID_REQUEST, "its socket path is not absolute");
    if (strlen(from->socket_path) >= sizeof to->socket_path)
        return error_set(err, REASON_INVALID_REQUEST, "its socket path is longer than %zu bytes",
                         sizeof to->socket_path - 1);
    *to = (struct end_specification){.role = from->role == CHAN__CONTROL__V1__ROLE__CLIENT ? END_CLIENT
                                                                                           : END_SERVER,
                                     .offloads_off = from->offloads,
                                     .mtu = from->mtu};
    memcpy(to->type, from->type, strlen(from->type));
    memcpy(to->socket_path, from->socket_path, strlen(from->socket_path));
    return 0;
}

/* The descriptors of the packet, in their order, to the ends that have one; all of them or none. */
static int assign_listeners(struct call *call, const Chan__Control__V1__CreateLink *create, int listeners[2],
                            struct error *err)
{
    unsigned next = 0;
    for (unsigned i = 0; i < 2; i++)
        if (create->ends[i]->has_listener && call->descriptors[next++] < 0)
            return error_set(err, REASON_INVALID_REQUEST, "end %u: its listener did not come along", i);
    next = 0;
    for (unsigned i = 0; i < 2; i++)
        if (create->ends[i]->has_listener)
            listeners[i] = take_fd(&call->descriptors[next++]);
    return 0;
}

static int create_link(struct call *call, const Chan__Control__V1__CreateLink *create, struct error *err)
{
    struct link_specification specification = {.id = ""};
    if (strlen(create->id) >= sizeof specification.id)
        return error_set(err, REASON_INVALID_REQUEST, "the id is longer than %d bytes", LINK_ID_MAX);
    memcpy(specification.id, create->id, strlen(create->id));
    if (create->n_ends != 2)
        return error_set(err, REASON_INVALID_REQUEST, "a link has two ends, not %zu", create->n_ends);
    for (unsigned i = 0; i < 2; i++)
        if (decode_end(create->ends[i], &specification.ends[i], err) != 0)
            return error_wrap(err, "end %u: ", i);
    int listeners[2] = {-1, -1};
    const struct link_entry *entry = NULL;
    bool created = false;
    if (assign_listeners(call, create, listeners, err) != 0 ||
        link_table_create(call->requests->config.table, &specification, listeners, &entry, &created, err) !=
            0)
        return -1;
    if (created)
        log_write(call->requests->config.log, LOG_LEVEL_INFO, "link made", "link", create->id, "by",
                  call->requester->name, NULL);
    chan__control__v1__create_link_reply__init(&call->created);
    call->created.created = created;
    call->created.slot = entry->slot;
    call->response->reply_case = CHAN__CONTROL__V1__RESPONSE__REPLY_CREATE_LINK;
    call->response->create_link = &call->created;
    return 0;
}

static int delete_link(struct call *call, const Chan__Control__V1__DeleteLink *delete, struct error *err)
{
    if (link_table_delete(call->requests->config.table, delete->id, err) != 0)
        return -1;
    log_write(call->requests->config.log, LOG_LEVEL_INFO, "link deleted", "link", delete->id, "by",
              call->requester->name, NULL);
    return 0;
}

static int list_links(struct call *call, const Chan__Control__V1__ListLinks *list)
{
    call->response->reply_case = CHAN__CONTROL__V1__RESPONSE__REPLY_LIST_LINKS;
    call->response->list_links = listing_fill(call->requests->listing, call->requests->config.table, list);
    return 0;
}

static int dispatch(struct call *call, const Chan__Control__V1__Request *request, struct error *err)
{
    struct link_table *table = call->requests->config.table;
    if (!call->requester->greeted && request->call_case != CHAN__CONTROL__V1__REQUEST__CALL_HELLO)
        return error_set(err, REASON_INVALID_REQUEST, "the first request of a connection is hello");
    switch (request->call_case) {
    case CHAN__CONTROL__V1__REQUEST__CALL_HELLO:
        return say_hello(call, request->hello, err);
    case CHAN__CONTROL__V1__REQUEST__CALL_CREATE_LINK:
        return create_link(call, request->create_link, err);
    case CHAN__CONTROL__V1__REQUEST__CALL_DELETE_LINK:
        return delete_link(call, request->delete_link, err);
    case CHAN__CONTROL__V1__REQUEST__CALL_LIST_LINKS:
        return list_links(call, request->list_links);
    case CHAN__CONTROL__V1__REQUEST__CALL_PAUSE_LINK:
        return link_table_pause(table, request->pause_link->id, request->pause_link->paused, err);
    case CHAN__CONTROL__V1__REQUEST__CALL_SET_OFFLOADS:
        return link_table_set_offloads(table, request->set_offloads->id, request->set_offloads->end,
                                       request->set_offloads->offloads, err);
    default:
        return error_set(err, REASON_INVALID_REQUEST, "the request asks for nothing that is known here");
    }
}

/* ---- packets ---- */

/* Decodes and dispatches; false when the packet is none of the protocol. */
static bool answer(struct call *call, const struct request_packet *packet, struct error *err)
{
    Chan__Control__V1__Request *request =
        packet->truncated ? NULL : chan__control__v1__request__unpack(NULL, packet->size, packet->bytes);
    if (request == NULL) {
        call->response->code = CHAN__CONTROL__V1__CODE__INVALID;
        (void)error_set(err, REASON_INVALID_REQUEST,
                        packet->truncated ? "a request is of at most %d bytes"
                                          : "this is no request of version %d",
                        packet->truncated ? CONTROL_PACKET_MAX : CONTROL_VERSION);
        return false;
    }
    call->response->id = request->id;
    if (dispatch(call, request, err) != 0 && call->response->code == CHAN__CONTROL__V1__CODE__OK)
        call->response->code = code_of(err->reason);
    chan__control__v1__request__free_unpacked(request, NULL);
    return true;
}

static int encode(const Chan__Control__V1__Response *response, struct response_packet *ret, struct error *err)
{
    ret->size = chan__control__v1__response__get_packed_size(response);
    ret->bytes = malloc(ret->size + 1); /* a response of nothing but defaults has no bytes */
    if (ret->bytes == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "answering a request: out of memory");
    (void)chan__control__v1__response__pack(response, ret->bytes);
    return 0;
}

int requests_answer(struct requests *requests, struct requester *requester,
                    const struct request_packet *request, struct response_packet *ret, struct error *err)
{
    Chan__Control__V1__Response response;
    chan__control__v1__response__init(&response);
    struct call call = {
        .requests = requests, .requester = requester, .response = &response, .reply_descriptor = -1};
    for (unsigned i = 0; i < CONTROL_DESCRIPTORS_MAX; i++)
        call.descriptors[i] = i < request->descriptor_count ? request->descriptors[i] : -1;
    struct error failure = ERROR_INIT;
    ret->disconnect = !answer(&call, request, &failure);
    ret->descriptor = call.reply_descriptor;
    for (unsigned i = 0; i < CONTROL_DESCRIPTORS_MAX; i++)
        cleanup_close(&call.descriptors[i]);
    if (response.code != CHAN__CONTROL__V1__CODE__OK)
        response.detail = failure.detail;
    return encode(&response, ret, err);
}
