#include "cli/link_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/output.h"
#include "cli/text.h"
#include "cli/values.h"

int64_t link_dropped(const json_t *counters)
{
    const char *key = NULL;
    json_t *value = NULL;
    int64_t sum = 0;
    json_object_foreach(json_object_get(counters, "dropped"), key, value)
    {
        sum += json_integer_value(value);
    }
    return sum;
}

char *link_drops(const json_t *counters)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    (void)fprintf(out, "%" PRId64, link_dropped(counters));
    const char *key = NULL;
    json_t *value = NULL;
    const char *before = " (";
    json_object_foreach(json_object_get(counters, "dropped"), key, value)
    {
        if (json_integer_value(value) == 0)
            continue;
        (void)fprintf(out, "%s%s %" PRId64, before, key, (int64_t)json_integer_value(value));
        before = ", ";
    }
    if (before[0] == ',')
        (void)fputc(')', out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static void print_line(FILE *out, const char *name, const char *text)
{
    (void)fprintf(out, "  %-13s", name);
    text_print(out, text);
    (void)fputc('\n', out);
}

static void print_words(FILE *out, const char *name, const json_t *words)
{
    (void)fprintf(out, "  %-13s", name);
    if (json_array_size(words) == 0)
        (void)fputc('-', out);
    text_print_shell_words(out, words);
    (void)fputc('\n', out);
}

static void print_peer(FILE *out, const json_t *end)
{
    int64_t pid = json_number(end, "peerPID");
    int64_t connections = json_number(end, "connections");
    int64_t faults = json_number(end, "faults");
    char peer[VALUE_TEXT_SIZE] = "nobody";
    if (pid > 0)
        (void)snprintf(peer, sizeof peer, "pid %" PRId64, pid);
    (void)fprintf(out, "  %-13s%s (%" PRId64 " connection%s, %" PRId64 " fault%s so far)\n", "Peer:", peer,
                  connections, connections == 1 ? "" : "s", faults, faults == 1 ? "" : "s");
}

static void print_sent(FILE *out, const json_t *counters)
{
    char bytes[VALUE_TEXT_SIZE];
    auto_free char *drops = link_drops(counters);
    format_size(json_number(counters, "bytes"), bytes);
    (void)fprintf(out, "  %-13s%" PRId64 " frames, %s; dropped: ", "Sent:", json_number(counters, "frames"),
                  bytes);
    text_print(out, drops == NULL ? "?" : drops);
    (void)fputc('\n', out);
}

static void print_end(FILE *out, size_t number, const json_t *end)
{
    const json_t *vmm = json_object_get(end, "vmm");
    const char *sandbox = json_text(end, "sandboxID");
    const char *reason = json_text(end, "reason");
    (void)fprintf(out, "\nEnd %zu: ", number);
    if (sandbox[0] != '\0')
        (void)fputs("sandbox ", out);
    text_print(out, sandbox[0] != '\0' ? sandbox : "no sandbox");
    (void)fputs(", ", out);
    text_print(out, json_text(end, "type"));
    (void)fputc(' ', out);
    text_print(out, json_text(end, "role"));
    (void)fputc('\n', out);
    print_line(out, "State:", json_text(end, "state"));
    print_line(out, "Why:", reason[0] == '\0' ? "-" : reason);
    print_line(out, "Socket:", json_text(end, "socketPath"));
    print_peer(out, end);
    if (json_number(end, "mtu") > 0)
        (void)fprintf(out, "  %-13s%" PRId64 "\n", "MTU:", json_number(end, "mtu"));
    (void)fprintf(out, "  %-13s%" PRId64 "\n", "Queue pairs:", json_number(end, "queuePairs"));
    print_words(out, "Features:", json_object_get(end, "features"));
    print_sent(out, json_object_get(end, "counters"));
    print_words(out, "QEMU:", json_object_get(vmm, "qemu"));
    print_words(out, "Cloud-H.:", json_object_get(vmm, "cloudHypervisor"));
}

void link_report(FILE *out, const json_t *link, int64_t now_ms)
{
    char age[VALUE_TEXT_SIZE];
    const json_t *cpu = json_object_get(link, "workerCPU");
    const json_t *ends = json_object_get(link, "ends");
    json_age(link, "createdAt", now_ms, age);
    (void)fputs("Link ", out);
    text_print(out, json_text(link, "linkID"));
    (void)fputs(": ", out);
    text_print(out, json_text(link, "state"));
    if (json_is_true(json_object_get(link, "paused")))
        (void)fputs(", paused", out);
    (void)fprintf(out, "\n  %-13s%" PRId64 ", made %s ago\n", "Revision:", json_number(link, "revision"),
                  age);
    if (json_is_integer(cpu))
        (void)fprintf(out, "  %-13s%" PRId64 "\n", "Worker CPU:", (int64_t)json_integer_value(cpu));
    for (size_t i = 0; i < json_array_size(ends); i++)
        print_end(out, i, json_array_get(ends, i));
}
