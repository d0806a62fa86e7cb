#include "tests/unit/links_client/fake.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PACKET = 128 * 1024, PAGE_LINKS = 64, MEMORY_SIZE = 4096 + FAKE_LINKS * 512 };

struct statistics_slot *fake_slot(struct fake *fake, size_t place)
{
    return (struct statistics_slot *)((char *)fake->memory + sizeof(struct statistics_header)) + place;
}

static void close_listeners(struct fake_link *link)
{
    for (unsigned end = 0; end < 2; end++)
        if (link->ends[end].listener >= 0)
            (void)close(link->ends[end].listener);
}

/* The slots follow the places, as the list is kept in order. */
static void name_slots(struct fake *fake)
{
    for (size_t place = 0; place < FAKE_LINKS; place++) {
        char *id = fake_slot(fake, place)->id;
        if (place < fake->link_count)
            memcpy(id, fake->links[place].id, sizeof fake->links[place].id);
        else
            id[0] = '\0';
    }
}

static struct fake_link *find(struct fake *fake, const char *id)
{
    for (size_t i = 0; i < fake->link_count; i++)
        if (strcmp(fake->links[i].id, id) == 0)
            return &fake->links[i];
    return NULL;
}

static void insert(struct fake *fake, const struct fake_link *link)
{
    size_t place = 0;
    while (place < fake->link_count && strcmp(fake->links[place].id, link->id) < 0)
        place++;
    memmove(&fake->links[place + 1], &fake->links[place], (fake->link_count - place) * sizeof *link);
    fake->links[place] = *link;
    fake->link_count++;
    name_slots(fake);
}

static void erase(struct fake *fake, struct fake_link *link)
{
    close_listeners(link);
    const size_t place = (size_t)(link - fake->links);
    fake->link_count--;
    memmove(link, link + 1, (fake->link_count - place) * sizeof *link);
    name_slots(fake);
}

static void read_specification(const Chan__Control__V1__CreateLink *call, const int descriptors[2],
                               struct fake_link *ret)
{
    unsigned used = 0;
    memset(ret, 0, sizeof *ret);
    (void)snprintf(ret->id, sizeof ret->id, "%s", call->id);
    for (unsigned i = 0; i < 2; i++) {
        const Chan__Control__V1__EndSpec *spec = call->ends[i];
        struct fake_end *end = &ret->ends[i];
        (void)snprintf(end->path, sizeof end->path, "%s", spec->socket_path);
        (void)snprintf(end->type, sizeof end->type, "%s", spec->type);
        end->is_client = spec->role == CHAN__CONTROL__V1__ROLE__CLIENT;
        end->mtu = spec->mtu;
        end->listener = spec->has_listener && used < 2 ? descriptors[used++] : -1;
    }
}

static bool is_same(const struct fake_link *a, const struct fake_link *b)
{
    for (unsigned i = 0; i < 2; i++)
        if (strcmp(a->ends[i].path, b->ends[i].path) != 0 || a->ends[i].is_client != b->ends[i].is_client ||
            a->ends[i].mtu != b->ends[i].mtu)
            return false;
    return true;
}

static Chan__Control__V1__Code create(struct fake *fake, const Chan__Control__V1__CreateLink *call,
                                      const int descriptors[2], bool *created)
{
    struct fake_link wanted;
    *created = false;
    if (call->n_ends != 2)
        return CHAN__CONTROL__V1__CODE__INVALID;
    read_specification(call, descriptors, &wanted);
    const struct fake_link *there = find(fake, call->id);
    Chan__Control__V1__Code code = fake->refusal;
    if (code == CHAN__CONTROL__V1__CODE__OK && there != NULL)
        code = is_same(there, &wanted) ? CHAN__CONTROL__V1__CODE__OK : CHAN__CONTROL__V1__CODE__LINK_EXISTS;
    else if (code == CHAN__CONTROL__V1__CODE__OK && fake->link_count == FAKE_LINKS)
        code = CHAN__CONTROL__V1__CODE__LIMIT_REACHED;
    else if (code == CHAN__CONTROL__V1__CODE__OK)
        *created = true;
    if (*created)
        insert(fake, &wanted);
    else
        close_listeners(&wanted);
    return code;
}

/* protobuf-c's structures have no const strings. */
static char running[] = "running", waiting[] = "waiting", none[] = "", nobody[] = "nobody has connected yet",
            software[] = "fake 1", instance[] = "00", detail[] = "as the test has it";

/* A page of the list, in memory of its own. */
struct page {
    Chan__Control__V1__ListLinksReply reply;
    Chan__Control__V1__LinkStatus statuses[PAGE_LINKS], *status_pointers[PAGE_LINKS];
    Chan__Control__V1__EndStatus ends[PAGE_LINKS][2], *end_pointers[PAGE_LINKS][2];
};

