#ifndef CHAN_TESTS_UNIT_CLI_SUITES_H
#define CHAN_TESTS_UNIT_CLI_SUITES_H

#include <check.h>
#include <stdio.h>

Suite *args_suite(void);
Suite *command_suite(void);
Suite *completion_suite(void);
Suite *details_suite(void);
Suite *link_suite(void);
Suite *table_suite(void);
Suite *text_suite(void);
Suite *values_suite(void);
Suite *yaml_suite(void);

/* What `call` writes to the stream `out`, as a string for free(). */
#define CAPTURE(result, call)                                                                                \
    do {                                                                                                     \
        size_t capture_size = 0;                                                                             \
        FILE *out = open_memstream(&(result), &capture_size);                                                \
        ck_assert_ptr_nonnull(out);                                                                          \
        call;                                                                                                \
        ck_assert_int_eq(fclose(out), 0);                                                                    \
    } while (0)

#endif
