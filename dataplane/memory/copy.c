#include "dataplane/memory/copy.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dataplane/memory/copy_methods.h"

/* Written by copy_calibrate only, before there are workers. Plain vectors are the default: they are never the
 * worst, while each of the others is several times slower on some machine. */
static struct {
    uint8_t method[COPY_CLASSES]; /* enum copy_method */
    char description[192];
} chosen = {.description = "vector (not measured)"};

void copy_large(uint8_t *to, const uint8_t *from, size_t length)
{
    copy_with((enum copy_method)chosen.method[copy_class(length)], to, from, length);
}

const char *copy_description(void)
{
    return chosen.description;
}

__attribute__((format(printf, 1, 2))) static void describe(const char *format, ...)
{
    const size_t used = strlen(chosen.description);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(chosen.description + used, sizeof chosen.description - used, format, args);
    va_end(args);
}

void copy_calibrate(void)
{
    enum copy_method best[COPY_CLASSES];
    if (!copy_measure(best))
        return;
    chosen.description[0] = '\0';
    for (unsigned i = 0; i < COPY_CLASSES; i++) {
        chosen.method[i] = (uint8_t)best[i];
        if (i > 0 && best[i] != best[i - 1])
            describe("%s below %u bytes, ", copy_method_name(best[i - 1]), (unsigned)COPY_CLASS_FIRST << i);
    }
    describe("%s%s (measured)", copy_method_name(best[COPY_CLASSES - 1]),
             chosen.description[0] != '\0' ? " from there on" : "");
}
