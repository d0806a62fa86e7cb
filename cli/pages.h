/* Lists: all pages, as one. */
#ifndef CHAN_CLI_PAGES_H
#define CHAN_CLI_PAGES_H

#include <jansson.h>

#include "cli/command.h"

/* Where the next page starts: a token for objects, a revision for events; and of what. */
struct cursor {
    char token[512];
    int64_t since;
    const char *sandbox_id; /* of links: only those of that sandbox; NULL: all */
};

struct page_source {
    const char *what; /* "sandboxes", also the array's key in the answer */
    int (*fetch)(struct chan_client *client, const struct cursor *cursor, unsigned int limit,
                 struct chan_reply *reply);
    /* Moves the cursor behind that page. 1: there are more, 0: that was the last, -1: the page makes no
     * sense. */
    int (*advance)(const json_t *page, struct cursor *cursor);
};

/* The advance of lists with a nextPageToken. */
int advance_token(const json_t *page, struct cursor *cursor);

/* Reads pages from `start` until the last, or until --limit objects are there (a page of events may end a
 * little later), and prints them: as the first page's JSON with the arrays joined, as YAML, as ids (the
 * member id_key of each), or through print_table. Returns an exit code. */
typedef int (*table_fn)(struct context *context, const json_t *objects);
int pages_output(struct context *context, const struct page_source *source, const struct cursor *start,
                 const char *id_key, table_fn print_table);

#endif
