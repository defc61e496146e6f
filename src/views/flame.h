/*
 * flame.h - callstacks merged into one tree of functions
 *
 * Why:     flamegraph, call tree and per-function tables all need "same path of functions, one
 * node". Shapes:  node 0 is the root (function HW_ID_NONE, depth 0). Children are linked by
 * first_child and next_sibling; a child's index is always larger than its parent's. Top-down: the
 * root's children are outermost functions, self stands at the last one. Inverted: the root's
 *          children are the functions that allocate, below them their callers; self stands at the
 *          outermost caller. Callstacks whose values are all 0 are left out.
 * Owns:    its nodes.
 * Errors:  HW_ENOMEM.
 * Cost:    top-down O(callsites on the way), inverted O(sum of depths); sort O(n log n).
 */
#ifndef HW_VIEWS_FLAME_H
#define HW_VIEWS_FLAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "views/functions.h"
#include "views/values.h"

struct hw_flame_node {
    uint32_t parent, first_child, next_sibling; /* HW_ID_NONE = none */
    uint32_t function;                          /* id in hw_functions */
    uint32_t depth;
    struct hw_value self, total;
};

struct hw_flame {
    HW_VEC(struct hw_flame_node) v;
};

enum hw_flame_flags {
    HW_FLAME_INVERTED = 1,
    HW_FLAME_SITES = 2 /* stacks end at their site: allocator and container frames are cut off */
};

int hw_flame_build(const struct hw_callsites *cs, const struct hw_functions *fns,
                   const hw_values *values, unsigned flags, struct hw_flame *out);
void hw_flame_done(struct hw_flame *f);
/* Siblings in falling order of the metric's total, then of the function's id. */
int hw_flame_sort(struct hw_flame *f, enum hw_metric by);

/* By function: self (as the site that asked when HW_FLAME_SITES was given) and total, which counts
 * a function once per stack however often it recurs. Indexed by function id; out has n_functions
 * rows. */
struct hw_function_value {
    uint32_t function;
    struct hw_value self, total;
};
typedef HW_VEC(struct hw_function_value) hw_function_values;

/* From a top-down tree. O(nodes + functions). */
int hw_flame_by_function(const struct hw_flame *f, size_t n_functions, hw_function_values *out);

#endif
