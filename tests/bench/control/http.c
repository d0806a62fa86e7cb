#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/bench/control/bench.h"

int http_try_open(struct http *http, const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(socket_path) >= sizeof address.sun_path) {
        die("the path of the socket is too long: %s", socket_path);
    }
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    http->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (http->fd < 0) {
        die("socket: %s", strerror(errno));
    }
    if (connect(http->fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        http_close(http);
        return -1;
    }
    return 0;
}

void http_open(struct http *http, const char *socket_path)
{
    if (http_try_open(http, socket_path) < 0) {
        die("cannot connect to %s", socket_path);
    }
}

void http_close(struct http *http)
{
    (void)close(http->fd);
    http->fd = -1;
}

/* The bytes of a complete answer, head and body; 0 when more must be read. */
static size_t answer_length(const char *head)
{
    const char *end = strstr(head, "\r\n\r\n");
    if (end == NULL) {
        return 0;
    }
    size_t length = (size_t)(end - head) + 4;
    const char *field = strcasestr(head, "\r\nContent-Length:");
    if (field != NULL && field < end) {
        length += strtoul(field + strlen("\r\nContent-Length:"), NULL, 10);
    }
    return length;
}

int http_call(struct http *http, const char *method, const char *path, const char *body)
{
    int length;
    if (body != NULL) {
        length = snprintf(
            http->buffer, sizeof http->buffer,
            "%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
            method, path, strlen(body), body);
    } else {
        length =
            snprintf(http->buffer, sizeof http->buffer, "%s %s HTTP/1.1\r\nHost: x\r\n\r\n", method, path);
    }
    if (send(http->fd, http->buffer, (size_t)length, MSG_NOSIGNAL) != length) {
        die("%s %s: sending failed: %s", method, path, strerror(errno));
    }
    size_t got = 0;
    size_t wanted = 0;
    while (wanted == 0 || got < wanted) {
        ssize_t more = recv(http->fd, http->buffer + got, sizeof http->buffer - 1 - got, 0);
        if (more <= 0) {
            die("%s %s: no complete answer", method, path);
        }
        got += (size_t)more;
        http->buffer[got] = '\0';
        wanted = answer_length(http->buffer);
    }
    if (got != wanted || strncmp(http->buffer, "HTTP/1.1 ", 9) != 0) {
        die("%s %s: not an answer: %s", method, path, http->buffer);
    }
    return (int)strtol(http->buffer + 9, NULL, 10);
}
