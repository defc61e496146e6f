/*
 * v8_heap.h - V8's heap by space, read from outside
 *
 * Why:     the memory of a Node.js program is mostly V8's. Which space holds it says whether young objects, old ones, code or single large
 *          objects do, and how much the collector keeps free.
 * Shapes:  sums over all isolates (the main thread's and workers'), as v8.getHeapSpaceStatistics() of each has them:
 *          committed is space_size, used space_used_size: live objects, and dead ones that were not swept yet. Of spaces of
 *          old objects and code used has in it what is left of the block that the next objects go to, up to a chunk. Of the young
 *          space, used is known only where the place of its next object was found. What is outside of the heap (array
 *          buffers) is malloc's, and in no space.
 *          Chunks begin at multiples of 256 KiB with a header that has their own address. Each has to lie in
 *          private memory that the kernel has mapped without a file, and together those of a space have to be as
 *          large as the space's own record says. So all spaces together never have more than is mapped.
 *          Which number is which space, a version decides: others than those below have a state only.
 * Units:   bytes.
 * Errors:  HW_ENOMEM. What cannot be read is a state.
 * Cost:    a header a chunk and its part of the page map, until 100 ms of CPU time are used (660 MB took 22 to 32 ms).
 * Threads: pure, but for what it reads of the process.
 * Source:  V8's heap/basic-memory-chunk.h, memory-chunk-metadata.h, base-space.h, linear-allocation-area.h, and
 *          AllocationSpace in common/globals.h; tried with 10.2 (Node.js 18), 11.3 (20) and 12.4 (22), x86-64
 */
#ifndef HW_PROC_HEAPS_V8_HEAP_H
#define HW_PROC_HEAPS_V8_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "proc/smaps.h"

/* Numbers of the trace, too (MemoryAccount.v8_state, V8Space.space). */
enum hw_v8_heap_state {
    HW_V8_HEAP_NONE,
    HW_V8_HEAP_KNOWN,
    HW_V8_HEAP_VERSION, /* an unknown one */
    HW_V8_HEAP_CHANGED, /* meanwhile; or there are no such chunks */
    HW_V8_HEAP_LATE     /* too large */
};

enum hw_v8_space_name {
    HW_V8_READ_ONLY,
    HW_V8_NEW,
    HW_V8_OLD,
    HW_V8_CODE,
    HW_V8_MAP,
    HW_V8_SHARED,
    HW_V8_TRUSTED,
    HW_V8_NEW_LARGE,
    HW_V8_LARGE,
    HW_V8_CODE_LARGE,
    HW_V8_SHARED_LARGE,
    HW_V8_TRUSTED_LARGE,
    HW_V8_SPACES
};

struct hw_v8_space {
    bool has_used;
    uint64_t committed, used, resident; /* committed 0: it has none */
};

struct hw_v8_heap {
    enum hw_v8_heap_state state;
    struct hw_v8_space spaces[HW_V8_SPACES];
};

/* s: its mappings, neither named nor summed. major, minor: of V8. */
int hw_v8_heap_read(const struct hw_smaps *s, int mem, int pagemap, uint32_t major, uint32_t minor,
                    struct hw_v8_heap *out);

#endif
