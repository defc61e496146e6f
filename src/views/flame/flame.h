/*
 * flame.h - callstacks merged into one tree of functions
 *
 * Why:     flamegraph, call tree and per-function tables all need "same path of functions, one
 *          node".
 * Shapes:  node 0 is the root (function HW_ID_NONE, depth 0). Children are linked by first_child
 *          and next_sibling; a child's index is always larger than its parent's. Top-down: the
 *          root's children are outermost functions, self is at the last one. Inverted: the
 *          root's children are the functions that allocate, below them their callers; self is
 *          at the outermost caller. Callstacks whose values are all 0 are left out. A stack
 *          without frames after filters counts at the root.
 * Owns:    its nodes.
 * Errors:  HW_ENOMEM, HW_ELIMIT (2^32 - 1 nodes).
 * Cost:    top-down without filters one pass over the callsites in order of id, 30 to 100 ns a node
 *          (bench/views); with filters, inverted, pivot O(sum of depths); hw_flame_invert O(stacks
 *          × depth of the nodes kept). Sort O(n log n) at worst. Memory: 88 bytes a node, 64 more
 *          where a stack ends.
 * Threads: pure.
 */
#ifndef HW_VIEWS_FLAME_FLAME_H
#define HW_VIEWS_FLAME_FLAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "views/filter.h"
#include "views/flame/functions.h"
#include "views/time/values.h"

struct hw_flame_node {
    uint32_t parent, first_child, next_sibling; /* HW_ID_NONE = none */
    uint32_t function;                          /* id in hw_functions */
    uint32_t depth;
    uint32_t self; /* index into selfs; HW_ID_NONE = 0 in every metric */
};

/* A node that replaces n small siblings (hw_flame_invert); its function is HW_FLAME_MERGED. */
struct hw_flame_merged {
    uint32_t node, n;
};
#define HW_FLAME_MERGED (HW_ID_NONE - 1)

struct hw_flame {
    HW_VEC(struct hw_flame_node) v;
    HW_VEC(struct hw_value) totals; /* by node: it and all below it */
    HW_VEC(struct hw_value) selfs;
    HW_VEC(struct hw_flame_merged) merged; /* in order of node */
};

static inline const struct hw_value *hw_flame_total(const struct hw_flame *f, uint32_t node)
{
    return &f->totals.v[node];
}

static inline const struct hw_value *hw_flame_self(const struct hw_flame *f, uint32_t node)
{
    static const struct hw_value nothing;
    uint32_t self = f->v.v[node].self;
    return self == HW_ID_NONE ? &nothing : &f->selfs.v[self];
}

enum hw_flame_flags {
    HW_FLAME_INVERTED = 1,
    HW_FLAME_SITES = 2,   /* stacks end at their site: allocator and container frames are cut off */
    HW_FLAME_COLLAPSE = 4 /* a function that calls itself directly is one node */
};

int hw_flame_build(const struct hw_callsites *cs, const struct hw_functions *fns,
                   const hw_values *values, unsigned flags, struct hw_flame *out);

struct hw_flame_input {
    const struct hw_callsites *cs;
    const struct hw_functions *fns;
    const hw_values *values;
    unsigned flags;                          /* enum hw_flame_flags */
    const struct hw_filter_matches *filters; /* NULL = none; without a pivot */
    uint32_t *node_of_value; /* caller's array of values->n, or NULL: the node of each value's self;
                                HW_ID_NONE = left out */
};
int hw_flame_build_with(const struct hw_flame_input *q, struct hw_flame *out);

/* Around the function nearest the root that q->filters's pivot matches: what it calls (top-down
 * from it) and who calls it (from it outwards). Stacks without it are left out of both. The flags
 * may be HW_FLAME_SITES or 0. */
int hw_flame_pivot(const struct hw_flame_input *q, struct hw_flame *callees,
                   struct hw_flame *callers);

/* The inverted tree in which siblings below min_share of the whole, in the metric, are merged into
 * one node, without ever being built. The other metrics are exact, too. node_of_value is not
 * filled; q->filters has no pivot. */
int hw_flame_invert(const struct hw_flame_input *q, double min_share, enum hw_metric by,
                    struct hw_flame *out);
/* How many siblings were merged into a node; 0 = it is an ordinary node. */
uint32_t hw_flame_merged_count(const struct hw_flame *f, uint32_t node);

void hw_flame_done(struct hw_flame *f);

/* By node, malloc'ed: 1 = it or a caller of it is a managed function. There, what the runtime does
 * between two of them is nobody's caller. NULL = no memory. */
uint8_t *hw_flame_managed_nodes(const struct hw_flame *f, const struct hw_functions *fns);
/* Sorts siblings by descending total of the metric, then by function id. */
int hw_flame_sort(struct hw_flame *f, enum hw_metric by);
/* Sorts siblings by function id: the same order in every selection of a trace. */
int hw_flame_sort_stable(struct hw_flame *f);

/* By function: self (as the site with HW_FLAME_SITES) and total, which counts a function once per
 * stack, even if it recurs. Indexed by function id; out has n_functions rows. */
struct hw_function_value {
    uint32_t function;
    struct hw_value self, total;
};
typedef HW_VEC(struct hw_function_value) hw_function_values;

/* From a top-down tree. O(nodes + functions). */
int hw_flame_by_function(const struct hw_flame *f, size_t n_functions, hw_function_values *out);

/* ---- for merging other paths (diff.c) ---- */

struct hw_flame_index {
    struct hw_map64 wide;       /* children of nodes with many: parent << 32 | function → node */
    HW_VEC(uint8_t) n_children; /* by node; not counted any further once in wide */
};
int hw_flame_begin(struct hw_flame *f); /* adds the root */
/* Finds or adds a child. */
int hw_flame_child(struct hw_flame *f, struct hw_flame_index *ix, uint32_t parent,
                   uint32_t function, uint32_t *out);
int hw_flame_add_self(struct hw_flame *f, uint32_t node, const struct hw_value *v);
int hw_flame_sum_up(struct hw_flame *f); /* computes the totals */
void hw_flame_index_done(struct hw_flame_index *ix);

#endif
