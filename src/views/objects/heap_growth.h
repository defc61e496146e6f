/*
 * heap_growth.h - heap graphs compared, class by class
 *
 * Why:     one dump shows what is there, two what was added, several what keeps growing.
 * Shapes:  classes are matched by their shown names, so graphs of different traces compare; only
 *          reachable objects count. Rows are sorted by the change of bytes, largest first.
 * Owns:    its rows; names are those of the profiles.
 * Errors:  HW_ENOMEM.
 * Cost:    O(objects + classes × log) per graph.
 * Threads: pure.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_GROWTH_H
#define HW_VIEWS_OBJECTS_HEAP_GROWTH_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "model/profile.h"
#include "views/findings/slope.h"
#include "views/objects/heap_classes.h"

struct hw_class_change {
    struct hw_bytes name;
    struct hw_heap_sum before, after; /* of the first and the last graph; native is part of size */
    uint32_t n_rises;                 /* steps from graph to graph at which its bytes grew */
    struct hw_slope slope;            /* bytes per second; all 0 with fewer than three graphs */
};

typedef HW_VEC(struct hw_class_change) hw_class_changes;

/* Classes that differ between two graphs, of one profile or two. */
int hw_heap_diff(const struct hw_profile *pa, const struct hw_heap_graph *a,
                 const struct hw_profile *pb, const struct hw_heap_graph *b, hw_class_changes *out);
/* Every class over all *n_graphs graphs of a process. */
int hw_heap_growth(const struct hw_profile *p, hw_upid upid, hw_class_changes *out,
                   size_t *n_graphs);

#endif
