/*
 * heap_graph_natives.h - assigns memory outside the heap to the objects that own it
 *
 * Shapes:  Android's runtime stores a size in NativeAllocationRegistry objects; a Cleaner connects
 *          such a registry with the object it belongs to:
 *
 *              object <-referent- Cleaner -thunk-> CleanerThunk -this$0-> registry {size}
 *
 *          A Cleaner whose `next` is itself has run already. The lowest bit of a size is a mark.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/trace.md, "Heap graphs"
 */
#ifndef HW_IMPORT_PERFETTO_HEAP_GRAPH_NATIVES_H
#define HW_IMPORT_PERFETTO_HEAP_GRAPH_NATIVES_H

#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/graph/heap_graph.h"

struct hw_graph_builder;

struct hw_sized_id {
    uint64_t id; /* of a registry */
    int64_t size;
};

typedef HW_VEC(struct hw_sized_id) hw_sized_ids;

int hw_heap_graph_add_natives(const struct hw_strings *strings, const struct hw_graph_builder *b,
                              const hw_sized_ids *registries, struct hw_heap_graph *g);

/* Sorts g->native; several of one object become their sum. Marks the objects. */
void hw_heap_graph_sum_natives(struct hw_heap_graph *g);

#endif
