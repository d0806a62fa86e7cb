#include "daemon/regions/regions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/cleanup.h"
#include "daemon/regions/internal.h"

static const char placeholder[] = "{sandboxID}";

enum {
    PLACEHOLDER_LENGTH = sizeof placeholder - 1,
    TOKEN_LENGTH = STAGING_TOKEN_SIZE - 1,
    ID_LENGTH_MAX = ID_SIZE - 1,
    DIRECTORY_LENGTH_MAX = 255
};

/* ---- shared within the folder ---- */

void staging_name(const struct region_row *row, char out[STAGING_NAME_SIZE])
{
    (void)snprintf(out, STAGING_NAME_SIZE, "%s%s", STAGING_PREFIX, row->staging_token);
}

int file_error(struct error *err, int sys_errno, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    enum reason reason = REASON_INTERNAL;
    switch (sys_errno) {
    case ENOSPC:
    case EDQUOT:
        reason = REASON_NO_SPACE;
        break;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        reason = REASON_RESOURCE_LIMIT;
        break;
    default:
        break;
    }
    return error_set_errno(err, reason, sys_errno, "%s", text);
}

int file_status(int fd, const char *name, struct statx *ret)
{
    int flags = AT_SYMLINK_NOFOLLOW | (name[0] == '\0' ? AT_EMPTY_PATH : 0);
    return statx(fd, name, flags, STATX_BASIC_STATS | STATX_BTIME, ret) == 0 ? 0 : -errno;
}

uint64_t file_device(const struct statx *status)
{
    return makedev(status->stx_dev_major, status->stx_dev_minor);
}

int64_t file_birth_ns(const struct statx *status)
{
    if ((status->stx_mask & STATX_BTIME) == 0)
        return 0;
    return status->stx_btime.tv_sec * 1000000000 + status->stx_btime.tv_nsec;
}

/* ---- names ---- */

static int bad_pattern(struct error *err, const char *pattern, const char *why)
{
    return error_set(err, REASON_INVALID_FIELD, "the region name pattern \"%s\" %s", pattern, why);
}

/* Checks the pattern and sets *id_at to where the id goes. */
static int check_pattern(const char *pattern, const char **id_at, struct error *err)
{
    const char *at = strstr(pattern, placeholder);
    if (at == NULL)
        return bad_pattern(err, pattern, "has no {sandboxID}");
    const char *rest = at + PLACEHOLDER_LENGTH;
    if (strstr(rest, placeholder) != NULL)
        return bad_pattern(err, pattern, "has {sandboxID} more than once");
    size_t prefix_length = (size_t)(at - pattern);
    if (strcspn(pattern, "{}") < prefix_length || strpbrk(rest, "{}") != NULL)
        return bad_pattern(err, pattern, "has a brace outside of {sandboxID}");
    if (strchr(pattern, '/') != NULL)
        return bad_pattern(err, pattern, "has a slash; the directory is a setting of its own");
    for (const char *c = pattern; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return bad_pattern(err, pattern, "has a control character");
    /* An id completes the prefix, so a beginning of the staging prefix is as bad as the whole. */
    size_t compared = prefix_length < sizeof STAGING_PREFIX - 1 ? prefix_length : sizeof STAGING_PREFIX - 1;
    if (prefix_length > 0 && strncmp(pattern, STAGING_PREFIX, compared) == 0)
        return bad_pattern(err, pattern,
                           "begins like \"" STAGING_PREFIX "\", which unfinished files are called");
    if (strlen(pattern) - PLACEHOLDER_LENGTH + ID_LENGTH_MAX > NAME_MAX)
        return bad_pattern(err, pattern, "is too long: with an id of 128 characters a name may have 255");
    *id_at = at;
    return 0;
}

static bool is_id_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

static bool is_id(const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length > ID_LENGTH_MAX || text[0] == '.' || text[0] == '-' ||
        strstr(text, "..") != NULL)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_id_character(text[i]))
            return false;
    return true;
}

static bool is_token(const char *text)
{
    return strlen(text) == TOKEN_LENGTH && strspn(text, "0123456789abcdef") == TOKEN_LENGTH;
}

void region_name(const struct regions *regions, const char *sandbox_id, char out[REGION_NAME_SIZE])
{
    (void)snprintf(out, REGION_NAME_SIZE, "%s%s%s", regions->prefix, sandbox_id, regions->suffix);
}

/* The reverse of region_name; false when the name does not fit the pattern. */
static bool parse_name(const struct regions *regions, const char *name, char id[ID_SIZE])
{
    size_t length = strlen(name);
    size_t prefix_length = strlen(regions->prefix);
    size_t suffix_length = strlen(regions->suffix);
    if (length <= prefix_length + suffix_length || length - prefix_length - suffix_length > ID_LENGTH_MAX)
        return false;
    if (memcmp(name, regions->prefix, prefix_length) != 0 ||
        strcmp(name + length - suffix_length, regions->suffix) != 0)
        return false;
    size_t id_length = length - prefix_length - suffix_length;
    memcpy(id, name + prefix_length, id_length);
    id[id_length] = '\0';
    return is_id(id);
}

