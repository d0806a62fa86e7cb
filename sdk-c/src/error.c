#include "chan/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "region.h"

int(chan_error_set)(struct chan_error *error, int result, const char *format, ...)
{
    if (error != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
    }
    return result;
}

const char *chan_error_text(int result)
{
    switch (result) {
    case 0:
        return "no error";
    case -EAGAIN:
        return "not now: the ring is full or empty, or the peer is not there; try again or give a time-out";
    case -ETIMEDOUT:
        return "timed out: check that the peer runs and uses the same region";
    case -ENOTCONN:
        return "not connected: call chan_connect() first";
    case -ECONNRESET:
        return "the peer started again, or the region's content was replaced: reconnect";
    case -EPIPE:
        return "the peer closed the channel: reconnect to wait for the next one";
    case -EPROTO:
        return "the peer broke the protocol: nothing of it was used; reconnect once the peer is repaired";
    case -ESTALE:
        return "the region is another one now: close it and open it again";
    case -EMSGSIZE:
        return "the message is too large for the ring, or for the buffer";
    case -EBUSY:
        return "in use: a reservation is open, or the side is taken by another program";
    case -ENOMSG:
        return "no superblock: a raw region carries no channel";
    case -EPROTONOSUPPORT:
        return "the layout is of a version, or needs a feature, that this library does not know: update "
               "libchan";
    case -EBADMSG:
        return "the superblock is damaged";
    case -EACCES:
        return "not permitted: the region is open read-only, or its file belongs to somebody else";
    case -EINVAL:
        return "invalid argument";
    case -ENOMEM:
        return "out of memory";
    default:
        return "unexpected error";
    }
}
