/*
 * json_page.h - one answer of a command as JSON: {"version": 1, "type": ..., ...} and a line's end
 *
 * Why:     whoever reads these pages tells them apart by the same two members, and finds each whole
 *          on standard output.
 * Shapes:  begin, members by json_out.h, end. A held page is made in memory, so that an error on
 *          the way (hw_json_done instead of the end) leaves nothing of it.
 * Errors:  those of hw_json_finish; HW_ESYS when it cannot be written.
 */
#ifndef HW_CLI_PARTS_JSON_PAGE_H
#define HW_CLI_PARTS_JSON_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/text/json_out.h"

enum hw_json_page_flags {
    HW_PAGE_DENSE = 1, /* no blanks: a page of many rows */
    HW_PAGE_HELD = 2
};

void hw_json_page_begin(struct hw_json *j, FILE *out, const char *type, unsigned flags);
int hw_json_page_end(struct hw_json *j);

#endif
