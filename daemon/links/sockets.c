#include "daemon/links/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"

enum { SHARED_MODE = 0711, END_MODE = 0700, SOCKET_MODE = 0600, BACKLOG = 16 };

/* Where a socket is bound, in the link's directory, until it is complete and gets its name. */
static const char *const staging_names[2] = {".0", ".1"};
static const char *const end_names[2] = {"0", "1"};

static int fault_check(const char *name, struct error *err)
{
    const int fault = fault_point(name);
    if (fault == 0)
        return 0;
    return error_set_errno(err, fault == EMFILE ? REASON_RESOURCE_LIMIT : REASON_SOCKET_FAILED, fault,
                           "the step %s failed", name);
}

/* Opens a directory of ours; makes it when it is missing. A symlink or a file in its place is refused. */
static int make_directory(int parent, const char *name, struct error *err)
{
    if (mkdirat(parent, name, END_MODE) != 0 && errno != EEXIST)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "cannot make the directory %s", name);
    auto_close int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno == EMFILE ? REASON_RESOURCE_LIMIT : REASON_SOCKET_FAILED, errno,
                               "cannot open the directory %s", name);
    return take_fd(&fd);
}

/* A directory that is passed through. Whoever could write to it could exchange what is in it. */
static int make_shared_directory(int parent, const char *name, struct error *err)
{
    auto_close int fd = make_directory(parent, name, err);
    struct stat status;
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) != 0 || status.st_uid != geteuid())
        return error_set(err, REASON_SOCKET_FAILED, "the directory %s is not ours", name);
    if (fchmod(fd, SHARED_MODE) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "cannot set the mode of %s", name);
    return take_fd(&fd);
}

int sockets_open(const char *runtime_directory, struct error *err)
{
    auto_close int runtime = open(runtime_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (runtime < 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "runtime-dir: cannot open %s", runtime_directory);
    const int fd = make_shared_directory(runtime, LINKS_DIRECTORY_NAME, err);
    return fd < 0 ? error_wrap(err, "runtime-dir: %s: ", runtime_directory) : fd;
}

static int make_end_directory(int link_directory, unsigned end, const struct end_owner *owner,
                              struct error *err)
{
    auto_close int fd = make_directory(link_directory, end_names[end], err);
    struct stat status;
    if (fd < 0)
        return -1;
    if (fchmod(fd, END_MODE) != 0 || fstat(fd, &status) != 0 ||
        ((status.st_uid != owner->uid || status.st_gid != owner->gid) &&
         fchown(fd, owner->uid, owner->gid) != 0))
        return error_set_errno(err, REASON_SOCKET_FAILED, errno,
                               "cannot give the directory of end %u to uid %u and gid %u", end,
                               (unsigned int)owner->uid, (unsigned int)owner->gid);
    return take_fd(&fd);
}

/* Bound, owned and listening, under its staging name. */
static int make_listener(int link_directory, const char *path, const char *name,
                         const struct end_owner *owner, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >= (int)sizeof address.sun_path)
        return error_set(err, REASON_SOCKET_FAILED, "the path of the socket is too long: %s", path);
    auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "cannot make a socket");
    if (unlinkat(link_directory, name, 0) != 0 && errno != ENOENT)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "cannot remove what is at %s", path);
    if (bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || listen(fd, BACKLOG) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "cannot listen at %s", path);
    struct stat status;
    if (fchmodat(link_directory, name, SOCKET_MODE, 0) != 0 ||
        fstatat(link_directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        ((status.st_uid != owner->uid || status.st_gid != owner->gid) &&
         fchownat(link_directory, name, owner->uid, owner->gid, AT_SYMLINK_NOFOLLOW) != 0))
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "cannot give %s to uid %u and gid %u", path,
                               (unsigned int)owner->uid, (unsigned int)owner->gid);
    return take_fd(&fd);
}

