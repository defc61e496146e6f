/*
 * heap_objects.h - objects of a heap graph, selected and sorted
 *
 * Why:     a table shows a screenful of ten million objects, which need not all be sorted.
 * Shapes:  rows [offset, offset + limit) of those that pass, in the requested order; equal ones by
 *          number. retained: what the object dominates, including itself; 0 if it is not reachable.
 * Units:   bytes, objects.
 * Owns:    its rows.
 * Errors:  HW_ENOMEM.
 * Cost:    O(objects × log(offset + limit)); O(objects below) with `below`.
 * Threads: pure.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_OBJECTS_H
#define HW_VIEWS_OBJECTS_HEAP_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_links.h"

enum hw_object_order {
    HW_OBJECTS_BY_NUMBER,
    HW_OBJECTS_BY_CLASS,
    HW_OBJECTS_BY_SIZE,
    HW_OBJECTS_BY_NATIVE,
    HW_OBJECTS_BY_RETAINED,
    HW_OBJECTS_BY_RETAINED_NATIVE,
    HW_OBJECTS_BY_RETAINED_COUNT,
    HW_OBJECTS_BY_REACHABLE,
    HW_OBJECTS_BY_HEAP,
    HW_OBJECTS_BY_ROOT,
    HW_OBJECTS_ORDER_COUNT
};

struct hw_objects_query {
    const struct hw_heap_graph *g;
    const struct hw_dominators *dominators;
    const uint32_t *class_rank; /* by class, for BY_CLASS; NULL = by number */
    /* NULL: all. Otherwise only positions of the dominators listed under key `below`. */
    const struct hw_heap_links *dominated;
    size_t below;
    bool (*keep)(void *ctx, uint32_t object); /* NULL: all */
    void *ctx;
    enum hw_object_order by;
    bool down;
    size_t offset, limit;
};

struct hw_objects {
    HW_VEC(uint32_t) v;
    size_t n_all;           /* objects that pass */
    struct hw_heap_sum sum; /* of all of them, own sizes */
};

/* What an object keeps alive. */
struct hw_heap_sum hw_object_retained(const struct hw_dominators *d, uint32_t object);

int hw_objects_find(const struct hw_objects_query *q, struct hw_objects *out);
void hw_objects_done(struct hw_objects *o);

#endif
