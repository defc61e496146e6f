/* Walks over graphs. */
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "sql/graphs/graph_edges.h"

#include "base/banned.h"

struct step {
    uint32_t node, parent;
    double weight; /* of the path */
};

typedef HW_VEC(struct step) steps;

static struct hw_row_cell cell_node(const struct hw_graph_edges *g, uint32_t node)
{
    return node == HW_GRAPH_NONE ? (struct hw_row_cell){.type = HW_SQL_NULL}
                                 : hw_graph_cell_int(g->ids.v.v[node]);
}

static int put_visit(const struct hw_graph_edges *g, const struct step *s, hw_graph_rows *out)
{
    struct hw_row_cell row[2] = {cell_node(g, s->node), cell_node(g, s->parent)};
    return hw_graph_put_row(out, row, 2);
}

/* Pushed in reverse, so that targets are popped in their order. */
static int push_targets(const struct hw_graph_edges *g, const struct step *s, steps *stack)
{
    for (uint32_t e = g->first[s->node + 1]; e-- > g->first[s->node];)
        if (hw_vec_push(stack, (struct step){g->to[e], s->node, s->weight + g->weight[e]}) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

static int push_starts(const struct hw_graph_query *q, struct hw_graph_edges *g, steps *out)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(q->lists[1]); i++) {
        struct step s = {HW_GRAPH_NONE, HW_GRAPH_NONE, 0};
        int64_t id;
        if (!hw_row_list_int(q->lists[1], i, 0, &id))
            continue;
        rc = hw_graph_ids_at(&g->ids, id, &s.node); /* it exists */
        if (rc == HW_OK && hw_vec_push(out, s) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int depth_first(const struct hw_graph_query *q, struct hw_graph_edges *g,
                       const steps *starts, hw_graph_rows *out)
{
    hw_autofree bool *seen = calloc(g->ids.v.n + 1, sizeof *seen);
    steps stack = {0};
    int rc = seen ? HW_OK : HW_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; rc == HW_OK && i < starts->n; i++) {
        if (hw_vec_push(&stack, starts->v[i]) < 0)
            rc = HW_ENOMEM;
        while (rc == HW_OK && stack.n) {
            struct step s = stack.v[--stack.n];
            if (hw_graph_stops(q, n++))
                rc = HW_ETIMEOUT;
            if (rc < 0 || seen[s.node])
                continue;
            seen[s.node] = true;
            rc = put_visit(g, &s, out);
            if (rc == HW_OK)
                rc = push_targets(g, &s, &stack);
        }
    }
    hw_vec_done(&stack);
    return rc;
}

static int breadth_first(const struct hw_graph_query *q, struct hw_graph_edges *g,
                         const steps *starts, hw_graph_rows *out)
{
    hw_autofree bool *seen = calloc(g->ids.v.n + 1, sizeof *seen);
    steps queue = {0};
    int rc = seen ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < starts->n; i++)
        if (!seen[starts->v[i].node]) {
            seen[starts->v[i].node] = true;
            rc = hw_vec_push(&queue, starts->v[i]) < 0 ? HW_ENOMEM : HW_OK;
        }
    for (size_t at = 0; rc == HW_OK && at < queue.n; at++) {
        struct step s = queue.v[at];
        rc = hw_graph_stops(q, at) ? HW_ETIMEOUT : put_visit(g, &s, out);
        for (uint32_t e = g->first[s.node]; rc == HW_OK && e < g->first[s.node + 1]; e++) {
            if (seen[g->to[e]])
                continue;
            seen[g->to[e]] = true;
            if (hw_vec_push(&queue, (struct step){g->to[e], s.node, 0}) < 0)
                rc = HW_ENOMEM;
        }
    }
    hw_vec_done(&queue);
    return rc;
}

static int reach(const struct hw_graph_query *q, hw_graph_rows *out,
                 int (*walk)(const struct hw_graph_query *q, struct hw_graph_edges *g,
                             const steps *starts, hw_graph_rows *out))
{
    struct hw_graph_edges g = {0};
    steps starts = {0};
    int rc = hw_graph_edges_read(q, &g);
    if (rc == HW_OK)
        rc = push_starts(q, &g, &starts);
    if (rc == HW_OK)
        rc = walk(q, &g, &starts, out);
    hw_vec_done(&starts);
    hw_graph_edges_done(&g);
    return rc;
}

int hw_graph_reach_depth_first(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return reach(q, out, depth_first);
}

int hw_graph_reach_breadth_first(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return reach(q, out, breadth_first);
}

/* Walks from one root: seen holds the number of the last root that reached a node. */
static int walk_within(const struct hw_graph_query *q, const struct hw_graph_edges *g,
                       struct step root, double target, uint32_t root_number, uint32_t *seen,
                       hw_graph_rows *out)
{
    steps stack = {0};
    int rc = hw_vec_push(&stack, root) < 0 ? HW_ENOMEM : HW_OK;
    size_t n = out->n;
    while (rc == HW_OK && stack.n) {
        struct step s = stack.v[--stack.n];
        bool beyond = s.weight > target;
        if (hw_graph_stops(q, n++))
            rc = HW_ETIMEOUT;
        if (rc < 0 || seen[s.node] == root_number || (beyond && !q->number))
            continue;
        seen[s.node] = root_number;
        struct hw_row_cell row[3] = {cell_node(g, root.node), cell_node(g, s.node),
                                     cell_node(g, s.parent)};
        rc = hw_graph_put_row(out, row, 3);
        if (rc == HW_OK && !beyond)
            rc = push_targets(g, &s, &stack);
    }
    hw_vec_done(&stack);
    return rc;
}

static int walk_each_root(const struct hw_graph_query *q, struct hw_graph_edges *g,
                          const steps *starts, hw_graph_rows *out)
{
    hw_autofree uint32_t *seen = calloc(g->ids.v.n + 1, sizeof *seen);
    int rc = seen ? HW_OK : HW_ENOMEM;
    uint32_t root_number = 0;
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(q->lists[1]); i++) {
        int64_t id;
        if (!hw_row_list_int(q->lists[1], i, 0, &id))
            continue;
        rc = walk_within(q, g, starts->v[root_number], hw_graph_weight(q->lists[1], i, 1),
                         root_number + 1, seen, out);
        root_number++;
    }
    return rc;
}

int hw_graph_reach_within(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return reach(q, out, walk_each_root);
}
