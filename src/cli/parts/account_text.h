/*
 * account_text.h - an account of a process's memory in one line
 *
 * Why:     the report shows it below its head, the account above its table.
 * Shapes:  "RSS 70.0 MiB [at 3 s] = live 44.9 + rounding 6.1 + ... (unexplained 0.0)", all in the unit of
 *          the sum; parts that would print as 0.0 are left out. Wrapped at width, further lines
 *          indented.
 */
#ifndef HW_CLI_PARTS_ACCOUNT_TEXT_H
#define HW_CLI_PARTS_ACCOUNT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "views/account/memory_parts.h"

struct hw_strbuf;

/* Above this it is told. */
#define HW_ACCOUNT_AGE_SHOWN_NS INT64_C(100000000)

/* ": what it is", on stdout. */
void hw_account_put_what(const struct hw_memory_parts *m, enum hw_memory_part p);
/* at: when it was, if that is to be said; else NULL. */
void hw_account_line(const struct hw_memory_parts *m, const char *at, size_t width,
                     struct hw_strbuf *out);

#endif
