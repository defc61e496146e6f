/*
 * token_macros.h - built-in macros that work on tokens
 *
 * Why:     a scan's select is run by a function, so it is passed as a text; columns that a macro
 *          gets as a list in parentheses are needed without them, and with numbers.
 * Shapes:  __intrinsic_stringify!(text)       'text'
 *          _hw_columns!((a, b))               a, b
 *          _hw_scan_columns!((a, b))          c1 AS a, c2 AS b
 *          _hw_scan_step!(select, (a, b))     '(SELECT id, a, b FROM select)', where $table is the
 *                                             rows that arrived (graphs/graph_scan.h)
 *          _hw_allocation_list!(select)       the sums of its allocations by callsite, as a list
 * Owns:    nothing; *out is the caller's.
 * Errors:  HW_EINVAL (wrong number of arguments), HW_ENOMEM.
 */
#ifndef HW_SQL_MODULES_TOKEN_MACROS_H
#define HW_SQL_MODULES_TOKEN_MACROS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

struct hw_error;

bool hw_token_macro_exists(struct hw_bytes name);
/* Macros within the arguments are already expanded. */
int hw_token_macro_put(struct hw_bytes name, const struct hw_bytes *args, size_t n,
                       struct hw_strbuf *out, struct hw_error *err);

#endif
