#include "daemon/startup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

int startup_directory(const char *path, mode_t mode, bool is_private, struct error *err)
{
    if (mkdir(path, mode) == 0) {
        if (chmod(path, mode) == 0) /* whatever the umask took away */
            return 0;
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot set the mode of %s", path);
    }
    if (errno != EEXIST)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot make the directory %s", path);
    struct stat status;
    if (stat(path, &status) != 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot look at the directory %s", path);
    if (!S_ISDIR(status.st_mode))
        return error_set(err, REASON_INTERNAL, "%s is not a directory; move it away", path);
    if (is_private && (status.st_mode & S_IWOTH) != 0)
        return error_set(err, REASON_INTERNAL, "everybody may write to %s; take that away: chmod o-w %s",
                         path, path);
    return 0;
}

int startup_lock(const char *state_directory, int *ret, struct error *err)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/chand.lock", state_directory);
    if (length < 0 || (size_t)length >= sizeof path)
        return error_set(err, REASON_INTERNAL, "the path of the state directory is too long: %s",
                         state_directory);
    auto_close int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot open the lock %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return error_set_errno(err, REASON_INTERNAL, errno, "cannot take the lock %s", path);
        char holder[16] = "";
        ssize_t got = pread(fd, holder, sizeof holder - 1, 0);
        holder[got > 0 ? strcspn(holder, "\n") : 0] = '\0';
        return error_set(err, REASON_INTERNAL,
                         "another chand (pid %s) uses %s; stop it, or give this one its own state-dir",
                         holder, state_directory);
    }
    /* The pid is for the message above only; the lock is what counts. */
    char text[16];
    length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) != length)
        return error_set_errno(err, REASON_INTERNAL, errno, "cannot write the lock %s", path);
    *ret = take_fd(&fd);
    return 0;
}

int startup_program(const char *name, char **ret, struct error *err)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length > 0 && (size_t)length < sizeof path) {
        path[length] = '\0';
        char *slash = strrchr(path, '/');
        size_t used = slash != NULL ? (size_t)(slash - path) + 1 : 0;
        int added = snprintf(path + used, sizeof path - used, "%s", name);
        if (added >= 0 && (size_t)added < sizeof path - used && access(path, X_OK) == 0)
            name = path;
    }
    *ret = strdup(name);
    return *ret != NULL ? 0 : error_set_errno(err, REASON_RESOURCE_LIMIT, errno, "cannot look for %s", name);
}

int startup_absolute(const char *path, char **ret, struct error *err)
{
    *ret = path[0] == '/' ? strdup(path) : realpath(path, NULL);
    return *ret != NULL ? 0 : error_set_errno(err, REASON_INTERNAL, errno, "cannot use %s", path);
}
