#include "dataplane/memory/dirty_log.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "dataplane/memory/internal.h"

int dirty_log_new(int fd, uint64_t size, uint64_t offset, struct dirty_log **ret, struct error *err)
{
    auto_free struct dirty_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "mapping the log of dirty pages: out of memory");
    if (mapping_new(fd, offset, size, &log->mapping, err) != 0)
        return error_wrap(err, "mapping the log of dirty pages: ");
    log->bits = (_Atomic uint8_t *)log->mapping->bytes;
    log->size = size;
    *ret = take_pointer(log);
    return 0;
}

void dirty_log_free(struct dirty_log *log)
{
    if (log == NULL)
        return;
    mapping_release(log->mapping);
    free(log);
}

bool dirty_log_lost(const struct dirty_log *log)
{
    return guard_is_lost(log->mapping->guard_entry);
}

void dirty_log_mark(const struct dirty_log *log, uint64_t guest_address, uint64_t length)
{
    if (log == NULL || length == 0)
        return;
    const uint64_t last_address =
        guest_address > UINT64_MAX - (length - 1) ? UINT64_MAX : guest_address + (length - 1);
    const uint64_t pages = log->size > UINT64_MAX / 8 ? UINT64_MAX : log->size * 8;
    const uint64_t end = last_address / DIRTY_LOG_PAGE < pages ? last_address / DIRTY_LOG_PAGE + 1 : pages;
    for (uint64_t page = guest_address / DIRTY_LOG_PAGE; page < end;) {
        const uint64_t stop = (page / 8 + 1) * 8 < end ? (page / 8 + 1) * 8 : end; /* of this byte */
        const unsigned mask = (0xffU << (page % 8)) & (0xffU >> (7 - (stop - 1) % 8));
        /* Also if a look says that they are set: the front-end may clear them and read the page before what
         * we wrote is there, unless it is ordered before the bits, which a mere look does not do. */
        (void)atomic_fetch_or_explicit(&log->bits[page / 8], (uint8_t)mask, memory_order_release);
        page = stop;
    }
}
