/* Text on a terminal. What comes from elsewhere (annotations, reasons) must not move the cursor or change
 * colours. */
#ifndef CHAN_CLI_TEXT_H
#define CHAN_CLI_TEXT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Decodes the character of valid UTF-8 at *text, and moves *text behind it. 0 at the end. */
uint32_t text_next(const char **text);

/* Writes text with every control character replaced by '?'. */
void text_print(FILE *out, const char *text);

/* Characters that text_print writes. */
size_t text_width(const char *text);

/* Writes a word as a POSIX shell reads it back: as it is, or in single quotes. */
void text_print_shell(FILE *out, const char *word);

/* Writes a JSON array of strings as one line for a shell, without a line end. Other elements are left out. */
void text_print_shell_words(FILE *out, const json_t *words);

#endif