static void list(struct fake *fake, const Chan__Control__V1__ListLinks *call, struct page *page)
{
    chan__control__v1__list_links_reply__init(&page->reply);
    page->reply.links = page->status_pointers;
    for (size_t i = 0; i < fake->link_count; i++) {
        struct fake_link *link = &fake->links[i];
        if (call->only_id[0] != '\0' ? strcmp(link->id, call->only_id) != 0
                                     : strcmp(link->id, call->after_id) <= 0)
            continue;
        const size_t at = page->reply.n_links;
        if (at == PAGE_LINKS || (call->limit != 0 && at == call->limit)) {
            page->reply.more = true;
            return;
        }
        page->reply.n_links++;
        page->status_pointers[at] = &page->statuses[at];
        chan__control__v1__link_status__init(&page->statuses[at]);
        page->statuses[at].id = link->id;
        page->statuses[at].slot = (uint32_t)i;
        page->statuses[at].worker_cpu = 7;
        page->statuses[at].n_ends = 2;
        page->statuses[at].ends = page->end_pointers[at];
        for (unsigned end = 0; end < 2; end++) {
            Chan__Control__V1__EndStatus *status = &page->ends[at][end];
            page->end_pointers[at][end] = status;
            chan__control__v1__end_status__init(status);
            status->type = link->ends[end].type;
            status->role =
                link->ends[end].is_client ? CHAN__CONTROL__V1__ROLE__CLIENT : CHAN__CONTROL__V1__ROLE__SERVER;
            status->socket_path = link->ends[end].path;
            status->mtu = link->ends[end].mtu;
            status->state = end == 0 ? running : waiting;
            status->reason = end == 0 ? none : nobody;
            status->features = UINT64_C(1) << 32;
            status->connections = 3;
        }
    }
}

static void hello(struct fake *fake, Chan__Control__V1__HelloReply *reply)
{
    chan__control__v1__hello_reply__init(reply);
    reply->version = fake->version;
    reply->software = software;
    reply->instance = instance;
    reply->pid = fake->pid;
    reply->max_links = FAKE_LINKS;
    reply->has_statistics = true;
}

