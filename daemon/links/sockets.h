/* Directories and listening sockets of the ends: links/{linkID}/{0,1}/vhost-user.sock in the runtime
 * directory. All down to the link's directory belongs to chand (mode 0711), so nobody else can put anything
 * in its way; the directory of an end belongs to the end's user (0700), so only that user's VMM can connect.
 */
#ifndef CHAN_DAEMON_LINKS_SOCKETS_H
#define CHAN_DAEMON_LINKS_SOCKETS_H

#include <dirent.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "daemon/links/links.h"

#define LINKS_DIRECTORY_NAME "links"
#define LINK_SOCKET_NAME     "vhost-user.sock"

/* Who may enter the directory of an end. */
struct end_owner {
    uid_t uid;
    gid_t gid;
};

/* Opens links/ in the runtime directory; makes it when it is missing. The descriptor. */
int sockets_open(const char *runtime_directory, struct error *err);

/* Makes what the row's ends of role server need. listeners[i]: a listening socket, or -1. A socket that is
 * there already is replaced in one step. On failure nothing stays open; what was made is for sockets_remove.
 */
int sockets_make(int directory, const char *runtime_directory, const struct link_row *row,
                 const struct end_owner owners[2], int listeners[2], struct error *err);

/* Are the sockets of the row's ends there? */
bool sockets_present(int directory, const struct link_row *row);

/* Removes directories and sockets of a link; not there: fine. What others have put there stays, and with it
 * the directory: *left is then true. */
int sockets_remove(int directory, const char *id, bool *left, struct error *err);

/* A listing of the directory, of its own. */
DIR *sockets_list(int directory, struct error *err);

#endif
