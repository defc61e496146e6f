/*
 * json_page.h - one answer of a command as JSON: {"version": 1, "type": ..., ...} and a newline
 *
 * Why:     readers tell these answers apart by the same two members, and always get a complete one.
 * Shapes:  begin, members by json_out.h, end. A held page is built in memory, so that an error on
 *          the way (hw_json_done instead of the end) prints nothing.
 * Errors:  those of hw_json_finish; HW_ESYS when it cannot be written.
 */
#ifndef HW_CLI_PARTS_JSON_PAGE_H
#define HW_CLI_PARTS_JSON_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/text/json_out.h"

enum hw_json_page_flags {
    HW_PAGE_DENSE = 1, /* no whitespace: a page of many rows */
    HW_PAGE_HELD = 2
};

void hw_json_page_begin(struct hw_json *j, FILE *out, const char *type, unsigned flags);
int hw_json_page_end(struct hw_json *j);

#endif
