#include "tests/bench/cable/frontend/guest.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

static const size_t HUGE_PAGE = (size_t)2 << 20;

int guest_open(struct guest *guest, size_t size, bool huge_pages, struct error *err)
{
    *guest = (struct guest){.fd = -1, .size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1)};
    auto_close int fd = memfd_create("guest", MFD_CLOEXEC | (huge_pages ? MFD_HUGETLB : 0));
    if (fd < 0 || ftruncate(fd, (off_t)guest->size) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "making %zu bytes of guest memory", guest->size);
    uint8_t *memory = mmap(NULL, guest->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, REASON_INTERNAL, errno, "mapping %zu bytes of guest memory", guest->size);
    guest->memory = memory;
    guest->fd = take_fd(&fd);
    return 0;
}

void guest_close(struct guest *guest)
{
    if (guest->memory != NULL)
        (void)munmap(guest->memory, guest->size);
    cleanup_close(&guest->fd);
    *guest = (struct guest){.fd = -1};
}

size_t guest_take(struct guest *guest, size_t size, size_t alignment)
{
    const size_t at = (guest->used + alignment - 1) & ~(alignment - 1);
    if (at > guest->size || size > guest->size - at)
        return SIZE_MAX;
    guest->used = at + size;
    return at;
}
