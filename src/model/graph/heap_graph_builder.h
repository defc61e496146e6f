/*
 * heap_graph_builder.h - what the files that build a heap graph share
 *
 * Why:     heap_graph_build.c collects objects; numbering, columns, roots, reachability and
 *          superclasses have files of their own.
 */
#ifndef HW_MODEL_GRAPH_HEAP_GRAPH_BUILDER_H
#define HW_MODEL_GRAPH_HEAP_GRAPH_BUILDER_H

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "model/graph/heap_graph_build.h"
#include "model/id_index.h"

struct hw_graph_class_row {
    struct hw_heap_class row;
    uint64_t object_size, superclass_id, classloader_id, held_id;
    size_t first_field; /* of field_lists: those it declares */
    uint32_t n_fields;
    uint32_t n_listed; /* including superclasses; set by link_classes */
    uint32_t declares; /* itself or the next superclass that declares fields; HW_ID_NONE */
    bool described, has_superclass, linked;
};

typedef HW_VEC(uint32_t) hw_graph_numbers;

struct hw_graph_root {
    uint64_t object;
    enum hw_root_type type;
};

/* Objects in input order: arrays of one capacity, so that each can be freed when it is no longer
 * needed, or become a column of the graph. */
struct hw_graph_rows {
    uint64_t *ids;   /* until they are indexed */
    uint32_t *types; /* class | heap type << HW_GRAPH_HEAP_SHIFT */
    uint32_t *sizes; /* as in struct hw_heap_graph; 0 = the class's */
    uint32_t *first; /* first reference; they end where those of the next row begin */
    size_t n, cap;
};

enum { HW_GRAPH_HEAP_SHIFT = 30 }; /* limits the number of classes */
_Static_assert(HW_HEAP_TYPE_COUNT <= 1 << (32 - HW_GRAPH_HEAP_SHIFT), "heap types beside a class");

enum { HW_GRAPH_KNOWN_CLASSES = 4096 };

struct hw_graph_known_class {
    uint64_t id;
    uint32_t row, is_known;
};

struct hw_graph_builder {
    struct hw_strings *strings; /* borrowed */
    HW_VEC(struct hw_heap_field) fields;
    HW_VEC(struct hw_graph_class_row) classes;
    struct hw_map64 class_by_id;
    HW_VEC(uint32_t) field_lists;
    HW_VEC(struct hw_graph_root) roots;
    struct hw_graph_rows rows;
    hw_heap_larges large;       /* by row */
    HW_VEC(uint64_t) targets;   /* by reference */
    HW_VEC(uint32_t) ref_field; /* by reference; empty: all are HW_FIELD_OF_LIST */
    struct hw_graph_known_class known[HW_GRAPH_KNOWN_CLASSES]; /* cache */
    struct hw_id_index index;
    struct hw_map64 missing; /* id -> object: referred to, never described */
    bool by_mention;
    hw_graph_numbers number; /* in the graph, by row, then by `missing`; empty = equal to the
                              * row */
};

static inline bool hw_graph_kind_is_weak(uint8_t kind)
{
    return kind == HW_KIND_WEAK_REFERENCE || kind == HW_KIND_FINALIZER_REFERENCE ||
           kind == HW_KIND_PHANTOM_REFERENCE;
}

static inline size_t hw_graph_refs_end(const struct hw_graph_builder *b, size_t row)
{
    return row + 1 < b->rows.n ? b->rows.first[row + 1] : b->targets.n;
}

/* Makes roots of those of the input and of objects of the zygote and the boot image. */
void hw_graph_make_roots(const struct hw_graph_builder *b, struct hw_heap_graph *g);
int hw_graph_mark_reachable(struct hw_heap_graph *g);
/* Afterwards: makes roots of what only compiled code refers to. */
int hw_graph_mark_named_by_code(const struct hw_graph_builder *b, struct hw_heap_graph *g);

/* Sets missing superclasses by the heap's class objects. */
int hw_graph_imply_superclasses(struct hw_graph_builder *b, struct hw_heap_graph *g);

#endif
