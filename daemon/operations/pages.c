/* Page tokens: "1" for the version, the kind of list, and the last id of the page, in base64url. */
#include <string.h>

#include "daemon/operations/internal.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

enum { TOKEN_VERSION = '1', TOKEN_PREFIX = 2, TOKEN_TEXT_SIZE = TOKEN_PREFIX + ID_SIZE };
_Static_assert((TOKEN_TEXT_SIZE + 2) / 3 * 4 + 1 <= PAGE_TOKEN_SIZE, "a token of the longest id must fit");

/* out has room for (length + 2) / 3 * 4 + 1 characters. No padding. */
static void encode(const char *text, size_t length, char *out)
{
    uint32_t bits = 0;
    unsigned int held = 0;
    for (size_t i = 0; i < length; i++) {
        bits = (bits << 8) | (unsigned char)text[i];
        held += 8;
        while (held >= 6) {
            held -= 6;
            *out++ = alphabet[(bits >> held) & 63];
        }
    }
    if (held > 0)
        *out++ = alphabet[(bits << (6 - held)) & 63];
    *out = '\0';
}

/* Writes a string of at most size - 1 characters; -1 when the token is not base64url or longer. */
static int decode(const char *token, char *out, size_t size)
{
    uint32_t bits = 0;
    unsigned int held = 0;
    size_t used = 0;
    for (; *token != '\0'; token++) {
        const char *at = strchr(alphabet, *token);
        if (at == NULL)
            return -1;
        bits = (bits << 6) | (uint32_t)(at - alphabet);
        held += 6;
        if (held >= 8) {
            held -= 8;
            if (used + 1 >= size)
                return -1;
            out[used++] = (char)((bits >> held) & 255);
        }
    }
    out[used] = '\0';
    return strlen(out) == used ? 0 : -1;
}

void page_token_make(enum page_kind kind, const char *last_id, char token[PAGE_TOKEN_SIZE])
{
    char text[TOKEN_TEXT_SIZE] = {TOKEN_VERSION, (char)kind};
    size_t length = strnlen(last_id, ID_SIZE - 1);
    memcpy(text + TOKEN_PREFIX, last_id, length);
    encode(text, TOKEN_PREFIX + length, token);
}

int check_limit(const struct operations_limits *limits, size_t asked, size_t *limit, struct error *err)
{
    if (asked > limits->page_max)
        return error_set(err, REASON_INVALID_PARAMETER, "limit is %zu, at most %zu is allowed", asked,
                         limits->page_max);
    *limit = asked == 0 ? limits->page_default : asked;
    return 0;
}

int page_begin(const struct operations_limits *limits, const struct page_request *page, enum page_kind kind,
               size_t *limit, char after_id[ID_SIZE], struct error *err)
{
    after_id[0] = '\0';
    if (check_limit(limits, page->limit, limit, err) != 0)
        return -1;
    if (page->page_token == NULL)
        return 0;
    char text[TOKEN_TEXT_SIZE];
    if (decode(page->page_token, text, sizeof text) != 0 || text[0] != TOKEN_VERSION ||
        text[1] != (char)kind || check_id(text + TOKEN_PREFIX, "id", NULL) != 0)
        return error_set(
            err, REASON_INVALID_PAGE_TOKEN,
            "the page token is not one of this list; take the one of the last page or start anew");
    memcpy(after_id, text + TOKEN_PREFIX, strlen(text + TOKEN_PREFIX) + 1);
    return 0;
}
