/*
 * Lengauer and Tarjan, A fast algorithm for finding dominators in a flowgraph (1979), with simple
 * linking. Nodes are numbered by a depth-first walk from a root of our own, number 0, that refers
 * to all roots; everything else uses these numbers, which are close together for objects that are
 * close in the graph.
 *
 * Nodes are linked in descending order, so "linked" means "number >= the last one": the walk's
 * parent array serves as the forest, which path compression may overwrite. If a node's
 * semidominator is its parent or our root, that is its dominator. Other nodes wait in the bucket of
 * their semidominator until their dominator is known; meanwhile their idom entry holds the next
 * node in the bucket. What else was tried: doc/design/heap-graphs.md.
 */
#include "views/objects/dominators.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "base/side_thread.h"

#include "base/banned.h"

enum { AHEAD = 16 };

/* An edge that is processed after the walk: from is larger than to. */
struct late_edge {
    uint32_t to, from;
};

/* The edges to walk: those of a heap graph, or plain arrays. */
struct edges {
    const struct hw_heap_graph *g; /* NULL: CSR below */
    const uint32_t *first, *to;
    uint32_t n; /* nodes */
};

struct work {
    struct edges e;
    uint32_t n;       /* nodes reached; numbers are 1 .. n, 0 is ours */
    uint32_t *number; /* by node; 0 = not reached */
    uint32_t *node;   /* by number */
    uint32_t *parent; /* by number, as are the following */
    uint32_t *semi, *label, *idom, *bucket;
    HW_VEC(struct late_edge) late;
    uint32_t *first_pred, *pred; /* the late edges by target */
    HW_VEC(uint32_t) path;       /* of a compression */
};

static void work_done(struct work *w)
{
    free(w->number);
    free(w->node);
    free(w->parent);
    free(w->semi);
    free(w->label);
    free(w->idom);
    free(w->bucket);
    hw_vec_done(&w->late);
    free(w->first_pred);
    free(w->pred);
    hw_vec_done(&w->path);
}

static uint32_t *numbers(size_t n)
{
    return n < SIZE_MAX / 8 ? malloc((n + 2) * sizeof(uint32_t)) : NULL;
}

static uint32_t edges_begin(const struct edges *e, uint32_t node)
{
    return e->g ? e->g->first_ref[node] : e->first[node];
}

static uint32_t edges_end(const struct edges *e, uint32_t node)
{
    return e->g ? e->g->first_ref[node + 1] : e->first[node + 1];
}

/* The target of an edge; HW_ID_NONE = the edge does not count. */
static uint32_t edge_to(const struct edges *e, uint32_t node, uint32_t edge)
{
    if (!e->g)
        return e->to[edge];
    return hw_ref_is_strong(e->g, node, edge) ? e->g->ref_owned[edge] : HW_ID_NONE;
}

/* The class object behind a node's last edge; HW_ID_NONE. */
static uint32_t edge_to_class(const struct edges *e, uint32_t node)
{
    return e->g ? hw_object_held_class_below(e->g, node) : HW_ID_NONE;
}

/* ---- the walk ---- */

struct step {
    uint32_t number, edge; /* edges_end: the one to its class; more: done */
};

typedef HW_VEC(struct step) steps;

static int enter(struct work *w, uint32_t node, uint32_t parent, steps *open)
{
    uint32_t number = ++w->n;
    w->number[node] = number;
    w->node[number] = node;
    w->parent[number] = w->semi[number] = parent;
    return hw_vec_push(open, (struct step){number, edges_begin(&w->e, node)}) < 0 ? HW_ENOMEM
                                                                                  : HW_OK;
}

/*
 * An edge to a node that has its number. If it comes from a smaller number, that number is at once
 * a candidate for the semidominator; edges from larger numbers have to wait. Most edges do not.
 */
static int add_edge(struct work *w, uint32_t from, uint32_t to)
{
    if (from > to)
        return hw_vec_push(&w->late, (struct late_edge){to, from}) < 0 ? HW_ENOMEM : HW_OK;
    if (from < w->semi[to])
        w->semi[to] = from;
    return HW_OK;
}

