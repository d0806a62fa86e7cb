/* The ways to copy, and the measurement that compares them. */
#ifndef CHAN_DATAPLANE_MEMORY_COPY_METHODS_H
#define CHAN_DATAPLANE_MEMORY_COPY_METHODS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum copy_method {
    COPY_VECTOR, /* loads and stores of vectors, the widest that there are */
    COPY_MOVSB,  /* rep movsb: the processor's own choice */
    COPY_STREAM, /* non-temporal stores, past the caches */
    COPY_METHOD_COUNT
};

/* Can it be used on this machine, and does it do what its name says? */
bool copy_method_usable(enum copy_method method);
const char *copy_method_name(enum copy_method method);
/* More than COPY_SMALL_MAX bytes. */
void copy_with(enum copy_method method, uint8_t *to, const uint8_t *from, size_t length);

/* Lengths are told apart by their power of two: 257 to 511, 512 to 1023, and so on; the last one is open. */
enum { COPY_CLASSES = 8, COPY_CLASS_FIRST = 256 };

static inline unsigned copy_class(size_t length)
{
    const unsigned above = 63U - (unsigned)__builtin_clzl(length / COPY_CLASS_FIRST);
    return above < COPY_CLASSES ? above : COPY_CLASSES - 1;
}

/* Measures which method is best for each class while another CPU reads what was written. False if that could
 * not be found out in time. */
bool copy_measure(enum copy_method best[COPY_CLASSES]);

#endif
