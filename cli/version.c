/* chanctl version */
#include "cli/command.h"

static int version(struct context *context)
{
    (void)fputs("chanctl " CHAN_VERSION "\n", context->out);
    return EXIT_CODE_OK;
}

static const struct command commands[] = {
    {"version", NULL, NULL, version, "", 0, 0, VALUE_NONE, NULL, 1u << FORMAT_TABLE, true,
     "Show chanctl's version (chanctl node show has the daemon's)", NULL},
};

const struct noun noun_version = {"version", "The version of chanctl", commands,
                                  sizeof commands / sizeof commands[0]};
