#include "api/rest/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* libmicrohttpd stops accepting at its limit; ours comes first and makes room by closing who waits longest.
 */
enum { CONNECTION_RESERVE = 32 };

/* Room for the headers of an answer, and for libmicrohttpd's own notes on those of a request. */
enum { HEADER_RESERVE = 8 * 1024 };

__attribute__((format(printf, 2, 0))) static void log_library(void *argument, const char *format,
                                                              va_list args)
{
    const struct rest *rest = argument;
    char text[256];
    (void)vsnprintf(text, sizeof text, format, args);
    text[strcspn(text, "\n")] = '\0';
    log_write(rest->config.log, LOG_LEVEL_DEBUG, "libmicrohttpd", "detail", text, NULL);
}

static void notify_connection(void *argument, struct MHD_Connection *http, void **context,
                              enum MHD_ConnectionNotificationCode code)
{
    const struct rest *rest = argument;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        connections_remove(*context);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(http, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = info == NULL ? NULL : connections_add(rest->connections, info->connect_fd);
}

/* Takes the descriptor over, even when it fails: whether the library has closed it then is not known. */
static int start_daemon(struct rest *rest, struct listener *listener, struct error *err)
{
    const struct rest_config *config = &rest->config;
    int fd = listener->fd;
    listener->fd = -1;
    /* clang-format off */
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG,
        0, NULL, NULL, request_handle, rest,
        MHD_OPTION_EXTERNAL_LOGGER, log_library, rest,
        MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, config->connection_limit + CONNECTION_RESERVE,
        MHD_OPTION_CONNECTION_TIMEOUT, config->idle_seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, config->header_limit + (size_t)HEADER_RESERVE,
        MHD_OPTION_URI_LOG_CALLBACK, request_new, rest,
        MHD_OPTION_NOTIFY_CONNECTION, notify_connection, rest,
        MHD_OPTION_NOTIFY_COMPLETED, request_completed, rest,
        MHD_OPTION_END);
    /* clang-format on */
    if (daemon == NULL)
        return error_set(err, REASON_INTERNAL, "cannot start the HTTP server");
    rest->daemons[rest->daemon_count++] = daemon;
    return 0;
}

static int start_listening(struct rest *rest, struct error *err)
{
    const struct rest_config *config = &rest->config;
    struct listener tcp = LISTENER_INIT;
    if (config->tcp_address != NULL &&
        (listen_tcp(config->tcp_address, &tcp, err) != 0 || start_daemon(rest, &tcp, err) != 0))
        return -1;
    if (listen_unix(config->socket_path, config->socket_mode, config->socket_group, &rest->unix_listener,
                    err) != 0)
        return -1;
    return start_daemon(rest, &rest->unix_listener, err);
}

int rest_start(const struct rest_config *config, struct rest **ret, struct error *err)
{
    struct rest *rest = calloc(1, sizeof *rest);
    if (rest == NULL)
        return error_set(err, REASON_RESOURCE_LIMIT, "no memory for the REST face");
    rest->config = *config;
    rest->unix_listener = LISTENER_INIT;
    if (gate_init(&rest->gate, err) != 0) {
        free(rest);
        return -1;
    }
    /* The idle time-out is libmicrohttpd's; twice that is the bound for a client that is slow but never idle.
     */
    if (connections_new(config->connection_limit, 2 * config->idle_seconds, config->metrics,
                        &rest->connections, err) != 0 ||
        workers_new(config->workers, &rest->workers, err) != 0 || start_listening(rest, err) != 0) {
        rest_stop(rest, 0);
        return -1;
    }
    *ret = rest;
    return 0;
}

void rest_stop(struct rest *rest, unsigned int drain_seconds)
{
    if (rest == NULL)
        return;
    listener_retire(&rest->unix_listener);
    if (rest->connections != NULL)
        connections_refuse(rest->connections);
    gate_drain(&rest->gate, drain_seconds);
    /* No request is suspended any more and none will be, which MHD_stop_daemon demands. */
    for (size_t i = 0; i < rest->daemon_count; i++)
        MHD_stop_daemon(rest->daemons[i]);
    workers_free(rest->workers);
    connections_free(rest->connections);
    listener_close(&rest->unix_listener);
    gate_destroy(&rest->gate);
    free(rest);
}
