/*
 * heap_division.h - the allocator's memory, divided into live, rounding, older and free
 *
 * Shapes:  resident memory is divided by sizes: what is neither live nor rounding nor older is
 *          free. In the proportional set size, unshared pages belong first to what the process
 *          allocated itself, since a forked child shares its parent's memory.
 * Units:   bytes.
 * Owns:    nothing.
 * Errors:  none; the parts always add up to the mappings: HW_PART_MOVED is negative if more is live
 *          than is resident.
 * Threads: pure.
 * Source:  doc/design/accounting.md
 */
#ifndef HW_VIEWS_ACCOUNT_HEAP_DIVISION_H
#define HW_VIEWS_ACCOUNT_HEAP_DIVISION_H

#include <stdbool.h>

#include "views/account/memory_parts.h"

/* The allocator's mappings together. */
struct hw_heap_memory {
    struct hw_part_bytes all;
    double own; /* of all.rss: on unshared pages */
    double size;
    double blocks_size,
        blocks_resident; /* large blocks: their size, and what is resident or swapped */
    bool is_glibc;
};

struct hw_heap_use {
    double live, rounding, older; /* by size, resident or not */
    double least_rounding;        /* lower bound, as sites with several block sizes are estimated */
    bool older_known;
};

/* Live memory that is neither resident nor swapped. Large blocks are never free: if they are larger
 * than all memory in use, the excess belongs to something else and may be untouched, too. Rounding
 * only counts for glibc, as other allocators' rounding is too rough an estimate. */
double hw_heap_untouched(const struct hw_heap_memory *h, const struct hw_heap_use *u);
/* Adds to m's parts; sets untouched and older_or_free. */
void hw_heap_divide(const struct hw_heap_memory *h, const struct hw_heap_use *u,
                    struct hw_memory_parts *m);

#endif
