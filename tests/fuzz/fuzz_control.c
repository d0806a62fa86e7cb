/* The control protocol: any sequence of packets with any number of descriptors. Each is answered by what a
 * client can decode and a packet can hold, every descriptor is either closed or an end's, and the table of
 * links stays what it is: ordered, without doubles, and consistent with the ends and slots there are.
 *
 * Input: one byte (bit 0: hello was said), then packets: a byte (bits 0 and 1: descriptors, bit 2: was
 * truncated), two bytes of length, the bytes. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/proto/control.pb-c.h"
#include "dataplane/control/requests.h"
#include "tests/unit/dataplane_control/quiet_end.h"

enum { LINKS_MAX = 6, HEADER = 3 };

static struct link_table *table;
static struct statistics_memory *statistics;
static struct requests *requests;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool condition)
{
    if (!condition)
        abort();
}

/* Once, for all inputs; each leaves the table empty. */
static void set_up(void)
{
    static const unsigned cpus[] = {0};
    static struct worker *workers[1];
    struct control_loop *loop = NULL;
    struct error err = ERROR_INIT;
    const struct worker_config worker = {.pin = false};
    expect(worker_start(&worker, &workers[0], &err) == 0 && loop_new(&loop, &err) == 0 &&
           statistics_memory_new(LINKS_MAX, &statistics, &err) == 0);
    const struct link_table_config table_config = {.loop = loop,
                                                   .workers = workers,
                                                   .worker_count = 1,
                                                   .statistics = statistics,
                                                   .max_links = LINKS_MAX,
                                                   .make_end = quiet_end_make};
    expect(link_table_new(&table_config, &table, &err) == 0);
    const struct requests_config config = {.table = table,
                                           .statistics = statistics,
                                           .software = "fuzz",
                                           .instance = "0",
                                           .cpus = cpus,
                                           .cpu_count = 1,
                                           .max_links = LINKS_MAX};
    expect(requests_new(&config, &requests, &err) == 0);
}

static void check_table(void)
{
    const unsigned count = link_table_count(table);
    expect(count <= LINKS_MAX);
    expect(quiet_ends_alive() == 2 * count);
    unsigned slots = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct link_entry *entry = link_table_at(table, i);
        const char *id = entry->specification.id;
        expect(i == 0 || strcmp(link_table_at(table, i - 1)->specification.id, id) < 0);
        expect(entry->slot < LINKS_MAX && (slots >> entry->slot & 1) == 0);
        slots |= 1U << entry->slot;
        expect(strcmp(statistics_memory_slot(statistics, entry->slot)->id, id) == 0);
    }
    for (unsigned slot = 0; slot < LINKS_MAX; slot++)
        expect((slots >> slot & 1) != 0 || statistics_memory_slot(statistics, slot)->id[0] == '\0');
}

static void check_response(const struct response_packet *packet)
{
    expect(packet->size <= CONTROL_PACKET_MAX);
    expect(packet->descriptor == -1 || packet->descriptor == statistics_memory_fd(statistics));
    Chan__Control__V1__Response *response =
        chan__control__v1__response__unpack(NULL, packet->size, packet->bytes);
    expect(response != NULL);
    expect((response->code == CHAN__CONTROL__V1__CODE__OK) == (response->detail[0] == '\0'));
    expect(response->code != CHAN__CONTROL__V1__CODE__INTERNAL);
    expect(!packet->disconnect || response->code == CHAN__CONTROL__V1__CODE__INVALID);
    chan__control__v1__response__free_unpacked(response, NULL);
}

/* One packet. Returns how much of the input it took; 0: that was all. */
static size_t send_one(struct requester *requester, const uint8_t *data, size_t size)
{
    if (size < HEADER)
        return 0;
    const size_t stated = (size_t)(data[1] | data[2] << 8);
    const size_t length = stated < size - HEADER ? stated : size - HEADER;
    struct request_packet packet = {.bytes = data + HEADER, .size = length, .truncated = (data[0] & 4) != 0};
    packet.descriptor_count = (data[0] & 3) % (CONTROL_DESCRIPTORS_MAX + 1);
    for (unsigned i = 0; i < packet.descriptor_count; i++) {
        packet.descriptors[i] = eventfd(0, EFD_CLOEXEC);
        expect(packet.descriptors[i] >= 0);
    }
    struct response_packet response = {.descriptor = -1};
    expect(requests_answer(requests, requester, &packet, &response, NULL) == 0);
    check_response(&response);
    check_table();
    free(response.bytes);
    return response.disconnect ? 0 : HEADER + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (requests == NULL)
        set_up();
    if (size == 0)
        return 0;
    struct requester requester = {.greeted = (data[0] & 1) != 0};
    /* The lowest number that is free: if one leaks, it is another one afterwards. */
    const int before = eventfd(0, EFD_CLOEXEC);
    (void)close(before);
    for (size_t at = 1, taken = 1; taken > 0; at += taken)
        taken = send_one(&requester, data + at, size - at);
    while (link_table_count(table) > 0)
        expect(link_table_delete(table, link_table_at(table, 0)->specification.id, NULL) == 0);
    check_table();
    const int after = eventfd(0, EFD_CLOEXEC);
    (void)close(after);
    expect(before == after);
    return 0;
}
