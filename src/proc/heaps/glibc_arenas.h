/*
 * glibc_arenas.h - what each arena of glibc's malloc has in use, free and cached, read from outside
 *
 * Why:     "free inside the allocator" is one sum. Which arena keeps it, and whether it lies in free
 *          lists, at the top or in threads' caches, decides what would give it back.
 * Shapes:  an arena's heaps are walked chunk by chunk, from the first to the top. A walk counts only
 *          if it arrives at the top exactly and its heaps are together as large as the arena says,
 *          before and behind it: else the arena has a state that says why not, and only what its
 *          own record has (system, threads). All arenas together have no more than what is mapped
 *          where arenas can be, and no memory is of two: a record that says more has system 0. system = in_use + is_free + top + cached + fast;
 *          in_use includes headers and what the arena needs for itself, as malloc_info() has it.
 *          Blocks with mappings of their own belong to no arena. One of more than 192 MiB is not walked but summed
 *          by its free lists (glibc_lists.h), which do not tell what is cached.
 *          cached is told by the number that glibc writes into each cached block (2.34 and later:
 *          one for all; 2.32, 2.33: its cache's address). Older glibc's count as in use.
 * Units:   bytes. returnable: what malloc_trim(0) would give back: free whole pages in memory.
 * Owns:    its list.
 * Errors:  HW_ENOMEM. What cannot be read is a state, no error.
 * Cost:    only pages in memory are read, until 100 ms of CPU time are used: small arenas first. All
 *          that is read are the target's words: no walk leaves the arena or goes back.
 * Threads: pure, but for what it reads of the process.
 * Source:  glibc's malloc.c and arena.c (struct malloc_state, heap_info, tcache_entry, mtrim)
 */
#ifndef HW_PROC_HEAPS_GLIBC_ARENAS_H
#define HW_PROC_HEAPS_GLIBC_ARENAS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "proc/smaps.h"

#define HW_GLIBC_ARENAS_MAX 1024u

enum hw_glibc_arena_state {
    HW_GLIBC_ARENA_KNOWN,
    HW_GLIBC_ARENA_CHANGED, /* while it was read, or since the mappings were; or it is damaged */
    HW_GLIBC_ARENA_LIMIT,   /* no CPU time was left */
    HW_GLIBC_ARENA_SWAPPED, /* a part of it is not in memory, or not to be read (target_memory.h) */
    HW_GLIBC_ARENA_SCATTERED /* its break was moved by others, or it has none */
};

struct hw_glibc_arena {
    enum hw_glibc_arena_state state;
    bool is_main;
    bool has_cached;  /* else what is cached counts as in use */
    uint64_t at;      /* its record's address */
    uint64_t threads; /* that use it */
    uint64_t system;  /* 0: not known */
    uint64_t in_use, is_free, top, cached, fast, returnable, resident; /* if its state is KNOWN */
};

struct hw_glibc_arenas {
    HW_VEC(struct hw_glibc_arena) v; /* the main one first; empty: none was found */
};

/* s: its mappings, neither named nor summed. heap_start: where the program's break began; 0 = not known. */
int hw_glibc_arenas_read(const struct hw_smaps *s, int mem, int pagemap, uint64_t heap_start,
                         struct hw_glibc_arenas *out);
void hw_glibc_arenas_done(struct hw_glibc_arenas *a);

#endif
