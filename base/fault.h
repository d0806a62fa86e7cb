/* Fault points: places where a test build can be made to die or fail. In a release build they are nothing.
 *
 * The environment variable CHAN_FAULT names what shall happen, for example
 *   CHAN_FAULT="region.after_link=kill"        die by SIGKILL when the point is reached
 *   CHAN_FAULT="region.after_link:3=kill"      at the third time
 *   CHAN_FAULT="region.after_open=ENOSPC"      the step fails with that errno
 *   CHAN_FAULT="region.after_link=stop"        raise SIGSTOP, so that a test can look around and continue it
 */
#ifndef CHAN_BASE_FAULT_H
#define CHAN_BASE_FAULT_H

#include <stdio.h>

#ifdef CHAN_FAULT_POINTS
/* Returns 0, or the errno value with which the step shall fail. May not return at all. Any thread. */
int fault_point(const char *name);
/* Prints the table of points, one name a line. */
void fault_list(FILE *out);
#else
static inline int fault_point(const char *name)
{
    (void)name;
    return 0;
}
#endif

#endif
