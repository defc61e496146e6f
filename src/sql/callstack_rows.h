/*
 * callstack_rows.h - the functions of every callsite, one row each, with the names people read
 *
 * Why:     a callsite whose frame has inlined functions is several functions of a stack. Modules
 *          that draw stacks want each as a node that names its caller.
 * Shapes:  rows are in the order of callsites; those of one callsite together, its innermost
 *          function (the leaf) first. A row's parent is the next outer function of its callsite;
 *          the outermost one's is the innermost function of the parent callsite.
 * Owns:    what was made, until the connection closes; names of the file are borrowed from it.
 * Errors:  HW_ENOMEM, HW_ELIMIT; then nothing was made.
 * Cost:    O(callsites + lines + names) once, 8 bytes a callsite and row; a cell is O(1).
 * Source:  doc/design/sql.md, "Stacks as trees"
 */
#ifndef HW_SQL_CALLSTACK_ROWS_H
#define HW_SQL_CALLSTACK_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/arena.h"
#include "base/text/strings.h"

struct hw_profile;

struct hw_callstack_row {
    uint32_t callsite, parent, mapping; /* HW_ID_NONE = none */
    struct hw_bytes name;
    hw_str_id file;
    uint32_t line; /* 0 = unknown */
    int inlined;   /* -1: not known, there are no symbols */
    bool is_leaf;
};

struct hw_callstack_rows {
    char *(*demangle)(const char *text); /* NULL = none; gives malloc'ed text or NULL */
    bool made;
    size_t n;
    uint32_t *first;        /* owned: by callsite, its first row; one more behind the last */
    uint32_t *callsite;     /* owned: by row */
    struct hw_bytes *shown; /* owned: by string; p NULL = as it is */
    struct hw_arena names;
};

int hw_callstack_rows_make(struct hw_callstack_rows *rows, const struct hw_profile *p);
struct hw_callstack_row hw_callstack_row(const struct hw_callstack_rows *rows,
                                         const struct hw_profile *p, uint32_t row);
void hw_callstack_rows_done(struct hw_callstack_rows *rows);

#endif
