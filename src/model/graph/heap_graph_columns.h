/*
 * heap_graph_columns.h - the state of a graph while its objects and references are numbered
 *
 * Why:     heap_graph_numbers.c resolves references and numbers objects; heap_graph_columns.c
 *          permutes the input's arrays into the order of these numbers.
 */
#ifndef HW_MODEL_GRAPH_HEAP_GRAPH_COLUMNS_H
#define HW_MODEL_GRAPH_HEAP_GRAPH_COLUMNS_H

#include "model/graph/heap_graph_builder.h"

/* All loops access memory in an unpredictable order, so they prefetch some steps ahead: with 16 they
 * took a tenth more of the CPU than with 64, with 128 as much as with 64. */
enum { HW_GRAPH_AHEAD = 64 };

/* The fields of a class, for references without a field of their own. */
struct hw_graph_field_list {
    size_t first;      /* of field_lists: those that the class declares */
    uint32_t n;        /* declared there */
    uint32_t n_listed; /* including superclasses; 0 = none */
    uint32_t start;    /* class: itself or the next superclass that declares fields */
    uint32_t above;    /* the same, beginning at its superclass; HW_ID_NONE */
    int64_t object_size;
    bool is_weak; /* its objects may have weak references */
};

struct hw_graph_columns {
    struct hw_graph_builder *b;
    struct hw_heap_graph *g;
    struct hw_graph_field_list *lists; /* owned, by class */
    uint32_t *to;      /* by reference in input order: rows, later numbers; in b's targets */
    size_t n_rows;     /* described objects */
    bool out_of_order; /* some number differs from its row */
    bool by_lists;     /* no reference has a field of its own */
};

static inline uint32_t hw_graph_class_of_row(const struct hw_graph_builder *b, size_t row)
{
    return b->rows.types[row] & ((1u << HW_GRAPH_HEAP_SHIFT) - 1);
}

/* The number of references [from, to) without a field of their own. */
static inline size_t hw_graph_count_listed(const struct hw_graph_builder *b, size_t from, size_t to)
{
    size_t n = 0;
    if (!b->ref_field.n)
        return to - from;
    for (size_t r = from; r < to; r++)
        n += b->ref_field.v[r] == HW_FIELD_OF_LIST;
    return n;
}

/* Makes the columns of objects and references, without the fields that hw_graph_name_others() sets.
 * Classes must be linked and objects indexed. */
int hw_graph_make_columns(struct hw_graph_columns *m, struct hw_graph_faults *faults);
/* Sets fields of references of objects without weak references, which hw_ref_is_strong() does not
 * need. */
void hw_graph_name_others(struct hw_graph_columns *m);
int hw_graph_find_owners(struct hw_heap_graph *g);
void hw_graph_columns_done(struct hw_graph_columns *m);

/* Resolves all references. Objects with a wrong number of references lose them. */
int hw_graph_resolve(struct hw_graph_columns *m, struct hw_graph_faults *faults);

#endif
