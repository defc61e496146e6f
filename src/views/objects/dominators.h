/*
 * dominators.h - which objects each object alone keeps alive
 *
 * Why:     an object's own size says little; what would be freed with it, its retained size, is the
 *          sum over the objects reachable only through it: those it dominates.
 * Shapes:  positions 0 .. n - 1 are the reachable objects; a position's dominator is a smaller
 *          position, HW_ID_NONE if only the set of all roots dominates it. Weak referents are not
 *          followed. count, size, native: of all that is dominated, including the object itself.
 * Owns:    its arrays: 32 bytes per reachable object (8 more with native sizes) and 4 per object.
 * Errors:  HW_ENOMEM.
 * Cost:    O(references × log) by Lengauer and Tarjan with path compression; no recursion. Another
 *          24 bytes per object and 4 per reference while building.
 * Threads: pure.
 * Source:  doc/design/heap-graphs.md
 */
#ifndef HW_VIEWS_OBJECTS_DOMINATORS_H
#define HW_VIEWS_OBJECTS_DOMINATORS_H

#include <stddef.h>
#include <stdint.h>

#include "model/graph/heap_graph.h"

struct hw_dominators {
    size_t n;
    uint32_t *object;   /* by position */
    uint32_t *idom;     /* by position: a position */
    uint32_t *depth;    /* by position: 1 at the top */
    uint32_t *count;    /* by position */
    int64_t *size;      /* by position */
    int64_t *native;    /* by position; NULL = no object has any */
    uint32_t *position; /* by object; HW_ID_NONE = not reachable */
};

int hw_dominators_build(const struct hw_heap_graph *g, struct hw_dominators *out);
void hw_dominators_done(struct hw_dominators *d);

/* Immediate dominators in any graph of n nodes, edges from[i] -> to[i]: idom[node] = node;
 * HW_ID_NONE for the root and for what it does not reach. */
int hw_dominators_of_edges(const uint32_t *from, const uint32_t *to, size_t n_edges, uint32_t n,
                           uint32_t root, uint32_t *idom);

#endif
