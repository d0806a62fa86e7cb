#include "dataplane/control/listing.h"

#include <stdlib.h>

#include "dataplane/control/requests.h"
#include "dataplane/control/watch.h"

/* A full page of the longest words fits into a packet: beside reason and path, the fields of an end take less
 * than 112 bytes, and those of a link beside its id less than 64. */
_Static_assert(LISTING_PAGE_MAX *(2 * (END_REASON_SIZE + END_PATH_SIZE + 112) + LINK_ID_MAX + 64) <
                   CONTROL_PACKET_MAX,
               "a page fits");

/* A page, with what its messages point to. */
struct listing {
    Chan__Control__V1__ListLinksReply reply;
    struct listed_link {
        Chan__Control__V1__LinkStatus message;
        struct listed_end {
            Chan__Control__V1__EndStatus message;
            struct end_status status;
        } ends[2];
        Chan__Control__V1__EndStatus *end_pointers[2];
    } links[LISTING_PAGE_MAX];
    Chan__Control__V1__LinkStatus *link_pointers[LISTING_PAGE_MAX];
};

int listing_new(struct listing **ret, struct error *err)
{
    struct listing *listing = calloc(1, sizeof *listing);
    if (listing == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "making the list of links: out of memory");
    *ret = listing;
    return 0;
}

void listing_free(struct listing *listing)
{
    free(listing);
}

/* The generated structures have no const; nothing is changed through them. */
static char *text(const char *words)
{
    return (char *)(uintptr_t)words;
}

static void fill_end(struct listed_end *listed, const struct end *end)
{
    struct end_status *status = &listed->status;
    end->operations->status(end, status);
    chan__control__v1__end_status__init(&listed->message);
    listed->message.type = text(end->specification.type);
    listed->message.role = end->specification.role == END_CLIENT ? CHAN__CONTROL__V1__ROLE__CLIENT
                                                                 : CHAN__CONTROL__V1__ROLE__SERVER;
    listed->message.socket_path = text(end->specification.socket_path);
    listed->message.state = text(watch_state_word(status->state));
    listed->message.reason = status->reason;
    listed->message.features = status->features;
    listed->message.protocol_features = status->protocol_features;
    listed->message.queue_pairs = status->queue_pairs;
    listed->message.peer_pid = status->peer_pid;
    listed->message.connections = status->connections;
    listed->message.faults = status->faults;
    listed->message.offloads = end->specification.offloads_off;
    listed->message.mtu = end->specification.mtu;
}

static void fill_link(struct listed_link *listed, const struct link_entry *entry)
{
    for (unsigned i = 0; i < 2; i++) {
        fill_end(&listed->ends[i], link_end(entry->link, i));
        listed->end_pointers[i] = &listed->ends[i].message;
    }
    chan__control__v1__link_status__init(&listed->message);
    listed->message.id = text(entry->specification.id);
    listed->message.paused = link_is_paused(entry->link);
    listed->message.slot = entry->slot;
    listed->message.worker_cpu = worker_cpu(entry->worker);
    listed->message.ends = listed->end_pointers;
    listed->message.n_ends = 2;
}

Chan__Control__V1__ListLinksReply *listing_fill(struct listing *listing, const struct link_table *table,
                                                const Chan__Control__V1__ListLinks *request)
{
    const bool only_one = request->only_id[0] != '\0';
    unsigned limit = request->limit;
    if (limit == 0 || limit > LISTING_PAGE_MAX)
        limit = LISTING_PAGE_MAX;
    if (only_one)
        limit = 1;
    unsigned index =
        only_one ? link_table_find(table, request->only_id) : link_table_after(table, request->after_id);
    unsigned count = 0;
    for (const struct link_entry *entry = NULL;
         count < limit && (entry = link_table_at(table, index)) != NULL; index++) {
        fill_link(&listing->links[count], entry);
        listing->link_pointers[count] = &listing->links[count].message;
        count++;
    }
    chan__control__v1__list_links_reply__init(&listing->reply);
    listing->reply.links = listing->link_pointers;
    listing->reply.n_links = count;
    listing->reply.more = !only_one && index < link_table_count(table);
    return &listing->reply;
}
