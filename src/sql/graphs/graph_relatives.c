/* Descendants and ancestors of objects in the tree of shortest paths: uses the parent arrays of
 * sql/graph_views.h, without a list of edges. */
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "sql/graph_views.h"
#include "sql/graphs/graph_functions.h"

#include "base/banned.h"

enum { STOP_EVERY = 1 << 14 };
enum state { UNKNOWN, WANTED, OTHER };

static int put_id(hw_graph_rows *out, int64_t id)
{
    return hw_vec_push(out, (struct hw_row_cell){.type = HW_SQL_INT, .i = id}) < 0 ? HW_ENOMEM
                                                                                   : HW_OK;
}

/* Marks the listed objects that are in the graph's tree; returns how many. */
static size_t mark_chosen(const struct hw_graph_query *q, size_t graph, uint8_t *state)
{
    const struct hw_heap_graph *g = q->profile->graphs.v[graph];
    size_t n = 0;
    for (size_t i = 0; i < hw_row_list_rows(q->lists[0]); i++) {
        int64_t id;
        if (!hw_row_list_int(q->lists[0], i, 0, &id) || id < g->first_object ||
            id - g->first_object >= g->n_objects)
            continue;
        uint32_t o = (uint32_t)(id - g->first_object);
        if (q->graphs->path_sum[graph][o].count > 0) {
            state[o] = WANTED;
            n++;
        }
    }
    return n;
}

/* Walks up to an object whose state is known, then applies it to all on the path. */
static void resolve_path(const uint32_t *parent, uint32_t o, uint8_t *state)
{
    uint32_t at = o;
    while (state[at] == UNKNOWN && parent[at] != HW_ID_NONE)
        at = parent[at];
    uint8_t resolved = state[at] == UNKNOWN ? OTHER : state[at];
    for (at = o; state[at] == UNKNOWN; at = parent[at]) {
        state[at] = resolved;
        if (parent[at] == HW_ID_NONE)
            break;
    }
}

static int put_wanted(const struct hw_heap_graph *g, const uint8_t *state, hw_graph_rows *out)
{
    int rc = HW_OK;
    for (uint32_t o = 0; rc == HW_OK && o < g->n_objects; o++)
        if (state[o] == WANTED)
            rc = put_id(out, (int64_t)g->first_object + o);
    return rc;
}

static int for_each_graph(const struct hw_graph_query *q, hw_graph_rows *out,
                          void (*mark)(const uint32_t *parent, uint32_t o, uint8_t *state))
{
    int rc = hw_graph_views_paths(q->graphs);
    for (size_t i = 0; rc == HW_OK && i < q->profile->graphs.n; i++) {
        const struct hw_heap_graph *g = q->profile->graphs.v[i];
        hw_autofree uint8_t *state = calloc((size_t)g->n_objects + 1, 1);
        if (!state)
            return HW_ENOMEM;
        if (mark_chosen(q, i, state) == 0)
            continue;
        for (uint32_t o = 0; rc == HW_OK && o < g->n_objects; o++) {
            if (q->stop && o % STOP_EVERY == STOP_EVERY - 1 && q->stop(q->ctx))
                rc = HW_ETIMEOUT;
            if (q->graphs->path_sum[i][o].count > 0)
                mark(q->graphs->path_parent[i], o, state);
        }
        if (rc == HW_OK)
            rc = put_wanted(g, state, out);
    }
    return rc;
}

int hw_graph_objects_below(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return for_each_graph(q, out, resolve_path);
}

/* Marks the ancestors of a wanted object. If one is marked, so are all its ancestors. */
static void mark_above(const uint32_t *parent, uint32_t o, uint8_t *state)
{
    if (state[o] != WANTED)
        return;
    for (uint32_t at = parent[o]; at != HW_ID_NONE && state[at] != WANTED; at = parent[at])
        state[at] = WANTED;
}

int hw_graph_objects_above(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return for_each_graph(q, out, mark_above);
}
