/*
 * heap_suspects.h - what in one heap graph looks like a leak
 *
 * Why:     one dump does not tell what grows, but what is out of proportion: a map that retains
 *          half of the heap is where to look first.
 * Shapes:  a suspect retains HW_SUSPECT_PERCENT of the reachable bytes or more, without what other
 *          suspects below it retain. So there are ten at most. Two kinds: an object with all
 *          that it dominates; the objects of one class name that nothing but the roots dominates,
 *          if none of them is large by itself. By descending own part, then by number.
 *          An object without bytes (V8's and Ruby's groups of roots) is none: what it dominates
 *          counts as dominated by the roots.
 *          point: where it accumulates. From the suspect's object down to the child that retains
 *          most, as long as that is HW_SUSPECT_NEARLY_ALL percent of the suspect; above a list of
 *          nodes of one class. Of a class: the last object that leads to as much of it, on shortest
 *          paths.
 *          classes: what the point dominates directly, by class name, largest first. In a list of
 *          nodes, count has all of them.
 * Units:   bytes (size and native size together), objects.
 * Owns:    its rows.
 * Errors:  HW_ENOMEM.
 * Cost:    time O(objects), memory up to 17 bytes per reachable object while it runs, and 8 for each
 *          on the longest way down; 8 more per object if all their bytes are above INT64_MAX.
 * Threads: pure.
 * Source:  doc/design/heap-graphs.md
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_SUSPECTS_H
#define HW_VIEWS_OBJECTS_HEAP_SUSPECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_paths.h"

enum { HW_SUSPECT_PERCENT = 10, HW_SUSPECT_NEARLY_ALL = 70, HW_SUSPECT_LIST = 16 };

struct hw_suspect_class {
    uint32_t class; /* the first of its name */
    int64_t count, retained;
};

struct hw_suspect {
    bool is_class;
    uint32_t object;   /* the suspect; HW_ID_NONE: a class */
    uint32_t class;    /* of the object or objects */
    int64_t count;     /* objects retained, or objects of the class */
    int64_t retained;  /* with other suspects below it */
    int64_t elsewhere; /* of this, what other suspects below retain */
    double share;      /* of what is reachable: 0..1; right where bytes saturate */
    uint32_t point;    /* object; HW_ID_NONE: no object leads to most of a class */
    int64_t point_retained;
    uint32_t nearest; /* object: whose path to a root is to be shown */
    size_t first_class, n_classes;
};

struct hw_suspects {
    HW_VEC(struct hw_suspect) v;
    HW_VEC(struct hw_suspect_class) classes;
};

int hw_heap_suspects_find(const struct hw_heap_graph *g, const struct hw_dominators *d,
                          const struct hw_heap_paths *paths, struct hw_suspects *out);
void hw_heap_suspects_done(struct hw_suspects *s);

#endif
