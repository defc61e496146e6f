#include "sql/graphs/graph_edges.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

void hw_graph_edges_done(struct hw_graph_edges *g)
{
    hw_graph_ids_done(&g->ids);
    free(g->first);
    free(g->to);
    free(g->weight);
}

double hw_graph_weight(const struct hw_row_list *l, size_t row, size_t column)
{
    const struct hw_row_cell *c = l->width > column ? hw_row_list_cell(l, row, column) : NULL;
    return !c ? 0 : c->type == HW_SQL_INT ? (double)c->i : c->type == HW_SQL_REAL ? c->d : 0;
}

/* Numbers the nodes of both lists; from[i] HW_GRAPH_NONE: the row is not an edge. */
static int number_nodes(const struct hw_graph_query *q, struct hw_graph_edges *g, uint32_t *from,
                        uint32_t *to)
{
    const struct hw_row_list *l = q->lists[0];
    int64_t a, b;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(l); i++) {
        from[i] = HW_GRAPH_NONE;
        if (!hw_row_list_int(l, i, 0, &a) || !hw_row_list_int(l, i, 1, &b))
            continue;
        rc = hw_graph_ids_at(&g->ids, b, &to[i]);
        if (rc == HW_OK)
            rc = hw_graph_ids_at(&g->ids, a, &from[i]);
    }
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(q->lists[1]); i++) {
        uint32_t at;
        if (hw_row_list_int(q->lists[1], i, 0, &a))
            rc = hw_graph_ids_at(&g->ids, a, &at);
    }
    return rc;
}

int hw_graph_edges_read(const struct hw_graph_query *q, struct hw_graph_edges *g)
{
    size_t n_edges = hw_row_list_rows(q->lists[0]);
    if (n_edges >= HW_GRAPH_MAX_ROWS)
        return HW_ELIMIT;
    hw_autofree uint32_t *from = malloc((n_edges + 1) * sizeof *from);
    hw_autofree uint32_t *to = malloc((n_edges + 1) * sizeof *to);
    int rc = from && to ? number_nodes(q, g, from, to) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    size_t n = g->ids.v.n;
    g->first = calloc(n + 2, sizeof *g->first);
    g->to = malloc((n_edges + 1) * sizeof *g->to);
    g->weight = malloc((n_edges + 1) * sizeof *g->weight);
    if (!g->first || !g->to || !g->weight)
        return HW_ENOMEM;
    for (size_t i = 0; i < n_edges; i++)
        if (from[i] != HW_GRAPH_NONE)
            g->first[from[i] + 2]++;
    for (size_t i = 2; i < n + 2; i++)
        g->first[i] += g->first[i - 1];
    for (size_t i = 0; i < n_edges; i++)
        if (from[i] != HW_GRAPH_NONE) {
            uint32_t at = g->first[from[i] + 1]++;
            g->to[at] = to[i];
            g->weight[at] = hw_graph_weight(q->lists[0], i, 2);
        }
    return HW_OK;
}
