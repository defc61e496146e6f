/*
 * Objects in the order in which the input first mentions them: an object, then what it refers to, and
 * so on. One pass gives the numbers, one per column moves the rows; a graph whose objects all come
 * before they are referred to is left as it is.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "model/graph/heap_graph_builder.h"

#include "base/banned.h"

/* The new number of each object. True: it is the old one. */
static bool number_objects(const struct hw_heap_graph *g, uint32_t *number)
{
    uint32_t next = 0;
    memset(number, 0xff, (size_t)g->n_objects * sizeof *number); /* HW_ID_NONE */
    for (uint32_t o = 0; o < g->n_objects; o++) {
        if (number[o] == HW_ID_NONE)
            number[o] = next++;
        for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++) {
            uint32_t to = g->ref_owned[r];
            if (to != HW_ID_NONE && number[to] == HW_ID_NONE)
                number[to] = next++;
        }
    }
    for (uint32_t o = 0; o < g->n_objects; o++)
        if (number[o] != o)
            return false;
    return true;
}

#define MOVE(column)                                                                               \
    do {                                                                                           \
        void *moved_ = malloc(((size_t)g->n_objects + 1) * sizeof *(column));                      \
        __typeof__(column) to_ = moved_;                                                           \
        if (!to_)                                                                                  \
            return HW_ENOMEM;                                                                      \
        for (uint32_t o = 0; o < g->n_objects; o++)                                                \
            to_[number[o]] = (column)[o];                                                          \
        free(column);                                                                              \
        (column) = to_;                                                                            \
    } while (0)

static int move_objects(struct hw_heap_graph *g, const uint32_t *number)
{
    MOVE(g->type);
    MOVE(g->self_size);
    MOVE(g->flags);
    return HW_OK;
}

/* Gives each object its references again, behind those of the one before. */
static int move_references(struct hw_heap_graph *g, const uint32_t *number)
{
    size_t n = g->n_objects;
    hw_autofree uint32_t *old_of = malloc((n + 1) * sizeof *old_of);
    uint32_t *first = malloc((n + 1) * sizeof *first);
    uint32_t *owned = malloc(((size_t)g->n_refs + 1) * sizeof *owned);
    uint32_t *field = malloc(((size_t)g->n_refs + 1) * sizeof *field);
    if (!old_of || !first || !owned || !field) {
        free(first);
        free(owned);
        free(field);
        return HW_ENOMEM;
    }
    for (uint32_t o = 0; o < n; o++)
        old_of[number[o]] = o;
    uint32_t to = 0;
    for (uint32_t o = 0; o < n; o++) {
        uint32_t old = old_of[o];
        first[o] = to;
        for (uint32_t r = g->first_ref[old]; r < g->first_ref[old + 1]; r++, to++) {
            uint32_t target = g->ref_owned[r];
            owned[to] = target == HW_ID_NONE ? HW_ID_NONE : number[target];
            field[to] = g->ref_field[r];
            g->ref_owner[to] = o; /* nobody reads it here */
        }
    }
    first[n] = to;
    free(g->first_ref);
    free(g->ref_owned);
    free(g->ref_field);
    g->first_ref = first;
    g->ref_owned = owned;
    g->ref_field = field;
    return HW_OK;
}

int hw_graph_renumber(struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    hw_autofree uint32_t *number = malloc(((size_t)g->n_objects + 1) * sizeof *number);
    if (!number)
        return HW_ENOMEM;
    if (number_objects(g, number))
        return HW_OK;
    int rc = move_objects(g, number);
    if (rc == HW_OK)
        rc = move_references(g, number);
    if (rc < 0)
        return rc;
    b->number = number;
    number = NULL;
    return HW_OK;
}
