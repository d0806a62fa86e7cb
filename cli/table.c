#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/text.h"

static void add_cell(struct table *table, char *cell)
{
    if (cell == NULL) {
        table->failed = true;
        return;
    }
    if (table->cell_count == table->cell_room) {
        size_t room = table->cell_room == 0 ? 64 : table->cell_room * 2;
        char **cells = reallocarray(table->cells, room, sizeof *cells);
        if (cells == NULL) {
            free(cell);
            table->failed = true;
            return;
        }
        table->cells = cells;
        table->cell_room = room;
    }
    size_t *width = &table->widths[table->cell_count % table->columns];
    size_t own = text_width(cell);
    if (own > *width)
        *width = own;
    table->cells[table->cell_count++] = cell;
}

void table_init(struct table *table, const char *const headings[])
{
    *table = (struct table){0};
    while (table->columns < TABLE_COLUMNS_MAX && headings[table->columns] != NULL)
        table->columns++;
    for (size_t i = 0; i < table->columns; i++)
        add_cell(table, strdup(headings[i]));
}

void table_clear(struct table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct table){0};
}

void table_add(struct table *table, const char *format, ...)
{
    char *cell = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&cell, format, args) < 0)
        cell = NULL;
    va_end(args);
    add_cell(table, cell);
}

int table_print(const struct table *table, FILE *out)
{
    if (table->failed)
        return -1;
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t column = i % table->columns;
        text_print(out, table->cells[i]);
        if (column + 1 == table->columns)
            (void)fputc('\n', out);
        else
            (void)fprintf(out, "%*s", (int)(table->widths[column] - text_width(table->cells[i]) + 2), "");
    }
    return 0;
}
