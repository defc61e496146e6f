/*
 * short_name.h - a function's name for a table cell
 *
 * Errors:  those of the buffer (sticky).
 */
#ifndef HW_CLI_PARTS_SHORT_NAME_H
#define HW_CLI_PARTS_SHORT_NAME_H

#include <stddef.h>

struct hw_strbuf;

/*
 * A function's label without its parameters; if still wider than max, with template arguments
 * folded, and finally cut at the front. Control bytes are escaped.
 */
void hw_short_name(struct hw_strbuf *out, const char *label, size_t max);

#endif
