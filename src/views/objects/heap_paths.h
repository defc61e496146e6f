/*
 * heap_paths.h - the shortest path from a root to each reachable object
 *
 * Why:     "why is it there" is answered by a path; a tree of paths has each object once, so its
 *          sizes can be added up.
 * Shapes:  objects in the order of a breadth-first search: roots first, by class name and number,
 *          then what they refer to, by number. A position's parent is a smaller position;
 *          HW_ID_NONE at roots. Children of one parent are adjacent. Weak referents are not
 *          followed.
 * Owns:    its two arrays, 8 bytes per reachable object.
 * Errors:  HW_ENOMEM.
 * Cost:    O(objects + references).
 * Threads: pure.
 * Source:  doc/design/heap-graphs.md
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_PATHS_H
#define HW_VIEWS_OBJECTS_HEAP_PATHS_H

#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"

struct hw_heap_paths {
    uint32_t *object; /* by position */
    uint32_t *parent; /* by position: a position */
    size_t n;
};

int hw_heap_paths_build(const struct hw_profile *p, const struct hw_heap_graph *g,
                        struct hw_heap_paths *out);
void hw_heap_paths_done(struct hw_heap_paths *t);

#endif
