/* Giving up what the process does not need once it has started, so that whoever gets hold of it by way of a
 * guest's memory has little to do with it. */
#ifndef CHAN_DATAPLANE_CONFINE_H
#define CHAN_DATAPLANE_CONFINE_H

#include "base/error.h"

/* Drops every capability, for good. These belong to threads: call it before there is a second one. */
int confine_privileges(struct error *err);

/* Allows the system calls that links need, and no others, in all threads; what no part of this program would
 * ever do (start a program or a thread, open a network socket, make memory executable, trace another process)
 * ends the process. In builds with a sanitizer, whose run-time library needs more, it does nothing. */
int confine_system_calls(struct error *err);

#endif
