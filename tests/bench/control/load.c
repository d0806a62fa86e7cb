#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/bench/control/bench.h"

struct client {
    pthread_t thread;
    pthread_barrier_t *start;
    const struct daemon *daemon;
    enum verb verb;
    const char *template_id, *prefix;
    size_t number, count;
    struct samples samples;
    int64_t begin, end;
};

static void call(struct client *client, struct http *http, size_t number)
{
    char path[160], body[160];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s-%zu-%zu", client->prefix, client->number, number);
    int status;
    int expected;
    int64_t begin = clock_monotonic_ns();
    if (client->verb == CREATE) {
        (void)snprintf(body, sizeof body, "{\"templateID\":\"%s\"}", client->template_id);
        status = http_call(http, "PUT", path, body);
        expected = 201;
    } else {
        status = http_call(http, "DELETE", path, NULL);
        expected = 204;
    }
    samples_add(&client->samples, clock_monotonic_ns() - begin);
    if (status != expected) {
        die("%s: expected %d, got %s", path, expected, http->buffer);
    }
}

static void *run_client(void *argument)
{
    struct client *client = argument;
    struct http http;
    http_open(&http, client->daemon->socket_path);
    (void)pthread_barrier_wait(client->start);
    client->begin = clock_monotonic_ns();
    for (size_t i = 0; i < client->count; i++) {
        call(client, &http, i);
    }
    client->end = clock_monotonic_ns();
    http_close(&http);
    return NULL;
}

double load_run(const struct daemon *daemon, enum verb verb, const char *template_id, const char *prefix,
                size_t clients, size_t count, struct samples *samples)
{
    struct client *all = allocate(clients, sizeof *all);
    pthread_barrier_t start;
    (void)pthread_barrier_init(&start, NULL, (unsigned int)clients);
    for (size_t i = 0; i < clients; i++) {
        all[i] = (struct client){.start = &start,
                                 .daemon = daemon,
                                 .verb = verb,
                                 .template_id = template_id,
                                 .prefix = prefix,
                                 .number = i,
                                 .count = count};
        if (pthread_create(&all[i].thread, NULL, run_client, &all[i]) != 0) {
            die("cannot start a client");
        }
    }
    int64_t begin = INT64_MAX;
    int64_t end = 0;
    for (size_t i = 0; i < clients; i++) {
        (void)pthread_join(all[i].thread, NULL);
        begin = all[i].begin < begin ? all[i].begin : begin;
        end = all[i].end > end ? all[i].end : end;
        if (samples != NULL) {
            samples_append(samples, &all[i].samples);
        }
        samples_free(&all[i].samples);
    }
    (void)pthread_barrier_destroy(&start);
    free(all);
    return (double)(clients * count) * 1e9 / (double)(end - begin);
}

void load_template(const struct daemon *daemon, const char *template_id, size_t region_bytes)
{
    struct http http;
    char path[160], body[160];
    (void)snprintf(path, sizeof path, "/v1/templates/%s", template_id);
    (void)snprintf(body, sizeof body, "{\"enableIvshmem\":true,\"ivshmem\":{\"sizeBytes\":%zu}}",
                   region_bytes);
    http_open(&http, daemon->socket_path);
    int status = http_call(&http, "PUT", path, body);
    if (status != 201) {
        die("%s: expected 201, got %s", path, http.buffer);
    }
    http_close(&http);
}
