/*
 * large_stacks.h - callstacks that hold much themselves, as JSON records
 *
 * Why:     diff_heap_profiler writes them to files, and the MemoryInfra page offers the same ones.
 * Shapes:  a record is {"count", "size", "count_by_type", "size_by_type", "stackframes" (innermost
 *          first)}; of details with two moments the figures are changes. A callstack counts with
 *          more objects and more bytes than the limits. The largest come first.
 * Owns:    records.
 * Errors:  HW_ENOMEM.
 * Source:  spec/memory-infra.md 15.2
 */
#ifndef HW_EXPORT_LARGE_STACKS_H
#define HW_EXPORT_LARGE_STACKS_H

#include "views/heap_details.h"

struct hw_large_stack {
    int64_t size, count;
    char *json; /* owned */
};

struct hw_large_stacks {
    int64_t min_count, min_size; /* set before */
    HW_VEC(struct hw_large_stack) v;
};

/* Takes the place of what was found before. */
int hw_large_stacks_find(struct hw_large_stacks *l, const struct hw_heap_details *d);
/* The array, a record a line. */
int hw_large_stacks_text(const struct hw_large_stacks *l, struct hw_strbuf *out);
void hw_large_stacks_done(struct hw_large_stacks *l);

#endif
