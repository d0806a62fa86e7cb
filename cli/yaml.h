/* JSON values written as YAML that every YAML 1.1 and 1.2 reader takes back as the same values. */
#ifndef CHAN_CLI_YAML_H
#define CHAN_CLI_YAML_H

#include <jansson.h>
#include <stdio.h>

/* Block style, two spaces a level, a line end after the last line. */
void yaml_print(FILE *out, const json_t *value);

#endif
