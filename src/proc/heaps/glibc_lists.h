/*
 * glibc_lists.h - what is free in an arena of glibc's malloc, by its own lists
 *
 * Why:     to walk an arena of gigabytes takes longer than a reading may, and its lists have the same free chunks. What
 *          threads' caches have is in no list: it counts as in use.
 * Shapes:  each chunk of a list has to lie in the arena's memory, lead back to the one before, and end where the list
 *          began; all together have no more bytes than the arena.
 * Units:   bytes.
 * Errors:  HW_EFORMAT: they changed meanwhile, or are damaged; HW_EGONE, HW_ETIMEOUT as of target_memory.h.
 * Cost:    a page a free chunk.
 * Threads: pure, but for what it reads of the process.
 * Source:  glibc's malloc.c (struct malloc_chunk, bins)
 */
#ifndef HW_PROC_HEAPS_GLIBC_LISTS_H
#define HW_PROC_HEAPS_GLIBC_LISTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "proc/heaps/target_memory.h"

#define HW_GLIBC_BINS     127u
#define HW_GLIBC_FASTBINS 10u

typedef HW_VEC(uint64_t) hw_glibc_chunks;

struct hw_glibc_lists {
    struct hw_target_memory *memory;
    bool (*is_in_heaps)(const void *heaps, uint64_t address);
    const void *heaps;    /* borrowed */
    uint64_t bins_at;     /* of the arena's record */
    const uint64_t *bins; /* two words each, as they were read there */
    const uint64_t *fast; /* likewise, one word each */
    uint64_t most;
};

/* out: of the chunks in fastbins, by address; the caller's. Their links are protected (2.32 and later). */
int hw_glibc_lists_fast(const struct hw_glibc_lists *l, hw_glibc_chunks *out, uint64_t *sum);
int hw_glibc_lists_sum(const struct hw_glibc_lists *l, uint64_t *is_free, uint64_t *returnable);
/* Whole pages in memory of a free chunk, as malloc_trim would return them. */
uint64_t hw_glibc_top_returnable(struct hw_target_memory *m, uint64_t top, uint64_t bytes);
uint64_t hw_glibc_returnable(struct hw_target_memory *m, uint64_t chunk, uint64_t bytes);

#endif
