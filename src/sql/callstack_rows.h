/*
 * callstack_rows.h - the functions of every callsite, one row each, with readable names
 *
 * Why:     a callsite whose frame has inlined functions is several functions of a stack. Modules
 *          that draw stacks need each as a node with a parent.
 * Shapes:  rows are in the order of callsites; within a callsite the innermost function (the leaf)
 *          comes first. A row's parent is the next outer function of its callsite; the outermost
 *          one's is the innermost function of the parent callsite.
 * Owns:    the rows, until the connection closes; raw names are borrowed from the profile.
 * Errors:  HW_ENOMEM, HW_ELIMIT; then there are no rows.
 * Cost:    O(callsites + lines + names) once, 8 bytes per callsite and row; a cell is O(1).
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
    int inlined;   /* -1: unknown without symbols */
    bool is_leaf;
};

struct hw_callstack_rows {
    char *(*demangle)(const char *text); /* NULL = none; returns malloc'ed text or NULL */
    bool made;
    size_t n;
    uint32_t *first;        /* owned: by callsite, its first row; one extra entry at the end */
    uint32_t *callsite;     /* owned: by row */
    struct hw_bytes *shown; /* owned: by string; p NULL = unchanged */
    struct hw_arena names;
};

int hw_callstack_rows_make(struct hw_callstack_rows *rows, const struct hw_profile *p);
struct hw_callstack_row hw_callstack_row(const struct hw_callstack_rows *rows,
                                         const struct hw_profile *p, uint32_t row);
void hw_callstack_rows_done(struct hw_callstack_rows *rows);

#endif