static int make_end(int link_directory, const char *runtime_directory, const char *id, unsigned end,
                    const struct end_owner *owner, struct error *err)
{
    char path[LINK_SOCKET_PATH_SIZE + 1];
    const char *name = staging_names[end];
    const int length =
        snprintf(path, sizeof path, "%s/%s/%s/%s", runtime_directory, LINKS_DIRECTORY_NAME, id, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(err, REASON_INVALID_ID, "the socket's path would be too long: %s", path);
    auto_close int directory = make_end_directory(link_directory, end, owner, err);
    if (directory < 0)
        return -1;
    auto_close int fd = make_listener(link_directory, path, name, owner, err);
    if (fd < 0 || fault_check("link_create.after_listen", err) != 0)
        return -1;
    if (renameat(link_directory, name, directory, LINK_SOCKET_NAME) != 0)
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "cannot give the socket of end %u its name",
                               end);
    return take_fd(&fd);
}

int sockets_make(int directory, const char *runtime_directory, const struct link_row *row,
                 const struct end_owner owners[2], int listeners[2], struct error *err)
{
    listeners[0] = listeners[1] = -1;
    auto_close int link_directory = make_shared_directory(directory, row->id, err);
    if (link_directory < 0 || fault_check("link_create.after_directory", err) != 0)
        return -1;
    for (unsigned end = 0; end < 2; end++) {
        if (row->ends[end].role != LINK_ROLE_SERVER)
            continue;
        listeners[end] = make_end(link_directory, runtime_directory, row->id, end, &owners[end], err);
        if (listeners[end] < 0) {
            cleanup_close(&listeners[0]);
            listeners[0] = -1;
            return -1;
        }
    }
    return 0;
}

static int open_existing(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_socket(int directory, const char *name)
{
    struct stat status;
    return fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(status.st_mode);
}

bool sockets_present(int directory, const struct link_row *row)
{
    for (unsigned end = 0; end < 2; end++) {
        char name[ID_SIZE + 32];
        (void)snprintf(name, sizeof name, "%s/%s/%s", row->id, end_names[end], LINK_SOCKET_NAME);
        if (row->ends[end].role == LINK_ROLE_SERVER && !is_socket(directory, name))
            return false;
    }
    return true;
}

/* 0: gone. ENOTEMPTY: others have put something there. Else an errno. */
static int remove_end(int link_directory, unsigned end)
{
    auto_close int directory = open_existing(link_directory, end_names[end]);
    if (directory < 0)
        return errno == ENOENT ? 0 : errno == ENOTDIR || errno == ELOOP ? ENOTEMPTY : errno;
    if (is_socket(directory, LINK_SOCKET_NAME) && unlinkat(directory, LINK_SOCKET_NAME, 0) != 0 &&
        errno != ENOENT)
        return errno;
    if (unlinkat(link_directory, end_names[end], AT_REMOVEDIR) != 0 && errno != ENOENT)
        return errno;
    return 0;
}

int sockets_remove(int directory, const char *id, bool *left, struct error *err)
{
    *left = false;
    auto_close int link_directory = open_existing(directory, id);
    if (link_directory < 0) {
        if (errno == ENOENT)
            return 0;
        if (errno == ENOTDIR || errno == ELOOP) {
            *left = true;
            return 0;
        }
        return error_set_errno(err, REASON_SOCKET_FAILED, errno, "cannot open the directory of link %s", id);
    }
    for (unsigned end = 0; end < 2; end++) {
        const int failed = remove_end(link_directory, end);
        if (failed != 0 && failed != ENOTEMPTY)
            return error_set_errno(err, REASON_SOCKET_FAILED, failed,
                                   "cannot remove the socket of end %u of link %s", end, id);
        *left = *left || failed == ENOTEMPTY;
        if (is_socket(link_directory, staging_names[end]))
            (void)unlinkat(link_directory, staging_names[end], 0);
    }
    if (unlinkat(directory, id, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        if (errno != ENOTEMPTY && errno != EEXIST)
            return error_set_errno(err, REASON_SOCKET_FAILED, errno, "cannot remove the directory of link %s",
                                   id);
        *left = true;
    }
    return 0;
}

DIR *sockets_list(int directory, struct error *err)
{
    const int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (listing == NULL) {
        (void)error_set_errno(err, REASON_INTERNAL, errno, "cannot list the directory of links");
        cleanup_close(&fd);
    }
    return listing;
}