int region_make_token(char out[STAGING_TOKEN_SIZE], struct error *err)
{
    unsigned char random[TOKEN_LENGTH / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return error_set_errno(err, REASON_INTERNAL, errno, "no random numbers");
    for (size_t i = 0; i < sizeof random; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", random[i]);
    return 0;
}

/* ---- the directory ---- */

static int open_directory(struct regions *regions, const char *directory, struct error *err)
{
    size_t length = strlen(directory);
    if (directory[0] != '/')
        return error_set(err, REASON_INVALID_FIELD,
                         "the shared-memory directory \"%s\" is not an absolute path", directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    if (length > DIRECTORY_LENGTH_MAX)
        return error_set(err, REASON_INVALID_FIELD,
                         "the shared-memory directory's path is longer than %d bytes", DIRECTORY_LENGTH_MAX);
    regions->directory = strndup(directory, length);
    if (regions->directory == NULL)
        return file_error(err, ENOMEM, "opening %s", directory);
    regions->directory_fd = open(regions->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (regions->directory_fd < 0)
        return file_error(err, errno, "cannot open the shared-memory directory %s", directory);
    if (faccessat(regions->directory_fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
        return file_error(err, errno, "cannot make files in the shared-memory directory %s", directory);
    struct statfs system;
    if (fstatfs(regions->directory_fd, &system) < 0)
        return file_error(err, errno, "cannot examine the shared-memory directory %s", directory);
    regions->outlive_host = system.f_type != TMPFS_MAGIC && system.f_type != HUGETLBFS_MAGIC;
    return 0;
}

int regions_open(const struct regions_config *config, struct regions **ret, struct error *err)
{
    const char *id_at = NULL;
    if (check_pattern(config->name_pattern, &id_at, err) < 0)
        return -1;
    struct regions *regions = calloc(1, sizeof *regions);
    if (regions == NULL)
        return file_error(err, ENOMEM, "opening %s", config->directory);
    regions->directory_fd = -1;
    regions->prefix = strndup(config->name_pattern, (size_t)(id_at - config->name_pattern));
    regions->suffix = strdup(id_at + PLACEHOLDER_LENGTH);
    int failed = 0;
    if (regions->prefix == NULL || regions->suffix == NULL)
        failed = file_error(err, ENOMEM, "opening %s", config->directory);
    else if (clock_boot_id(regions->boot_id, err) < 0 || open_directory(regions, config->directory, err) < 0)
        failed = -1;
    if (failed < 0) {
        regions_close(regions);
        return -1;
    }
    *ret = regions;
    return 0;
}

void regions_close(struct regions *regions)
{
    if (regions == NULL)
        return;
    cleanup_close(&regions->directory_fd);
    free(regions->directory);
    free(regions->prefix);
    free(regions->suffix);
    free(regions);
}

const char *regions_directory(const struct regions *regions)
{
    return regions->directory;
}

bool regions_outlive_host(const struct regions *regions)
{
    return regions->outlive_host;
}

bool regions_has_file(const struct regions *regions, const char *name)
{
    struct statx status;
    return file_status(regions->directory_fd, name, &status) == 0;
}

int regions_changed(const struct regions *regions, int64_t *changed_ns, struct error *err)
{
    struct statx status;
    int failed = file_status(regions->directory_fd, "", &status);
    if (failed < 0)
        return file_error(err, -failed, "cannot examine %s", regions->directory);
    *changed_ns = status.stx_mtime.tv_sec * 1000000000 + status.stx_mtime.tv_nsec;
    return 0;
}

int regions_scan(struct regions *regions, region_scan_fn fn, void *context, struct error *err)
{
    auto_close int fd = openat(regions->directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_error(err, errno, "cannot list %s", regions->directory);
    auto_closedir DIR *dir = fdopendir(fd);
    if (dir == NULL)
        return file_error(err, errno, "cannot list %s", regions->directory);
    (void)take_fd(&fd); /* closed with dir */
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL)
            return errno == 0 ? 0 : file_error(err, errno, "cannot list %s", regions->directory);
        const char *name = entry->d_name;
        const char *token = name + sizeof STAGING_PREFIX - 1;
        char id[ID_SIZE];
        int stop = 0;
        if (strncmp(name, STAGING_PREFIX, sizeof STAGING_PREFIX - 1) == 0 && is_token(token))
            stop = fn(context, name, NULL, token);
        else if (parse_name(regions, name, id))
            stop = fn(context, name, id, NULL);
        if (stop != 0)
            return 0;
    }
}

int regions_space(const struct regions *regions, uint64_t *total_bytes, uint64_t *free_bytes,
                  struct error *err)
{
    struct statvfs space;
    if (fstatvfs(regions->directory_fd, &space) < 0)
        return file_error(err, errno, "cannot ask for the space of %s", regions->directory);
    *total_bytes = (uint64_t)space.f_blocks * space.f_frsize;
    *free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    return 0;
}
