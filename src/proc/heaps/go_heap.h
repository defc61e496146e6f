/*
 * go_heap.h - the memory of Go's runtime by its own statistics, read from outside
 *
 * Why:     a Go program's memory is one range of addresses. Its runtime counts what of that spans in
 *          use, stacks and its own tables take, and what it keeps for later.
 * Shapes:  committed = in_use + idle + stacks + work, to the byte runtime.MemStats of the same moment:
 *          HeapInuse, HeapIdle - HeapReleased, StackInuse, and the collector's part of it. What was given
 *          back is not in it. metadata lies elsewhere: MSpanSys, MCacheSys, BuckHashSys, OtherSys
 *          and GCSys, without work.
 *          The statistics are recognized by what is true of them only: sums of pages, for each of 67
 *          classes no more frees than allocations, live objects fit into the spans, and all together are
 *          exactly as large as the range that the kernel has mapped; metadata is not more than what
 *          else is mapped without a file. Else the state says that the
 *          figures are not known.
 * Units:   bytes.
 * Errors:  HW_ENOMEM.
 * Threads: pure, but for what it reads of the process.
 * Source:  Go's runtime/mstats.go (mstats, heapStatsDelta), sizeclasses.go; tried with 1.19
 */
#ifndef HW_PROC_HEAPS_GO_HEAP_H
#define HW_PROC_HEAPS_GO_HEAP_H

#include <stdint.h>

#include "proc/smaps.h"

/* Numbers of the trace, too (MemoryAccount.go_state). */
enum hw_go_heap_state {
    HW_GO_HEAP_NONE, /* no memory where Go's heap is */
    HW_GO_HEAP_KNOWN,
    HW_GO_HEAP_UNKNOWN, /* its statistics were not found: another version, they changed meanwhile, or no
                           CPU time was left */
};

struct hw_go_heap {
    enum hw_go_heap_state state;
    uint64_t objects; /* live or not yet swept; without what threads' caches have not counted yet */
    uint64_t in_use, idle, stacks, work, committed, metadata;
};

/* s: its mappings, neither named nor summed. */
int hw_go_heap_read(const struct hw_smaps *s, int mem, int pagemap, struct hw_go_heap *out);

#endif
