/*
 * heap_graph_columns.h - what is known of a graph while its objects and references are put in order
 *
 * Why:     heap_graph_numbers.c finds which objects the references mean and gives them numbers;
 *          heap_graph_columns.c brings what was taken in to the order of the numbers.
 */
#ifndef HW_MODEL_GRAPH_HEAP_GRAPH_COLUMNS_H
#define HW_MODEL_GRAPH_HEAP_GRAPH_COLUMNS_H

#include "model/graph/heap_graph_builder.h"

/* All meet memory in an order that no processor foretells, so all ask for it some steps ahead. */
enum { HW_GRAPH_AHEAD = 16 };

/* What references without names are called, by class. */
struct hw_graph_field_list {
    size_t first;      /* of field_lists: what the class declares */
    uint32_t n;        /* declared there */
    uint32_t n_listed; /* with superclasses; 0 = nothing is listed */
    uint32_t start;    /* class: itself, or the next one above, that declares fields */
    uint32_t above;    /* the same from its superclass on; HW_ID_NONE */
    int64_t object_size;
    bool is_weak; /* its objects may have references that are not strong */
};

struct hw_graph_columns {
    struct hw_graph_builder *b;
    struct hw_heap_graph *g;
    struct hw_graph_field_list *lists; /* owned, by class */
    uint32_t *to;      /* by reference as taken in: first rows, then numbers; b's targets */
    size_t n_rows;     /* that are described */
    bool out_of_order; /* not all have the numbers of their rows */
    bool by_lists;     /* no reference has a name of its own */
};

static inline uint32_t hw_graph_class_of_row(const struct hw_graph_builder *b, size_t row)
{
    return b->rows.types[row] & ((1u << HW_GRAPH_HEAP_SHIFT) - 1);
}

/* References [from, to) that have no name of their own. */
static inline size_t hw_graph_count_listed(const struct hw_graph_builder *b, size_t from, size_t to)
{
    size_t n = 0;
    if (!b->ref_field.n)
        return to - from;
    for (size_t r = from; r < to; r++)
        n += b->ref_field.v[r] == HW_FIELD_OF_LIST;
    return n;
}

/* Makes the columns of objects and references, all but the names that hw_graph_name_others() gives.
 * Classes must be linked, objects indexed. */
int hw_graph_make_columns(struct hw_graph_columns *m, struct hw_graph_faults *faults);
/* Of references of objects that are not weak: who asks what is strong does not ask for these. */
void hw_graph_name_others(struct hw_graph_columns *m);
int hw_graph_find_owners(struct hw_heap_graph *g);
void hw_graph_columns_done(struct hw_graph_columns *m);

/* Goes through all references. Those of objects that have the wrong number of them are left out. */
int hw_graph_resolve(struct hw_graph_columns *m, struct hw_graph_faults *faults);

#endif