static int walk_from(struct work *w, uint32_t root, steps *open)
{
    int rc = enter(w, root, 0, open);
    while (rc == HW_OK && open->n) {
        struct step *s = &open->v[open->n - 1];
        uint32_t node = w->node[s->number], number = s->number;
        uint32_t end = edges_end(&w->e, node), edge = s->edge++;
        if (edge > end) {
            open->n--;
            continue;
        }
        uint32_t to = edge == end ? edge_to_class(&w->e, node) : edge_to(&w->e, node, edge);
        if (to == HW_ID_NONE)
            continue;
        rc = w->number[to] ? add_edge(w, number, w->number[to]) : enter(w, to, number, open);
    }
    return rc;
}

static bool is_root(const struct work *w, uint32_t node, uint32_t only)
{
    return w->e.g ? hw_object_is_root(w->e.g, node) : node == only;
}

static int walk(struct work *w, uint32_t only)
{
    steps open = {0};
    int rc = HW_OK;
    w->number = calloc((size_t)w->e.n + 1, sizeof *w->number);
    w->node = numbers(w->e.n);
    w->parent = numbers(w->e.n);
    w->semi = numbers(w->e.n);
    if (!w->number || !w->node || !w->parent || !w->semi)
        return HW_ENOMEM;
    for (uint32_t node = 0; rc == HW_OK && node < w->e.n; node++) {
        if (!is_root(w, node, only))
            continue;
        if (!w->number[node])
            rc = walk_from(w, node, &open);
        else
            w->semi[w->number[node]] = 0; /* our root refers to it */
    }
    hw_vec_done(&open);
    return rc;
}

/* Sorts late edges by target. */
static int sort_late_edges(struct work *w)
{
    w->first_pred = calloc((size_t)w->n + 3, sizeof *w->first_pred);
    w->pred = numbers(w->late.n);
    if (!w->first_pred || !w->pred)
        return HW_ENOMEM;
    for (size_t i = 0; i < w->late.n; i++)
        w->first_pred[w->late.v[i].to + 2]++;
    for (uint32_t v = 0; v <= w->n; v++)
        w->first_pred[v + 2] += w->first_pred[v + 1];
    for (size_t i = 0; i < w->late.n; i++)
        w->pred[w->first_pred[w->late.v[i].to + 1]++] = w->late.v[i].from;
    hw_vec_done(&w->late);
    return HW_OK;
}

/* ---- semidominators, dominators ---- */

/* The node with the smallest semidominator between v and the top of its tree of linked nodes. */
static int min_semi_label(struct work *w, uint32_t v, uint32_t linked, uint32_t *out)
{
    uint32_t *up = w->parent, *label = w->label;
    *out = label[v];
    if (v < linked || up[v] < linked)
        return HW_OK;
    hw_vec_clear(&w->path);
    for (uint32_t x = v; up[x] >= linked && up[up[x]] >= linked; x = up[x])
        if (hw_vec_push(&w->path, x) < 0)
            return HW_ENOMEM;
    for (size_t i = w->path.n; i-- > 0;) {
        uint32_t x = w->path.v[i], above = up[x];
        if (w->semi[label[above]] < w->semi[label[x]])
            label[x] = label[above];
        up[x] = up[above];
    }
    *out = w->semi[label[up[v]]] < w->semi[label[v]] ? label[up[v]] : label[v];
    return HW_OK;
}

static int empty_bucket(struct work *w, uint32_t of, uint32_t linked)
{
    uint32_t u;
    uint32_t v = w->bucket[of];
    if (v)
        w->bucket[of] = 0; /* do not touch the page if it is 0 already */
    for (uint32_t next; v; v = next) {
        next = w->idom[v];
        int rc = min_semi_label(w, v, linked, &u);
        if (rc < 0)
            return rc;
        w->idom[v] = w->semi[u] < of ? u : of;
    }
    return HW_OK;
}

