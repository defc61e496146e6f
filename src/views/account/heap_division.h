/*
 * heap_division.h - the allocator's mappings, divided among live blocks, rounding, what is older, and what is free
 *
 * Shapes:  resident memory goes by sizes: what is neither live nor rounding nor older is free. Of the proportional
 *          set size, pages that no other process has are first what the process allocated itself: a forked child shares
 *          what is its parent's.
 * Units:   bytes.
 * Owns:    nothing.
 * Errors:  none; the sums of all parts are those of the mappings, with HW_PART_MOVED where more is live than there is.
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
    double own; /* of all.rss: on pages that no other process has */
    double size;
    double blocks_size, blocks_resident; /* of them: large blocks, resident or swapped */
    bool is_glibc;
};

struct hw_heap_use {
    double live, rounding, older; /* by size, resident or not */
    double least_rounding; /* of sites with blocks of several sizes an estimate's lower end */
    bool older_known;
};

/* Live memory that is neither in memory nor swapped. No large block is free: what they have beyond what is in
 * use belongs to somebody else, who may not have touched it either. Another allocator's rounding is an estimate of
 * another kind, and says nothing here. */
double hw_heap_untouched(const struct hw_heap_memory *h, const struct hw_heap_use *u);
/* Adds to m's parts; sets untouched and older_or_free. */
void hw_heap_divide(const struct hw_heap_memory *h, const struct hw_heap_use *u,
                    struct hw_memory_parts *m);

#endif
