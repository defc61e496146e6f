/*
 * dump_sums.h - the sums of what each dump of a heap added
 *
 * Why:     needed for intervals of heap profiles: grouping 4 * 10^6 allocations by dump and
 *          callsite takes SQLite's sorter seconds.
 * Shapes:  one row for each process, heap and time with allocations, by first_row. retained: of the
 *          callsites with more allocations than frees in the dump.
 * Owns:    the caller owns the rows.
 * Errors:  HW_ENOMEM; sums saturate.
 * Cost:    O(rows), and temporarily 20 bytes per callsite.
 */
#ifndef HW_SQL_VIEWS_DUMP_SUMS_H
#define HW_SQL_VIEWS_DUMP_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"

struct hw_profile;

struct hw_dump_sum {
    int64_t first_row; /* of heap_profile_allocation */
    hw_upid upid;
    hw_str_id heap;
    uint32_t dump; /* the earliest-starting one of its dumps */
    int64_t end_ns, retained, allocated, delta;
};

struct hw_dump_sums {
    bool made;
    HW_VEC(struct hw_dump_sum) rows;
};

int hw_dump_sums_make(struct hw_dump_sums *s, const struct hw_profile *p);
void hw_dump_sums_done(struct hw_dump_sums *s);

#endif
