/* The SIGBUS guard. A signal handler knows nothing but what is global, so the table of what is mapped from
 * guests is the one global of the dataplane that changes. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/memory/internal.h"

/* Less than the mappings that Linux allows a process by default (vm.max_map_count, 65530): what is left over
 * is for the process itself. Enough for 1,000 cables whose guests have 30 regions each. */
enum { ENTRIES_MAX = 60000, NO_ENTRY = ENTRIES_MAX };

/* The handler may look at an entry at any time, also while it changes: `version` is odd meanwhile, and
 * differs afterwards. All accesses are acquire or release, which keeps them in this order. */
struct entry {
    atomic_uint version;
    atomic_bool lost;
    _Atomic uintptr_t start, end; /* both 0: free */
    unsigned next_free;
};

static struct {
    struct entry entries[ENTRIES_MAX];
    atomic_uint used; /* entries from here on were never used */
    atomic_uint generation;
    pthread_mutex_t lock; /* of what follows, and of changes to entries */
    unsigned first_free;
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER, .first_free = NO_ENTRY};

static void set_range(struct entry *entry, uintptr_t start, uintptr_t end)
{
    const unsigned version = atomic_load_explicit(&entry->version, memory_order_relaxed);
    atomic_store_explicit(&entry->version, version + 1, memory_order_relaxed);
    atomic_store_explicit(&entry->start, start, memory_order_release);
    atomic_store_explicit(&entry->end, end, memory_order_release);
    atomic_store_explicit(&entry->lost, false, memory_order_release);
    atomic_store_explicit(&entry->version, version + 2, memory_order_release);
}

/* The range of the entry, if it holds the address. An entry that changes meanwhile cannot be the one: what is
 * being mapped or unmapped is not accessed. */
static bool holds(const struct entry *entry, uintptr_t address, uintptr_t *start, uintptr_t *end)
{
    const unsigned version = atomic_load_explicit(&entry->version, memory_order_acquire);
    *start = atomic_load_explicit(&entry->start, memory_order_acquire);
    *end = atomic_load_explicit(&entry->end, memory_order_acquire);
    return version % 2 == 0 && *start <= address && address < *end &&
           atomic_load_explicit(&entry->version, memory_order_relaxed) == version;
}

/* Replaces the mapping that holds the address. All of it: that needs no additional mapping, of which there
 * might be none left, and the end is given up in any case. */
static bool replace(uintptr_t address)
{
    const unsigned used = atomic_load_explicit(&guard.used, memory_order_acquire);
    for (unsigned i = 0; i < used; i++) {
        uintptr_t start, end;
        if (!holds(&guard.entries[i], address, &start, &end))
            continue;
        /* The bare system call is safe in a handler, whatever a library puts around it. */
        if (syscall(SYS_mmap, start, end - start, PROT_READ | PROT_WRITE,
                    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1L, 0L) == -1)
            return false;
        atomic_store_explicit(&guard.entries[i].lost, true, memory_order_release);
        (void)atomic_fetch_add_explicit(&guard.generation, 1, memory_order_release);
        return true;
    }
    return false;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    const int saved_errno = errno;
    /* si_code above 0: from the kernel, with an address; kill(2) gives none. */
    if (info->si_code <= 0 || !replace((uintptr_t)info->si_addr)) {
        (void)signal(number, SIG_DFL);
        (void)raise(number); /* is delivered when this returns */
    }
    errno = saved_errno;
}

int memory_guard_install(struct error *err)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, NULL) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "installing the handler of SIGBUS");
    return 0;
}

int guard_register(void *start, size_t length, unsigned *entry, struct error *err)
{
    (void)pthread_mutex_lock(&guard.lock);
    unsigned index = guard.first_free;
    if (index != NO_ENTRY) {
        guard.first_free = guard.entries[index].next_free;
    } else {
        index = atomic_load_explicit(&guard.used, memory_order_relaxed);
        if (index < ENTRIES_MAX)
            atomic_store_explicit(&guard.used, index + 1, memory_order_release);
    }
    if (index < ENTRIES_MAX)
        set_range(&guard.entries[index], (uintptr_t)start, (uintptr_t)start + length);
    (void)pthread_mutex_unlock(&guard.lock);
    if (index == ENTRIES_MAX)
        return error_set(err, REASON_RESOURCE_LIMIT, "all guests together have more than %d regions",
                         ENTRIES_MAX);
    *entry = index;
    return 0;
}

void guard_unregister(unsigned entry)
{
    (void)pthread_mutex_lock(&guard.lock);
    set_range(&guard.entries[entry], 0, 0);
    guard.entries[entry].next_free = guard.first_free;
    guard.first_free = entry;
    (void)pthread_mutex_unlock(&guard.lock);
}

bool guard_is_lost(unsigned entry)
{
    return atomic_load_explicit(&guard.entries[entry].lost, memory_order_acquire);
}

unsigned guard_generation(void)
{
    return atomic_load_explicit(&guard.generation, memory_order_acquire);
}
