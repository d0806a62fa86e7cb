/* Errors that carry their story. Functions that can fail take a struct error as last argument and return 0 or
 * -1; success leaves the error alone, failure sets reason and detail. Libraries never log and never exit. */
#ifndef CHAN_BASE_ERROR_H
#define CHAN_BASE_ERROR_H

#include <stddef.h>

enum exit_code {
#define EXIT_CODE_ENTRY(name, number, meaning) EXIT_CODE_##name = (number),
#include "base/exit_codes.def"
#undef EXIT_CODE_ENTRY
};

enum reason {
    REASON_NONE = 0,
#define REASON(name, word, http, grpc, exit_code, title) REASON_##name,
#include "base/reasons.def"
#undef REASON
    REASON_COUNT
};

struct reason_info {
    const char *word;
    int http_status;
    int grpc_code;
    enum exit_code exit_code;
    const char *title;
};

enum { ERROR_FIELDS_MAX = 8 };

/* A bad field of a request: its JSON path ("ivshmem.sizeBytes") and what is wrong with it. */
struct field_error {
    char field[96];
    char detail[200];
};

struct error {
    enum reason reason;
    int sys_errno; /* 0 when no system call failed */
    char detail[512];
    size_t field_count;
    struct field_error fields[ERROR_FIELDS_MAX];
};

#define ERROR_INIT ((struct error){.reason = REASON_NONE})

/* The table row of a reason; never NULL (an unknown value answers as REASON_INTERNAL). */
const struct reason_info *reason_info(enum reason reason);

/* The reason of that word, or REASON_NONE. */
enum reason reason_by_word(const char *word);

/* Sets reason and detail; clears fields. Always returns -1, for `return error_set(...)`. err may be NULL. */
int error_set(struct error *err, enum reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_set, appends ": " and strerror(sys_errno), and keeps sys_errno. */
int error_set_errno(struct error *err, enum reason reason, int sys_errno, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts text in front of the detail that is there: "creating sandbox sb1: " + detail. Always returns -1. */
int error_wrap(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a bad field; the first one sets the reason and a detail that names it. Beyond ERROR_FIELDS_MAX the
 * field is dropped. Always returns -1. */
int error_field(struct error *err, enum reason reason, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* clang's analyzer does not see into error.c, so it is told here that these always answer -1. (There, names
 * in parentheses keep these macros away.) */
#ifdef __clang_analyzer__
#define error_set(...)       ((void)error_set(__VA_ARGS__), -1)
#define error_set_errno(...) ((void)error_set_errno(__VA_ARGS__), -1)
#define error_wrap(...)      ((void)error_wrap(__VA_ARGS__), -1)
#define error_field(...)     ((void)error_field(__VA_ARGS__), -1)
#endif

#endif
