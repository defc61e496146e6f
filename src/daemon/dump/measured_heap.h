/*
 * measured_heap.h - a heap without allocations: what a measurement found, by stack
 *
 * Why:     pages that live blocks pin, and resident memory of mappings, are measured at dumps; written as a heap, every
 *          reader shows them by call.
 * Shapes:  begin, then add for each finding, then tell: cells of the stacks whose figure differs
 *          from the reported one, as blocks that came or went since.
 * Units:   bytes.
 * Owns:    its lists. Zero-initialised is empty.
 * Errors:  HW_ENOMEM.
 * Threads: one owner at a time.
 */
#ifndef HW_DAEMON_DUMP_MEASURED_HEAP_H
#define HW_DAEMON_DUMP_MEASURED_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "daemon/books/ring_consumer.h"

struct hw_measured_site {
    double bytes;
    uint64_t blocks;
    double objects, variance; /* what sampled blocks stand for; of bytes. 0 where all is known */
    struct hw_totals told;
};

struct hw_measured_heap {
    struct hw_map64 of_stack; /* stack → row */
    HW_VEC(struct hw_measured_site) sites;
    HW_VEC(uint32_t) stacks; /* by row */
};

void hw_measured_heap_done(struct hw_measured_heap *m);
size_t hw_measured_heap_bytes(const struct hw_measured_heap *m); /* of memory */
void hw_measured_heap_begin(struct hw_measured_heap *m);
int hw_measured_heap_add(struct hw_measured_heap *m, uint32_t stack, double bytes, uint64_t blocks);
/* The row of a stack, borrowed until another one is made. */
int hw_measured_heap_site(struct hw_measured_heap *m, uint32_t stack,
                          struct hw_measured_site **out);
int hw_measured_heap_tell(struct hw_measured_heap *m, struct hw_snap_book *out);

#endif
