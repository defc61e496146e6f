/*
 * graph_edges.h - the edges of a graph given by a select, grouped by source node
 *
 * Shapes:  a node's edges are in the order of their rows. Rows without two ends are skipped.
 * Owns:    its arrays; zero-initialised is empty, and hw_graph_edges_done takes half-built ones.
 * Errors:  HW_ENOMEM, HW_ELIMIT (HW_GRAPH_MAX_ROWS nodes or edges).
 */
#ifndef HW_SQL_GRAPHS_GRAPH_EDGES_H
#define HW_SQL_GRAPHS_GRAPH_EDGES_H

#include "sql/graphs/graph_ids.h"

struct hw_graph_edges {
    struct hw_graph_ids ids; /* the first list's ends and the second list's first column */
    uint32_t *first;         /* by number: its first edge; one extra entry at the end */
    uint32_t *to;
    double *weight;
};

int hw_graph_edges_read(const struct hw_graph_query *q, struct hw_graph_edges *g);
void hw_graph_edges_done(struct hw_graph_edges *g);
/* The number in a column; 0 if it has none. */
double hw_graph_weight(const struct hw_row_list *l, size_t row, size_t column);

#endif
