/*
 * inherited.h - what a process had mapped when it forked, for the child's books
 *
 * Why:     a recorded child has its parent's mappings from the beginning. Without them its memory
 *          would be nobody's, and what it unmaps of them unknown.
 * Shapes:  ranges by call, each with the parent's stack; calls are numbered densely from 0. Whole:
 *          it refers to nothing of the parent's, which may be gone when the child says hello.
 * Owns:    its stacks and ranges.
 * Errors:  HW_ENOMEM. Of more than HW_INHERITED_MAX ranges, or stacks of more than HW_INHERITED_STACKS, the rest is
 *          left out and counted: a target can write as many records of forks as it likes.
 * Threads: made by the parent's drain thread, then one owner at a time.
 * Source:  doc/design/mappings.md
 */
#ifndef HW_DAEMON_BOOKS_INHERITED_H
#define HW_DAEMON_BOOKS_INHERITED_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/arena.h"
#include "base/memory/vec.h"

#define HW_INHERITED_MAX    16384u
#define HW_INHERITED_STACKS (1u << 20) /* bytes */

struct hw_maps;
struct hw_ring_consumer;
struct hw_stack;

struct hw_inherited_range {
    uint64_t lo, hi, call_hi; /* call_hi: of the whole, as it was made */
    uint32_t call, heap_id, stack;
};

struct hw_inherited {
    uint64_t token;
    struct hw_arena arena;
    HW_VEC(const struct hw_stack *) stacks;
    HW_VEC(struct hw_inherited_range) ranges;
    uint32_t n_calls;
    uint64_t left_bytes;
};

int hw_inherited_of(const struct hw_ring_consumer *parent, uint64_t token,
                    struct hw_inherited **out);
void hw_inherited_free(struct hw_inherited *i);
/* Into the books of a child that have nothing yet, as far as it still has them: maps is what it has
 * mapped at its hello. */
int hw_inherited_book(const struct hw_inherited *i, const struct hw_maps *maps, uint64_t time_ns,
                      struct hw_ring_consumer *child);

#endif
