#include "cli/pages.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "cli/output.h"
#include "cli/report.h"
#include "cli/text.h"
#include "cli/values.h"

/* A list longer than this is refused rather than held in memory. */
enum { OBJECTS_MAX = 1000000, PAGE_MAX = 1000 };

struct list {
    json_t *page; /* the first page, with the objects of all */
    char *body;   /* the JSON as it came, while there is one page only */
};

static void list_clear(struct list *list)
{
    json_decref(list->page);
    free(list->body);
}
#define auto_list __attribute__((cleanup(list_clear)))

int advance_token(const json_t *page, struct cursor *cursor)
{
    const char *token = json_text(page, "nextPageToken");
    if (token[0] == '\0')
        return 0;
    if (strlen(token) >= sizeof cursor->token || strcmp(token, cursor->token) == 0)
        return -1;
    (void)snprintf(cursor->token, sizeof cursor->token, "%s", token);
    return 1;
}

/* Joins a further page to the list: its objects, and the members that say where it ended. */
static int list_join(struct list *list, const char *key, json_t *page)
{
    json_t *objects = json_object_get(list->page, key);
    if (json_array_extend(objects, json_object_get(page, key)) != 0)
        return -1;
    if (json_object_set(page, key, objects) != 0)
        return -1;
    json_decref(list->page);
    list->page = json_incref(page);
    free(list->body);
    list->body = NULL;
    return 0;
}

static int list_read(struct context *context, const struct page_source *source, const struct cursor *start,
                     size_t limit, struct list *list)
{
    struct cursor cursor = *start;
    for (int more = 1; more == 1;) {
        auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
        size_t have = json_array_size(json_object_get(list->page, source->what));
        size_t wanted = limit - have < PAGE_MAX ? limit - have : PAGE_MAX;
        int result = source->fetch(context->client, &cursor, (unsigned int)wanted, &reply);
        if (result != 0)
            return report_call(context, result, &reply, "cannot list %s", source->what);
        auto_json json_t *page = json_loadb(reply.body, reply.body_bytes, 0, NULL);
        const json_t *objects = json_object_get(page, source->what);
        more = json_is_array(objects) ? source->advance(page, &cursor) : -1;
        if (more < 0 || (more == 1 && json_array_size(objects) == 0))
            return report_local("cannot list %s: chand's answer is not a page of them", source->what);
        if (list->page == NULL) {
            list->page = json_incref(page);
            list->body = reply.body;
            reply.body = NULL;
        } else if (list_join(list, source->what, page) != 0) {
            return report_local("cannot list %s: out of memory", source->what);
        }
        if (json_array_size(json_object_get(list->page, source->what)) < limit)
            continue;
        if (more == 1 && limit == OBJECTS_MAX)
            return report_local("cannot list %s: there are more than %d; ask for fewer by --limit",
                                source->what, (int)OBJECTS_MAX);
        break;
    }
    return EXIT_CODE_OK;
}

static void print_ids(FILE *out, const json_t *objects, const char *id_key)
{
    for (size_t i = 0; i < json_array_size(objects); i++) {
        text_print(out, json_text(json_array_get(objects, i), id_key));
        (void)fputc('\n', out);
    }
}

int pages_output(struct context *context, const struct page_source *source, const struct cursor *start,
                 const char *id_key, table_fn print_table)
{
    int64_t limit = OBJECTS_MAX;
    const char *text = arguments_value(&context->arguments, "limit");
    struct error err = ERROR_INIT;
    if (text != NULL && parse_number("--limit", text, 1, OBJECTS_MAX, &limit, &err) != 0)
        return report_usage(noun_find(context->command->noun), context->command, &err);
    auto_list struct list list = {0};
    int code = list_read(context, source, start, (size_t)limit, &list);
    if (code != EXIT_CODE_OK)
        return code;
    const json_t *objects = json_object_get(list.page, source->what);
    switch (context->format) {
    case FORMAT_JSON:
    case FORMAT_YAML:
        return output_json(context, list.page, list.body);
    case FORMAT_ID:
        print_ids(context->out, objects, id_key);
        return EXIT_CODE_OK;
    default:
        return print_table(context, objects);
    }
}