static int send_response(int connection, const Chan__Control__V1__Response *response, int descriptor)
{
    static uint8_t packet[PACKET]; /* one thread */
    union {
        struct cmsghdr alignment;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec piece = {.iov_base = packet, .iov_len = chan__control__v1__response__pack(response, packet)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    return sendmsg(connection, &message, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* With the lock held. -1: the connection is to be closed. */
static int answer(struct fake *fake, int connection, const Chan__Control__V1__Request *request,
                  const int descriptors[2])
{
    Chan__Control__V1__Response response;
    chan__control__v1__response__init(&response);
    Chan__Control__V1__HelloReply hello_reply;
    Chan__Control__V1__CreateLinkReply create_reply;
    chan__control__v1__create_link_reply__init(&create_reply);
    struct page *page = NULL;
    struct fake_link *link = NULL;
    bool created = false;
    int descriptor = -1;
    response.id = request->id;
    response.detail = detail;
    switch (request->call_case) {
    case CHAN__CONTROL__V1__REQUEST__CALL_HELLO:
        fake->hellos++;
        hello(fake, &hello_reply);
        response.reply_case = CHAN__CONTROL__V1__RESPONSE__REPLY_HELLO;
        response.hello = &hello_reply;
        descriptor = fake->memory_fd;
        break;
    case CHAN__CONTROL__V1__REQUEST__CALL_CREATE_LINK:
        fake->creates++;
        response.code = create(fake, request->create_link, descriptors, &created);
        create_reply.created = created;
        response.reply_case = CHAN__CONTROL__V1__RESPONSE__REPLY_CREATE_LINK;
        response.create_link = &create_reply;
        break;
    case CHAN__CONTROL__V1__REQUEST__CALL_DELETE_LINK:
        fake->deletes++;
        link = find(fake, request->delete_link->id);
        response.code = link != NULL ? CHAN__CONTROL__V1__CODE__OK : CHAN__CONTROL__V1__CODE__LINK_NOT_FOUND;
        if (link != NULL)
            erase(fake, link);
        break;
    case CHAN__CONTROL__V1__REQUEST__CALL_LIST_LINKS:
        fake->lists++;
        page = calloc(1, sizeof *page);
        if (page == NULL)
            return -1;
        list(fake, request->list_links, page);
        response.reply_case = CHAN__CONTROL__V1__RESPONSE__REPLY_LIST_LINKS;
        response.list_links = &page->reply;
        break;
    default:
        response.code = CHAN__CONTROL__V1__CODE__INVALID;
        break;
    }
    int result = 0;
    if (fake->hang_up) {
        fake->hang_up = false;
        result = -1;
    } else if (!fake->silent) {
        result = send_response(connection, &response, descriptor);
    }
    free(page);
    return result;
}

static int serve(struct fake *fake, int connection)
{
    static uint8_t packet[PACKET]; /* one thread */
    union {
        struct cmsghdr alignment;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    int descriptors[2] = {-1, -1};
    struct iovec piece = {.iov_base = packet, .iov_len = sizeof packet};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    const ssize_t got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(descriptors, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    Chan__Control__V1__Request *request = chan__control__v1__request__unpack(NULL, (size_t)got, packet);
    if (request == NULL)
        return -1;
    (void)pthread_mutex_lock(&fake->lock);
    const int result = answer(fake, connection, request, descriptors);
    (void)pthread_mutex_unlock(&fake->lock);
    chan__control__v1__request__free_unpacked(request, NULL);
    return result;
}

static void *run(void *argument)
{
    struct fake *fake = argument;
    int connection = -1;
    for (;;) {
        struct pollfd pollers[] = {{.fd = fake->stop_fd, .events = POLLIN},
                                   {.fd = connection, .events = POLLIN},
                                   {.fd = connection < 0 ? fake->listener : -1, .events = POLLIN}};
        if (poll(pollers, 3, -1) < 0 || pollers[0].revents != 0)
            break;
        if (pollers[2].revents != 0)
            connection = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
        if (pollers[1].revents != 0 && serve(fake, connection) != 0) {
            (void)close(connection);
            connection = -1;
        }
    }
    if (connection >= 0)
        (void)close(connection);
    return NULL;
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    (void)unlink(path);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static int make_memory(struct fake *fake)
{
    fake->memory_fd = memfd_create("fake-statistics", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fake->memory_fd < 0 || ftruncate(fake->memory_fd, MEMORY_SIZE) != 0 ||
        fcntl(fake->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        return -1;
    void *memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fake->memory_fd, 0);
    if (memory == MAP_FAILED)
        return -1;
    fake->memory = memory;
    *fake->memory = (struct statistics_header){.magic = STATISTICS_MAGIC,
                                               .version = STATISTICS_VERSION,
                                               .slot_size = sizeof(struct statistics_slot),
                                               .slot_count = FAKE_LINKS,
                                               .slots_offset = sizeof(struct statistics_header)};
    return 0;
}

struct fake *fake_start(const char *path)
{
    struct fake *fake = calloc(1, sizeof *fake);
    if (fake == NULL)
        return NULL;
    (void)snprintf(fake->path, sizeof fake->path, "%s", path);
    (void)pthread_mutex_init(&fake->lock, NULL);
    fake->version = 1;
    fake->pid = (uint32_t)getpid();
    fake->stop_fd = eventfd(0, EFD_CLOEXEC);
    fake->listener = listen_at(path);
    if (fake->listener < 0 || fake->stop_fd < 0 || make_memory(fake) != 0 ||
        pthread_create(&fake->thread, NULL, run, fake) != 0) {
        (void)fprintf(stderr, "the fake dataplane cannot start\n");
        abort();
    }
    return fake;
}

void fake_stop(struct fake *fake)
{
    (void)eventfd_write(fake->stop_fd, 1);
    (void)pthread_join(fake->thread, NULL);
    for (size_t i = 0; i < fake->link_count; i++)
        close_listeners(&fake->links[i]);
    (void)close(fake->listener);
    (void)close(fake->stop_fd);
    (void)munmap(fake->memory, MEMORY_SIZE);
    (void)close(fake->memory_fd);
    (void)pthread_mutex_destroy(&fake->lock);
    free(fake);
}

void fake_add(struct fake *fake, const char *id)
{
    struct fake_link link = {.ends = {{.listener = -1, .type = "vhost-user", .path = "/a"},
                                      {.listener = -1, .type = "vhost-user", .path = "/b"}}};
    (void)snprintf(link.id, sizeof link.id, "%s", id);
    (void)pthread_mutex_lock(&fake->lock);
    insert(fake, &link);
    (void)pthread_mutex_unlock(&fake->lock);
}

bool fake_find(struct fake *fake, const char *id, struct fake_link *ret)
{
    (void)pthread_mutex_lock(&fake->lock);
    const struct fake_link *found = find(fake, id);
    if (found != NULL)
        *ret = *found;
    (void)pthread_mutex_unlock(&fake->lock);
    return found != NULL;
}

size_t fake_count(struct fake *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    const size_t count = fake->link_count;
    (void)pthread_mutex_unlock(&fake->lock);
    return count;
}
