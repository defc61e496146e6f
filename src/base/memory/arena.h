/*
 * arena.h - many small allocations that end together
 *
 * Owns:    all memory handed out; hw_arena_done frees it at once. Zero-initialised is empty.
 * Errors:  NULL when out of memory.
 */
#ifndef HW_BASE_MEMORY_ARENA_H
#define HW_BASE_MEMORY_ARENA_H

#include <stddef.h>

struct hw_arena_block;

struct hw_arena {
    struct hw_arena_block *blocks;
    char *next, *end;
    size_t total; /* bytes obtained from malloc */
};

void hw_arena_done(struct hw_arena *a);
void *hw_arena_alloc(struct hw_arena *a, size_t n);               /* 8-byte aligned, not cleared */
char *hw_arena_copy(struct hw_arena *a, const void *p, size_t n); /* adds a NUL behind */

#endif
