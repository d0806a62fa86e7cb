#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/bench/control/bench.h"

struct client {
    pthread_t thread;
    pthread_barrier_t *start;
    const struct load *load;
    size_t number;
    struct samples samples;
    int64_t begin, end;
};

static void call(const struct load *load, struct http *http, size_t client, size_t number,
                 struct samples *samples)
{
    char path[160], body[160];
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s-%zu-%zu", load->prefix, client, number);
    int status;
    int expected;
    int64_t begin = clock_monotonic_ns();
    if (load->verb == CREATE) {
        (void)snprintf(body, sizeof body, "{\"templateID\":\"%s\"}", load->template_id);
        status = http_call(http, "PUT", path, body);
        expected = 201;
    } else {
        status = http_call(http, "DELETE", path, NULL);
        expected = 204;
    }
    samples_add(samples, clock_monotonic_ns() - begin);
    if (status != expected) {
        die("%s: expected %d, got %s", path, expected, http->buffer);
    }
}

static void *run_client(void *argument)
{
    struct client *client = argument;
    struct http http;
    http_open(&http, client->load->daemon->socket_path);
    (void)pthread_barrier_wait(client->start);
    client->begin = clock_monotonic_ns();
    for (size_t i = 0; i < client->load->count; i++) {
        call(client->load, &http, client->number, i, &client->samples);
    }
    client->end = clock_monotonic_ns();
    http_close(&http);
    return NULL;
}

double load_run(const struct load *load, struct samples *samples)
{
    struct client *clients = allocate(load->clients, sizeof *clients);
    pthread_barrier_t start;
    (void)pthread_barrier_init(&start, NULL, (unsigned int)load->clients);
    for (size_t i = 0; i < load->clients; i++) {
        clients[i] = (struct client){.start = &start, .load = load, .number = i};
        if (pthread_create(&clients[i].thread, NULL, run_client, &clients[i]) != 0) {
            die("cannot start a client");
        }
    }
    int64_t begin = INT64_MAX;
    int64_t end = 0;
    for (size_t i = 0; i < load->clients; i++) {
        (void)pthread_join(clients[i].thread, NULL);
        begin = clients[i].begin < begin ? clients[i].begin : begin;
        end = clients[i].end > end ? clients[i].end : end;
        if (samples != NULL) {
            samples_append(samples, &clients[i].samples);
        }
        samples_free(&clients[i].samples);
    }
    (void)pthread_barrier_destroy(&start);
    free(clients);
    return (double)(load->clients * load->count) * 1e9 / (double)(end - begin);
}

double load_run_paired(const struct load *load, struct samples *samples, struct bare *bare,
                       struct samples *bare_samples)
{
    struct http http;
    http_open(&http, load->daemon->socket_path);
    int64_t total_ns = 0;
    for (size_t i = 0; i < load->count; i++) {
        call(load, &http, 0, i, samples);
        total_ns += samples->values[samples->count - 1];
        (void)bare_commits(bare, 1, bare_samples);
    }
    http_close(&http);
    return (double)load->count * 1e9 / (double)total_ns;
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
