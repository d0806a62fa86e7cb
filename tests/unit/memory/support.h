/* What the tests of memory share. */
#ifndef CHAN_TESTS_UNIT_MEMORY_SUPPORT_H
#define CHAN_TESTS_UNIT_MEMORY_SUPPORT_H

#include <check.h>

#include "dataplane/memory/memory.h"

#define PAGE UINT64_C(4096)
#define MIB  (UINT64_C(1) << 20)

TCase *tables_tcase(void);
TCase *translate_tcase(void);
TCase *guard_tcase(void);
TCase *dirty_log_tcase(void);
TCase *copy_tcase(void);

/* A memfd of that size whose every page begins with its number, counted from 1 (as a uint64_t). */
int make_memory(uint64_t size);
/* As guest_memory_new, and must succeed. */
struct guest_memory *make_table(const struct guest_region_spec *specs, const int *fds, unsigned count);
/* Must be refused with that reason, and with that text in the detail. */
void check_refused(const struct guest_region_spec *specs, const int *fds, unsigned count, enum reason reason,
                   const char *text);
/* The uint64_t at a place. */
uint64_t number_at(const uint8_t *place);
/* Mappings of memfds in this process. */
unsigned count_mappings(void);

#endif
