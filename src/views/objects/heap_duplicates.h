/*
 * heap_duplicates.h - arrays of a heap graph with equal contents
 *
 * Why:     a heap with ten thousand copies of a text needs only one.
 * Shapes:  a row for each content of two or more reachable arrays, by descending spare bytes. Equal
 *          means the same class, length and 64-bit hash of the contents, so only dumps with
 *          contents (.hprof of a JVM) have any; arrays without elements are all equal.
 * Units:   bytes.
 * Owns:    the rows.
 * Errors:  HW_ENOMEM.
 * Cost:    O(objects), and sorting.
 * Threads: pure.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_DUPLICATES_H
#define HW_VIEWS_OBJECTS_HEAP_DUPLICATES_H

#include <stdbool.h>

#include "base/memory/vec.h"
#include "model/graph/heap_graph.h"

struct hw_duplicate {
    uint32_t class, object; /* the one with the lowest number */
    uint32_t n_copies;      /* at least two */
    int64_t length;         /* elements of each */
    int64_t bytes;          /* of all */
    int64_t spare;          /* of all but one */
    bool has_text;          /* a string whose characters these are */
    hw_str_id text;
};

typedef HW_VEC(struct hw_duplicate) hw_duplicates;

int hw_heap_duplicates(const struct hw_heap_graph *g, hw_duplicates *out);
bool hw_heap_has_contents(const struct hw_heap_graph *g);

#endif
