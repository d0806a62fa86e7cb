/* Arrays of rows, for the calls that answer pages. */
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"

void *rows_grow(void *rows, size_t count, size_t row_size, struct error *err)
{
    char *grown = rows;
    if ((count & (count - 1)) == 0) { /* full at 0, 1, 2, 4, 8, ... */
        grown = realloc(rows, (count == 0 ? 1 : 2 * count) * row_size);
        if (grown == NULL) {
            (void)error_set(err, REASON_STORE_FAILED, "out of memory for %zu rows", 2 * count);
            return NULL;
        }
    }
    memset(grown + count * row_size, 0, row_size);
    return grown;
}
