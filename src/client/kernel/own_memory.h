/*
 * own_memory.h - where the client's own memory lies among the program's
 *
 * Why:     mappings without a name could be anybody's. The account of a process's memory names ours
 *          by their addresses, which the ring's page has (wire/ring.h), so the recorder needs no
 *          reading of the program's memory to find them.
 * Shapes:  one list a process; a session's ring gets a copy when it opens, and another one with the
 *          next record after a change. What finds no place in it counts as the program's, and how
 *          much that is stands beside the list.
 * Threads: any, also in signal handlers; no lock, no call.
 */
#ifndef HW_CLIENT_KERNEL_OWN_MEMORY_H
#define HW_CLIENT_KERNEL_OWN_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* After it was mapped. */
void hw_own_memory_add(const void *at, size_t n_bytes);
/* The same for memory that is never unmapped: neighbours share one entry. */
void hw_own_memory_add_for_good(const void *at, size_t n_bytes);
/* Before it is unmapped, by the same bounds. */
void hw_own_memory_remove(const void *at, size_t n_bytes);

extern __attribute__((visibility("hidden"))) _Atomic uint32_t hw_own_memory_changes;

/* Where the client's library lies: its file's name could be anybody's. */
void hw_own_memory_add_image(void);

struct hw_ring_shm;
/* Copies the list into a ring's page; shown: of which changes it has. */
void hw_own_memory_show(struct hw_ring_shm *shm, _Atomic uint32_t *shown);

static inline bool hw_own_memory_is_shown(const _Atomic uint32_t *shown)
{
    return atomic_load_explicit(shown, memory_order_relaxed) ==
           atomic_load_explicit(&hw_own_memory_changes, memory_order_relaxed);
}

#endif
