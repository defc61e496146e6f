/*
 * parts_diff.h - which part of a process's memory grew between two readings
 *
 * Why:     two profiles may be alike while one process holds a gigabyte more: free memory inside
 *          the allocator, stacks, mappings. No site shows this, as no site asked for it.
 * Shapes:  a row for each part in the order of the parts, below it the part's mappings by name, the
 *          largest change first; names are compared as text, as the sides may be of two traces.
 *          Rows of parts add up to rss.
 * Units:   bytes, resident. error: two standard errors of the change, for parts that depend on live
 *          bytes.
 * Owns:    rows; names are borrowed from the two profiles.
 * Errors:  HW_ENOMEM.
 * Threads: pure; the profiles must be frozen.
 */
#ifndef HW_VIEWS_ACCOUNT_PARTS_DIFF_H
#define HW_VIEWS_ACCOUNT_PARTS_DIFF_H

#include <stdbool.h>

#include "base/memory/vec.h"
#include "views/account/memory_parts.h"

struct hw_parts_diff_row {
    enum hw_memory_part part;
    const char *name; /* of mappings; NULL = all of the part */
    double a, b, error;
};

struct hw_parts_diff {
    struct hw_parts_diff_row rss;
    HW_VEC(struct hw_parts_diff_row) rows;
};

struct hw_parts_diff_side {
    const struct hw_profile *p;
    const struct hw_memory_parts *parts;
};

/* live_error: of the change of the live bytes. */
int hw_parts_diff_make(const struct hw_parts_diff_side *a, const struct hw_parts_diff_side *b,
                       double live_error, struct hw_parts_diff *out);
void hw_parts_diff_done(struct hw_parts_diff *d);

/* Whether the change is at least a page, and more than its error. */
bool hw_parts_diff_is_sure(const struct hw_parts_diff_row *r);
/* The program's part that grew most; NULL if no growth is sure. */
const struct hw_parts_diff_row *hw_parts_diff_most(const struct hw_parts_diff *d);

#endif
