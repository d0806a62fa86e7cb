/* Structured log lines (logfmt) on standard error. The context is made by main and handed down to what runs
 * on its own, such as the collector; code that is called returns errors instead. */
#ifndef CHAN_BASE_LOG_H
#define CHAN_BASE_LOG_H

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

struct log {
    enum log_level level; /* lines above it are dropped */
    int fd;
};

/* Writes one line: time, level, msg and then pairs: log_write(log, LOG_LEVEL_INFO, "sandbox created",
 * "sandboxID", id, NULL). Keys and values alternate and end with NULL; values are quoted when they need it.
 * Any thread; one write(2) a line. log may be NULL. */
void log_write(const struct log *log, enum log_level level, const char *message, ...)
    __attribute__((sentinel));

#endif