static int dominate(struct work *w)
{
    uint32_t u;
    w->idom = numbers(w->n);
    w->bucket = calloc((size_t)w->n + 2, sizeof *w->bucket);
    if (!w->idom || !w->bucket)
        return HW_ENOMEM;
    w->parent[0] = w->semi[0] = w->idom[0] = 0;
    for (uint32_t v = w->n; v > 0; v--) {
        uint32_t parent = w->parent[v];
        for (uint32_t i = w->first_pred[v]; w->semi[v] && i < w->first_pred[v + 1]; i++) {
            int rc = min_semi_label(w, w->pred[i], v + 1, &u);
            if (rc < 0)
                return rc;
            if (w->semi[u] < w->semi[v])
                w->semi[v] = w->semi[u];
        }
        /* No node is between it and its semidominator, or above our root: no need to wait. */
        if (w->semi[v] == parent || w->semi[v] == 0) {
            w->idom[v] = w->semi[v];
        } else {
            w->idom[v] = w->bucket[w->semi[v]];
            w->bucket[w->semi[v]] = v;
        }
        int rc = empty_bucket(w, parent, v);
        if (rc < 0)
            return rc;
    }
    for (uint32_t v = 1; v <= w->n; v++)
        if (w->idom[v] != w->semi[v])
            w->idom[v] = w->idom[w->idom[v]];
    return HW_OK;
}

/* Initially each node's label is itself. Sized for all nodes, as the walk runs meanwhile. */
static int make_labels(void *ctx)
{
    struct work *w = ctx;
    w->label = numbers(w->e.n);
    if (!w->label)
        return HW_ENOMEM;
    for (uint32_t v = 0; v <= w->e.n; v++)
        w->label[v] = v;
    return HW_OK;
}

static int walk_and_make_labels(struct work *w, uint32_t only)
{
    struct hw_side_thread beside;
    hw_side_thread_begin(&beside, make_labels, w);
    int rc = walk(w, only), made = hw_side_thread_end(&beside);
    return rc < 0 ? rc : made;
}

static int solve(struct work *w, uint32_t only)
{
    int rc = w->e.n < HW_WORTH_TWO ? make_labels(w) : walk_and_make_labels(w, only);
    if (rc == HW_OK && w->e.n < HW_WORTH_TWO)
        rc = walk(w, only);
    if (rc == HW_OK)
        rc = sort_late_edges(w);
    return rc < 0 ? rc : dominate(w);
}

/* ---- results ---- */

/* Sums over each object and all that it dominates. Nodes come after their dominators. */
struct sums {
    const struct hw_heap_graph *g;
    struct hw_dominators *d;
};

static int sum_counts(void *ctx)
{
    const struct hw_dominators *d = ((const struct sums *)ctx)->d;
    for (size_t i = 0; i < d->n; i++) {
        d->depth[i] = d->idom[i] == HW_ID_NONE ? 1 : d->depth[d->idom[i]] + 1;
        d->count[i] = 1;
    }
    for (size_t i = d->n; i-- > 0;)
        if (d->idom[i] != HW_ID_NONE)
            d->count[d->idom[i]] += d->count[i];
    return HW_OK;
}

static void sum_sizes(const struct hw_heap_graph *g, const struct hw_dominators *d)
{
    for (size_t i = 0; i < d->n; i++) {
        if (i + AHEAD < d->n)
            hw_prefetch_write(&g->size[d->object[i + AHEAD]]);
        d->size[i] = hw_object_weight(g, d->object[i]);
        if (d->native)
            d->native[i] = hw_object_native_size(g, d->object[i]);
    }
    for (size_t i = d->n; i-- > 0;) {
        uint32_t up = d->idom[i];
        if (up == HW_ID_NONE)
            continue;
        if (__builtin_add_overflow(d->size[up], d->size[i], &d->size[up]))
            d->size[up] = INT64_MAX;
        if (d->native && __builtin_add_overflow(d->native[up], d->native[i], &d->native[up]))
            d->native[up] = INT64_MAX;
    }
}

