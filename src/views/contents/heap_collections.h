/*
 * heap_collections.h - how full collections are
 *
 * Why:     maps of one entry and lists that nobody filled may be much of a Java heap, which sizes of
 *          classes do not show.
 * Shapes:  rows by class, and by holder: the field that refers to the collection. One that
 *          several refer to counts for the reference with the lowest number; what is inside of a
 *          HashSet counts for who refers to the set. Only reachable objects; a row by holder has
 *          one class. Largest bytes first.
 * Units:   bytes. An element of an identity map takes two slots, which count as one.
 * Owns:    the rows.
 * Errors:  HW_ENOMEM, HW_ENOTFOUND: the dump has no contents (hw_heap_data).
 * Cost:    O(objects + references), 4 bytes an object.
 * Threads: pure.
 * Source:  doc/design/heap-graphs.md, "Collections and boxes"
 */
#ifndef HW_VIEWS_CONTENTS_HEAP_COLLECTIONS_H
#define HW_VIEWS_CONTENTS_HEAP_COLLECTIONS_H

#include "base/memory/vec.h"
#include "model/graph/heap_graph.h"
#include "model/profile.h"

struct hw_collection_row {
    uint32_t class;             /* the first of its name */
    uint32_t field, owner;      /* by holder: field, and class of who refers; HW_ID_NONE = a root */
    int64_t n, n_empty, n_ones; /* collections; without elements, with one */
    int64_t elements, slots;    /* slots: of those that have an array */
    int64_t bytes;              /* of the objects and their arrays, without their entries */
    int64_t unused;             /* of it in slots that refer to nothing */
};

typedef HW_VEC(struct hw_collection_row) hw_collection_rows;

struct hw_heap_collections {
    hw_collection_rows by_class, by_holder;
    int64_t n_unknown; /* collections whose size the dump does not tell */
};

int hw_heap_collections_find(const struct hw_profile *p, const struct hw_heap_graph *g,
                             struct hw_heap_collections *out);
void hw_heap_collections_done(struct hw_heap_collections *c);

#endif
