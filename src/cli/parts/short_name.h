/*
 * short_name.h - a function's name in a table's cell
 *
 * Errors:  those of the buffer (sticky).
 */
#ifndef HW_CLI_PARTS_SHORT_NAME_H
#define HW_CLI_PARTS_SHORT_NAME_H

#include <stddef.h>

struct hw_strbuf;

/* A function's label without its parameters and, when it is still wider than max, with template
 * arguments folded and at last its beginning cut. Control bytes escaped. */
void hw_short_name(struct hw_strbuf *out, const char *label, size_t max);

#endif
