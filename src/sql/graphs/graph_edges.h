/*
 * graph_edges.h - the edges of a graph that a select describes, by the node they leave
 *
 * Shapes:  edges of a node are in the order of their rows. Rows without two ends are no edges.
 * Owns:    its arrays; zero-initialised is empty, and hw_graph_edges_done copes with a part.
 * Errors:  HW_ENOMEM, HW_ELIMIT (HW_GRAPH_MAX_ROWS nodes or edges).
 */
#ifndef HW_SQL_GRAPHS_GRAPH_EDGES_H
#define HW_SQL_GRAPHS_GRAPH_EDGES_H

#include "sql/graphs/graph_ids.h"

struct hw_graph_edges {
    struct hw_graph_ids ids; /* of the first list's ends and of the second list's first column */
    uint32_t *first;         /* by number: its edges; one more at the end */
    uint32_t *to;
    double *weight;
};

int hw_graph_edges_read(const struct hw_graph_question *q, struct hw_graph_edges *g);
void hw_graph_edges_done(struct hw_graph_edges *g);
/* A number in a column; 0 = there is none. */
double hw_graph_weight(const struct hw_row_list *l, size_t row, size_t column);

#endif
