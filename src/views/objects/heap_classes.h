/*
 * heap_classes.h - a heap graph summed up by class
 *
 * Shapes:  one row for each class of the graph, with or without objects. dominated: what the
 *          objects of a class keep alive together; an object below another one of its class is not
 *          counted again.
 * Owns:    its rows.
 * Errors:  HW_ENOMEM.
 * Cost:    O(objects).
 * Threads: pure.
 * Source:  doc/design/sql.md
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_CLASSES_H
#define HW_VIEWS_OBJECTS_HEAP_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#include "model/graph/heap_graph.h"

struct hw_dominators;

struct hw_heap_sum {
    int64_t count, size, native;
};

struct hw_class_sum {
    struct hw_heap_sum all, reachable, dominated;
};

/* by_class: room for n_classes rows. d may be NULL: then dominated is 0. */
int hw_heap_class_sums(const struct hw_heap_graph *g, const struct hw_dominators *d,
                       struct hw_class_sum *by_class);

/* The whole graph. */
struct hw_class_sum hw_heap_graph_sum(const struct hw_heap_graph *g);
/* Whether it is a class of the runtime's libraries, or an array of numbers, which hide what a
 * search for leaks is about. */
bool hw_class_is_libcore_or_array(struct hw_bytes name);

#endif
