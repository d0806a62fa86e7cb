/* Tables for people: columns as wide as their widest cell, two spaces apart, nothing after the last one. */
#ifndef CHAN_CLI_TABLE_H
#define CHAN_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 12 };

struct table {
    size_t columns;
    size_t widths[TABLE_COLUMNS_MAX];
    char **cells; /* row by row, the headings first */
    size_t cell_count, cell_room;
    bool failed; /* out of memory; stays so */
};

#define auto_table __attribute__((cleanup(table_clear)))

/* headings ends with NULL; at most TABLE_COLUMNS_MAX. */
void table_init(struct table *table, const char *const headings[]);
void table_clear(struct table *table);

/* Adds the next cell, from left to right. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes it; -1 when memory ran out on the way (then nothing is written). */
int table_print(const struct table *table, FILE *out);

#endif
