/*
 * malloc_arena.h - an arena of glibc's malloc, at a reading of a process's memory
 *
 * Shapes:  system = in use + free + top + cached + fast. What is not known is -1, and state says why.
 * Units:   bytes.
 */
#ifndef HW_MODEL_MEMORY_MALLOC_ARENA_H
#define HW_MODEL_MEMORY_MALLOC_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

/* id, number in the trace, why its figures are not known */
#define HW_ARENA_STATES(X)                                                                         \
    X(KNOWN, 0, "")                                                                                \
    X(CHANGED, 1, "it changed while it was read")                                                  \
    X(LIMIT, 2, "too large to be read in a tenth of a second")                                     \
    X(SWAPPED, 3, "a part of it is swapped out, or watched by a handler of faults")                \
    X(SCATTERED, 4, "it lies in several places, which only the program knows")

enum hw_arena_state {
#define X(ID, number, why) HW_ARENA_##ID = (number),
    HW_ARENA_STATES(X)
#undef X
};

struct hw_malloc_arena {
    hw_upid upid;
    int64_t ts_ns;
    uint32_t number; /* within the reading */
    uint32_t state;  /* as the trace has it: any number */
    bool is_main;
    int64_t threads, system_bytes;
    int64_t in_use_bytes; /* headers, and what the arena needs for itself, included */
    int64_t free_bytes;   /* in its lists */
    int64_t top_bytes;
    int64_t cached_bytes;     /* in threads' caches */
    int64_t fast_bytes;       /* in fastbins */
    int64_t returnable_bytes; /* what malloc_trim(0) would give back */
    int64_t resident_bytes;
};

#endif
