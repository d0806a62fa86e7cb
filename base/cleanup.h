/* Cleanup attributes for locals: the value is released when the variable goes out of scope. */
#ifndef CHAN_BASE_CLEANUP_H
#define CHAN_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

static inline void cleanup_close(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static inline void cleanup_fclose(FILE **file)
{
    if (*file != NULL)
        (void)fclose(*file);
}

static inline void cleanup_closedir(DIR **dir)
{
    if (*dir != NULL)
        (void)closedir(*dir);
}

/* unused: to be released is use enough, which clang does not see by itself. */
#define auto_free     __attribute__((cleanup(cleanup_free), unused))
#define auto_close    __attribute__((cleanup(cleanup_close), unused))
#define auto_fclose   __attribute__((cleanup(cleanup_fclose), unused))
#define auto_closedir __attribute__((cleanup(cleanup_closedir), unused))

/* Hands a descriptor or pointer on to the caller, so that the local's cleanup finds nothing. */
static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

static inline void *take_pointer_raw(void *pointer_to_pointer)
{
    void *taken = *(void **)pointer_to_pointer;
    *(void **)pointer_to_pointer = NULL;
    return taken;
}
#define take_pointer(variable) ((__typeof__(variable))take_pointer_raw(&(variable)))

#endif