static int sum_up(const struct hw_heap_graph *g, struct hw_dominators *d)
{
    struct sums sums = {g, d};
    struct hw_side_thread beside;
    if (d->n > UINT32_MAX)
        return HW_ELIMIT;
    d->depth = numbers(d->n);
    d->count = numbers(d->n);
    d->size = calloc(d->n + 1, sizeof *d->size);
    d->native = g->native.n ? calloc(d->n + 1, sizeof *d->native) : NULL;
    if (!d->depth || !d->count || !d->size || (g->native.n && !d->native))
        return HW_ENOMEM;
    if (d->n < HW_WORTH_TWO) {
        sum_sizes(g, d);
        return sum_counts(&sums);
    }
    hw_side_thread_begin(&beside, sum_counts, &sums);
    sum_sizes(g, d);
    return hw_side_thread_end(&beside);
}

/* From numbers, which begin at 1, to positions: 0, our root, becomes HW_ID_NONE. */
static void to_positions(void *ctx, size_t from, size_t end)
{
    uint32_t *v = ctx;
    for (size_t i = from; i < end; i++)
        v[i]--;
}

int hw_dominators_build(const struct hw_heap_graph *g, struct hw_dominators *out)
{
    struct work w = {.e = {.g = g, .n = g->n_objects}};
    struct hw_dominators d = {0};
    int rc = solve(&w, HW_ID_NONE);
    if (rc == HW_OK) {
        d = (struct hw_dominators){
            .n = w.n, .object = w.node, .idom = w.idom, .position = w.number};
        w.node = w.idom = w.number = NULL;
        memmove(d.object, d.object + 1, d.n * sizeof *d.object);
        memmove(d.idom, d.idom + 1, d.n * sizeof *d.idom);
        hw_in_halves(d.n, to_positions, d.idom);
        hw_in_halves(g->n_objects, to_positions, d.position);
    }
    work_done(&w);
    if (rc == HW_OK)
        rc = sum_up(g, &d);
    if (rc < 0) {
        hw_dominators_done(&d);
        return rc;
    }
    *out = d;
    return HW_OK;
}

void hw_dominators_done(struct hw_dominators *d)
{
    free(d->object);
    free(d->idom);
    free(d->depth);
    free(d->count);
    free(d->size);
    free(d->native);
    free(d->position);
    *d = (struct hw_dominators){0};
}

static void sort_edges(const uint32_t *from, const uint32_t *to, size_t n_edges, uint32_t n,
                       uint32_t *first, uint32_t *sorted)
{
    memset(first, 0, ((size_t)n + 2) * sizeof *first);
    for (size_t i = 0; i < n_edges; i++)
        first[from[i] + 2]++;
    for (uint32_t v = 0; v < n; v++)
        first[v + 2] += first[v + 1];
    for (size_t i = 0; i < n_edges; i++)
        sorted[first[from[i] + 1]++] = to[i];
}

int hw_dominators_of_edges(const uint32_t *from, const uint32_t *to, size_t n_edges, uint32_t n,
                           uint32_t root, uint32_t *idom)
{
    if (n_edges >= HW_ID_NONE - 1 || n >= HW_ID_NONE - 2 || root >= n)
        return HW_EINVAL;
    hw_autofree uint32_t *first = numbers((size_t)n + 2);
    hw_autofree uint32_t *sorted = numbers(n_edges);
    if (!first || !sorted)
        return HW_ENOMEM;
    sort_edges(from, to, n_edges, n, first, sorted);
    struct work w = {.e = {.first = first, .to = sorted, .n = n}};
    int rc = solve(&w, root);
    for (uint32_t v = 0; rc == HW_OK && v < n; v++) {
        uint32_t d = w.number[v] ? w.idom[w.number[v]] : 0;
        idom[v] = d ? w.node[d] : HW_ID_NONE;
    }
    work_done(&w);
    return rc;
}
