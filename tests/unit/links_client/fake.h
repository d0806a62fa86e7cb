/* A dataplane that moves nothing: it speaks the control protocol, remembers what it was told, and does as the
 * test says. Serves one connection at a time, in a thread. */
#ifndef CHAN_TESTS_UNIT_LINKS_CLIENT_FAKE_H
#define CHAN_TESTS_UNIT_LINKS_CLIENT_FAKE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/proto/control.pb-c.h"
#include "api/proto/statistics.h"

enum { FAKE_LINKS = 512 };

struct fake_end {
    char path[128];
    char type[32];
    bool is_client;
    uint32_t mtu;
    int listener; /* -1: none came along */
};

struct fake_link {
    char id[STATISTICS_ID_SIZE];
    struct fake_end ends[2];
};

struct fake {
    pthread_t thread;
    int listener, stop_fd, memory_fd;
    char path[128];

    pthread_mutex_t lock; /* of all below */
    struct fake_link links[FAKE_LINKS];
    size_t link_count;
    unsigned hellos, creates, deletes, lists; /* requests */
    /* What it shall do. */
    bool silent;                      /* answers nothing any more */
    bool hang_up;                     /* closes the connection instead of the next answer */
    Chan__Control__V1__Code refusal;  /* of every create, unless OK */
    uint32_t version;                 /* it speaks */
    struct statistics_header *memory; /* with FAKE_LINKS slots; the slot of a link is its place */
    uint32_t pid;
};

/* Listens at that path, over a stale socket. NULL when that cannot be. */
struct fake *fake_start(const char *path);
void fake_stop(struct fake *fake);

struct statistics_slot *fake_slot(struct fake *fake, size_t place);
/* Adds a link that nobody asked for. */
void fake_add(struct fake *fake, const char *id);
/* A copy of the link of that id; false when there is none. */
bool fake_find(struct fake *fake, const char *id, struct fake_link *ret);
size_t fake_count(struct fake *fake);

#endif
