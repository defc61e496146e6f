/*
 * ranges.h - the owners of addresses: disjoint ranges in order of address
 *
 * Why:     a mapping is not freed as it was made: a program unmaps a part, maps over another, moves
 *          a third. So its bytes are looked up by address.
 * Shapes:  a treap: priorities are random, so the depth is that of a random tree, whatever
 *          addresses a target chooses.
 * Owns:    its nodes. Zero-initialised is empty.
 * Errors:  HW_ENOMEM; nothing was changed.
 * Cost:    O(log ranges), plus what is removed, which is limited.
 * Threads: one owner at a time.
 */
#ifndef HW_DAEMON_BOOKS_RANGES_H
#define HW_DAEMON_BOOKS_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_range {
    uint64_t lo, hi; /* [lo, hi) */
    uint32_t owner;
};

struct hw_range_node {
    struct hw_range r;
    uint32_t priority;
    uint32_t left, right; /* 0 = none; a free node's left is the next free one */
};

struct hw_ranges {
    HW_VEC(struct hw_range_node) nodes; /* 0 is nobody; a free one has no owner */
    uint32_t root, free;
    size_t n; /* ranges */
    uint64_t rng;
};

void hw_ranges_done(struct hw_ranges *t);
size_t hw_ranges_bytes(const struct hw_ranges *t); /* of memory */

/* Removes what lies in [lo, hi), and reports it in order; ranges that extend into it are split
 * there. 1: it removed the first max of them, and more are left. */
typedef void hw_ranges_taken(void *arg, const struct hw_range *r);
int hw_ranges_cut(struct hw_ranges *t, uint64_t lo, uint64_t hi, size_t max, hw_ranges_taken *fn,
                  void *arg);
/* Nobody owns any of it: cut it first. */
int hw_ranges_put(struct hw_ranges *t, uint64_t lo, uint64_t hi, uint32_t owner);
/* The first range that ends above `at`. */
bool hw_ranges_next(const struct hw_ranges *t, uint64_t at, struct hw_range *out);

#endif
