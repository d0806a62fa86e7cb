/* chanctl node */
#include "cli/output.h"
#include "cli/report.h"

static int node_get(struct context *context)
{
    auto_reply struct chan_reply reply = CHAN_REPLY_INIT;
    int result = chan_client_node_get(context->client, &reply);
    if (result != 0)
        return report_call(context, result, &reply, "cannot show the node");
    return output_reply(context, &reply);
}

static const struct command commands[] = {
    {"node", "show", "get", node_get, "", 0, 0, VALUE_NONE, NULL, FORMATS_OBJECT, false,
     "Show capacity, use, limits, versions and the dataplane", NULL},
};

const struct noun noun_node = {"node", "This host: capacity, use, limits and versions", commands,
                               sizeof commands / sizeof commands[0]};
