/*
 * heap_graph_values.h - the few fields of objects whose values are in heap graph packets
 *
 * Shapes:  width, height and two ids of bitmaps and the version of applications become rows of the
 *          graph's primitives, which a dump with contents has for every field.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/trace.md, "Heap graphs"
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPH_VALUES_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPH_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "model/profile.h"

struct hw_graph_builder;

struct hw_field_value {
    uint64_t object; /* id */
    uint32_t field;  /* number in HeapGraphObject */
    int64_t value;
};

typedef HW_VEC(struct hw_field_value) hw_field_values;

bool hw_heap_graph_is_value(uint32_t field);
/* The values of an object must be consecutive. */
int hw_heap_graph_add_values(struct hw_profile *p, const struct hw_graph_builder *b,
                             const hw_field_values *values, struct hw_heap_graph *g);

#endif
