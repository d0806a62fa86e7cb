#include "cli/text.h"

#include <stdbool.h>
#include <string.h>

uint32_t text_next(const char **text)
{
    const unsigned char *byte = (const unsigned char *)*text;
    if (byte[0] == '\0')
        return 0;
    size_t more = byte[0] < 0xc0 ? 0 : byte[0] < 0xe0 ? 1 : byte[0] < 0xf0 ? 2 : 3;
    uint32_t character = more == 0 ? byte[0] : byte[0] & (0x3fu >> more);
    size_t i = 1;
    for (; i <= more && (byte[i] & 0xc0u) == 0x80u; i++)
        character = character << 6 | (byte[i] & 0x3fu);
    *text += i;
    return character;
}

static bool is_control(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x2028 ||
           character == 0x2029;
}

void text_print(FILE *out, const char *text)
{
    for (;;) {
        const char *start = text;
        uint32_t character = text_next(&text);
        if (character == 0)
            return;
        if (is_control(character))
            (void)fputc('?', out);
        else
            (void)fwrite(start, 1, (size_t)(text - start), out);
    }
}

size_t text_width(const char *text)
{
    size_t width = 0;
    while (text_next(&text) != 0)
        width++;
    return width;
}

void text_print_shell(FILE *out, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._/=,:@%+";
    if (word[0] != '\0' && strspn(word, plain) == strlen(word)) {
        (void)fputs(word, out);
        return;
    }
    (void)fputc('\'', out);
    for (; *word != '\0'; word++)
        if (*word == '\'')
            (void)fputs("'\\''", out);
        else
            (void)fputc(*word, out);
    (void)fputc('\'', out);
}

void text_print_shell_words(FILE *out, const json_t *words)
{
    size_t count = json_array_size(words);
    bool first = true;
    for (size_t i = 0; i < count; i++) {
        const char *word = json_string_value(json_array_get(words, i));
        if (word == NULL)
            continue;
        if (!first)
            (void)fputc(' ', out);
        first = false;
        text_print_shell(out, word);
    }
}
