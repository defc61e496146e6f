/* Path hashes as in sql/graph_views.h for any tree of objects, given as rows of (id, parent). */
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "sql/graph_views.h"
#include "sql/graphs/graph_ids.h"

#include "base/banned.h"

#define NOT_LISTED (HW_ID_NONE - 1)

enum state { NEW, ON_PATH, KNOWN, DISCONNECTED };

struct hashes {
    const struct hw_graph_query *q;
    size_t n;         /* objects of all graphs */
    uint32_t *parent; /* by row: HW_ID_NONE at the top */
    uint8_t *state;
    struct hw_object_hash *hash;
    const struct hw_heap_graph *graph; /* of the previous object */
    HW_VEC(uint32_t) path;
};

static const struct hw_heap_graph *graph_of(struct hashes *h, uint32_t row)
{
    const struct hw_profile *p = h->q->profile;
    const struct hw_heap_graph *g = h->graph;
    for (size_t i = 0; !g || row - g->first_object >= g->n_objects; i++)
        g = p->graphs.v[i];
    h->graph = g;
    return g;
}

static void read_parents(struct hashes *h)
{
    const struct hw_row_list *l = h->q->lists[0];
    for (size_t i = 0; i < h->n; i++)
        h->parent[i] = NOT_LISTED;
    for (size_t i = 0; i < hw_row_list_rows(l); i++) {
        int64_t id, parent;
        if (!hw_row_list_int(l, i, 0, &id) || id < 0 || (uint64_t)id >= h->n ||
            h->parent[id] != NOT_LISTED)
            continue;
        if (!hw_row_list_int(l, i, 1, &parent))
            h->parent[id] = HW_ID_NONE;
        else if (parent >= 0 && (uint64_t)parent < h->n)
            h->parent[id] = (uint32_t)parent;
    }
}

/* Walks up to a known object or the top; h->path holds the path, lowest first. 1 = connected. */
static int walk_up(struct hashes *h, uint32_t row)
{
    h->path.n = 0;
    while (row < h->n && h->state[row] == NEW && h->parent[row] != NOT_LISTED) {
        h->state[row] = ON_PATH;
        if (hw_vec_push(&h->path, row) < 0)
            return HW_ENOMEM;
        row = h->parent[row];
    }
    return row == HW_ID_NONE || (row < h->n && h->state[row] == KNOWN);
}

static void compute_hash(struct hashes *h, uint32_t row)
{
    const struct hw_heap_graph *g = graph_of(h, row);
    uint32_t o = row - g->first_object, up = h->parent[row];
    if (up == HW_ID_NONE) {
        h->hash[row] = hw_object_hash_top(h->q->profile, g, o);
    } else {
        const struct hw_heap_graph *above = graph_of(h, up);
        hw_str_id name =
            hw_class_shown_name(&above->classes[above->type[up - above->first_object]]);
        h->hash[row] = hw_object_hash_below(h->q->profile, g, o, name, &h->hash[up]);
    }
}

static int find_all(struct hashes *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        if (h->parent[i] == NOT_LISTED || h->state[i] != NEW)
            continue;
        int rc = hw_graph_stops(h->q, i) ? HW_ETIMEOUT : walk_up(h, i);
        if (rc < 0)
            return rc;
        for (size_t k = h->path.n; k-- > 0;) {
            h->state[h->path.v[k]] = rc ? KNOWN : DISCONNECTED;
            if (rc)
                compute_hash(h, h->path.v[k]);
        }
    }
    return HW_OK;
}

int hw_graph_path_hashes(const struct hw_graph_query *q, hw_graph_rows *out)
{
    struct hashes h = {.q = q};
    for (size_t i = 0; i < q->profile->graphs.n; i++)
        h.n += q->profile->graphs.v[i]->n_objects;
    h.parent = malloc((h.n + 1) * sizeof *h.parent);
    h.state = calloc(h.n + 1, sizeof *h.state);
    h.hash = calloc(h.n + 1, sizeof *h.hash);
    int rc = h.parent && h.state && h.hash ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK) {
        read_parents(&h);
        rc = find_all(&h);
    }
    for (size_t i = 0; rc == HW_OK && i < h.n; i++) {
        struct hw_row_cell row[3] = {hw_graph_cell_int((int64_t)i),
                                     hw_graph_cell_int(h.hash[i].hash),
                                     hw_graph_cell_int(h.hash[i].parent)};
        if (h.state[i] == KNOWN)
            rc = hw_graph_put_row(out, row, 3);
    }
    free(h.parent);
    free(h.state);
    free(h.hash);
    hw_vec_done(&h.path);
    return rc;
}
