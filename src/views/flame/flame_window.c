/*
 * The tree of all callstacks that ever have a row is built once and laid out in preorder. Leaves,
 * the callstacks' values, are in the order of their nodes. So those of a subtree are one range, and
 * a node's total is the difference of two prefix sums:
 *
 *     node      root  a    b    c    d         (preorder; end[a] = d)
 *     leaves    |     .  . |  . |... |  .  | dropped by filters
 *     first     0     0    2    3    6    7
 *
 * Only shown nodes are entered, so a move costs as much as the callstacks, not as the tree. The
 * other figures (error, samples) are then summed over the shown nodes alone: differences of prefix
 * sums would lose small variances beside large ones.
 */
#include "views/flame/flame_window.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"
#include "views/time/process_view.h"

#include "base/banned.h"

struct node {
    uint32_t function;
    uint32_t end;   /* of its subtree */
    uint32_t first; /* leaf: its own come first, then those of its children */
};

struct heap {
    const struct hw_series *series;
    struct hw_sum *sum;
    HW_VEC(uint32_t) leaf_of; /* by index in the sum */
};

/* All heaps together at one moment. */
struct state {
    struct hw_value *v; /* by leaf; only where has_row */
    uint8_t *has_row;   /* by leaf */
    int64_t ts_ns;
    bool is_known;
};

struct hw_flame_window {
    struct hw_flame_window_query q;
    HW_VEC(struct heap) heaps;
    struct node *nodes; /* in preorder, and one after the last */
    size_t n_nodes, n_leaves;
    struct state now, from;
    bool is_since;        /* what is shown is now minus from */
    int64_t *prefix_sums; /* by leaf: the metric's sum before it; n_leaves + 1 */
};

/* ---- new: the callstacks ---- */

static int add_heap(struct hw_flame_window *s, const struct hw_series *series,
                    size_t max_marks_bytes)
{
    struct heap h = {.series = series};
    int rc = hw_sum_new(s->q.p, series, &h.sum);
    if (rc < 0)
        return rc;
    hw_sum_keep_marks(h.sum, max_marks_bytes);
    if (hw_vec_push(&s->heaps, h) < 0) {
        hw_sum_free(h.sum);
        return HW_ENOMEM;
    }
    return series->all.n ? hw_sum_seek(h.sum, series->all.v[series->all.n - 1]) : HW_OK;
}

static bool is_wanted(const struct hw_flame_window *s, const struct hw_series *series)
{
    return s->q.one_heap
               ? series->heap_name.v == s->q.heap_name.v
               : series->kind == hw_process_kind(s->q.p, s->q.list, s->q.upid, NULL, NULL);
}

static int add_heaps(struct hw_flame_window *s)
{
    const struct hw_series_list *list = s->q.list;
    const struct hw_process_rows heaps = hw_series_of(list, s->q.upid);
    size_t n = 0;
    int rc = HW_OK;
    for (size_t i = 0; i < heaps.n; i++)
        n += is_wanted(s, &list->v.v[heaps.v[i]]);
    for (size_t i = 0; rc == HW_OK && i < heaps.n; i++)
        if (is_wanted(s, &list->v.v[heaps.v[i]]))
            rc = add_heap(s, &list->v.v[heaps.v[i]], s->q.max_marks_bytes / n);
    return rc;
}

static int by_callsite(const void *a, const void *b)
{
    uint32_t x = ((const struct hw_callsite_value *)a)->callsite.v;
    uint32_t y = ((const struct hw_callsite_value *)b)->callsite.v;
    return x < y ? -1 : x > y;
}

/* Every callstack once, each with a value that is not 0. */
static int collect_callsites(const struct hw_flame_window *s, hw_values *out)
{
    for (size_t h = 0; h < s->heaps.n; h++)
        for (size_t i = 0; i < hw_sum_count(s->heaps.v[h].sum); i++) {
            hw_callsite_id callsite = hw_sum_get(s->heaps.v[h].sum, i).callsite;
            if (hw_vec_push(out, (struct hw_callsite_value){callsite, {.objects = 1}}) < 0)
                return HW_ENOMEM;
        }
    if (out->n == 0)
        return HW_OK;
    qsort(out->v, out->n, sizeof *out->v, by_callsite);
    size_t kept = 0;
    for (size_t i = 1; i < out->n; i++)
        if (out->v[i].callsite.v != out->v[kept].callsite.v)
            out->v[++kept] = out->v[i];
    out->n = kept + 1;
    return HW_OK;
}

/* ---- new: the tree ---- */

/* In preorder; position[] receives each node's index. */
static void lay_out(struct hw_flame_window *s, const struct hw_flame *f, uint32_t *position)
{
    uint32_t at = 0, n = 0;
    while (at != HW_ID_NONE) {
        const struct hw_flame_node *node = &f->v.v[at];
        position[at] = n;
        s->nodes[n++].function = node->function;
        if (node->first_child != HW_ID_NONE) {
            at = node->first_child;
            continue;
        }
        s->nodes[position[at]].end = n;
        while (at != 0 && f->v.v[at].next_sibling == HW_ID_NONE) {
            at = f->v.v[at].parent;
            s->nodes[position[at]].end = n;
        }
        at = at == 0 ? HW_ID_NONE : f->v.v[at].next_sibling;
    }
    s->nodes[n].end = n;
}

/* Counting sort of the leaves by their nodes' positions; those without a node come last. node_of
 * then has each value's leaf. */
static void sort_leaves(struct hw_flame_window *s, const uint32_t *position, uint32_t *node_of,
                        size_t n)
{
    uint32_t begin = 0, dropped = 0;
    for (size_t i = 0; i < n; i++)
        if (node_of[i] != HW_ID_NONE)
            s->nodes[position[node_of[i]]].first++;
        else
            dropped++;
    for (size_t i = 0; i <= s->n_nodes; i++) {
        uint32_t own = s->nodes[i].first;
        s->nodes[i].first = begin;
        begin += own;
    }
    dropped = (uint32_t)n - dropped;
    for (size_t i = 0; i < n; i++)
        node_of[i] = node_of[i] == HW_ID_NONE ? dropped++ : s->nodes[position[node_of[i]]].first++;
    for (size_t i = s->n_nodes; i-- > 0;) /* each is now where the next one begins */
        s->nodes[i + 1].first = s->nodes[i].first;
    s->nodes[0].first = 0;
}

static int map_leaves(struct hw_flame_window *s, const hw_values *values, const uint32_t *leaf_of)
{
    struct hw_map64 leaves = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < values->n; i++)
        rc = hw_map64_put(&leaves, values->v[i].callsite.v, leaf_of[i]);
    for (size_t h = 0; h < s->heaps.n; h++)
        for (size_t i = 0; rc == HW_OK && i < hw_sum_count(s->heaps.v[h].sum); i++) {
            uint64_t leaf = 0;
            (void)hw_map64_get(&leaves, hw_sum_get(s->heaps.v[h].sum, i).callsite.v,
                               &leaf); /* every callsite was put */
            rc = hw_vec_push(&s->heaps.v[h].leaf_of, (uint32_t)leaf) < 0 ? HW_ENOMEM : HW_OK;
        }
    hw_map64_done(&leaves);
    return rc;
}

static int make_tree(struct hw_flame_window *s, const hw_values *values)
{
    struct hw_flame f = {0};
    hw_autofree uint32_t *node_of = calloc(values->n + 1, sizeof *node_of);
    const struct hw_flame_input q = {.cs = s->q.p->callsites,
                                     .fns = s->q.fns,
                                     .values = values,
                                     .flags = s->q.flags,
                                     .filters = s->q.filters,
                                     .node_of_value = node_of};
    if (!node_of || values->n >= UINT32_MAX)
        return HW_ENOMEM;
    int rc = hw_flame_build_with(&q, &f);
    if (rc < 0)
        return rc;
    hw_autofree uint32_t *position = calloc(f.v.n + 1, sizeof *position);
    s->nodes = calloc(f.v.n + 1, sizeof *s->nodes);
    s->n_nodes = f.v.n;
    rc = position && s->nodes ? hw_flame_sort_stable(&f) : HW_ENOMEM;
    if (rc == HW_OK) {
        lay_out(s, &f, position);
        sort_leaves(s, position, node_of, values->n);
        rc = map_leaves(s, values, node_of);
    }
    hw_flame_done(&f);
    return rc;
}

static int alloc_values(struct hw_flame_window *s, size_t n)
{
    s->n_leaves = n;
    s->now.v = calloc(n + 1, sizeof *s->now.v);
    s->now.has_row = calloc(n + 1, 1);
    s->from.v = calloc(n + 1, sizeof *s->from.v);
    s->from.has_row = calloc(n + 1, 1);
    s->prefix_sums = calloc(n + 1, sizeof *s->prefix_sums);
    return s->now.v && s->now.has_row && s->from.v && s->from.has_row && s->prefix_sums ? HW_OK
                                                                                        : HW_ENOMEM;
}

int hw_flame_window_new(const struct hw_flame_window_query *q, struct hw_flame_window **out)
{
    struct hw_flame_window *s = calloc(1, sizeof *s);
    hw_values values = {0};
    if (!s)
        return HW_ENOMEM;
    s->q = *q;
    int rc = add_heaps(s);
    if (rc == HW_OK)
        rc = collect_callsites(s, &values);
    if (rc == HW_OK)
        rc = make_tree(s, &values);
    if (rc == HW_OK)
        rc = alloc_values(s, values.n);
    hw_vec_done(&values);
    s->q.filters = NULL;
    if (rc < 0)
        hw_flame_window_free(s);
    else
        *out = s;
    return rc;
}

static void state_done(struct state *st)
{
    free(st->v);
    free(st->has_row);
}

void hw_flame_window_free(struct hw_flame_window *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->heaps.n; i++) {
        hw_sum_free(s->heaps.v[i].sum);
        hw_vec_done(&s->heaps.v[i].leaf_of);
    }
    hw_vec_done(&s->heaps);
    free(s->nodes);
    state_done(&s->now);
    state_done(&s->from);
    free(s->prefix_sums);
    free(s);
}

size_t hw_flame_window_bytes(const struct hw_flame_window *s)
{
    size_t n = sizeof *s + (s->n_nodes + 1) * sizeof *s->nodes +
               (s->n_leaves + 1) * (2 * sizeof(struct hw_value) + sizeof *s->prefix_sums + 2);
    for (size_t i = 0; i < s->heaps.n; i++)
        n += hw_sum_bytes(s->heaps.v[i].sum) +
             s->heaps.v[i].leaf_of.cap * sizeof *s->heaps.v[i].leaf_of.v;
    return n;
}

/* ---- move: the values ---- */

static void take_values(const struct heap *heap, struct state *st)
{
    enum { AHEAD = 8 };
    const uint32_t *leaf = heap->leaf_of.v;
    size_t n = hw_sum_count(heap->sum);
    for (size_t i = 0; i < n; i++) {
        struct hw_callsite_value row = hw_sum_get(heap->sum, i);
        if (i + AHEAD < n) {
            hw_prefetch_write(&st->v[leaf[i + AHEAD]]);
            hw_prefetch_write((char *)&st->v[leaf[i + AHEAD]] + 64);
        }
        if (st->has_row[leaf[i]])
            hw_value_add(&st->v[leaf[i]], &row.v);
        else
            st->v[leaf[i]] = row.v;
        st->has_row[leaf[i]] = 1;
    }
}

static int sum_dumps(struct hw_flame_window *s, struct state *st, int64_t ts_ns)
{
    if (st->is_known && st->ts_ns == ts_ns)
        return HW_OK;
    st->is_known = false;
    memset(st->has_row, 0, s->n_leaves);
    for (size_t h = 0; h < s->heaps.n; h++) {
        struct heap *heap = &s->heaps.v[h];
        uint32_t dump = hw_process_dump_at(s->q.p, heap->series, ts_ns, /* at_max = */ false);
        if (dump == HW_ID_NONE)
            continue;
        int rc = hw_sum_seek(heap->sum, dump);
        if (rc < 0)
            return rc;
        take_values(heap, st);
    }
    st->ts_ns = ts_ns;
    st->is_known = true;
    return HW_OK;
}

/* What is shown of a leaf, in `room` unless it is the state's own; NULL: nothing. */
static const struct hw_value *leaf_value(const struct hw_flame_window *s, uint32_t leaf,
                                         struct hw_value *room)
{
    const struct hw_value *v = &s->now.v[leaf];
    if (!s->now.has_row[leaf])
        return NULL;
    if (s->is_since && s->from.has_row[leaf]) {
        *room = *v;
        hw_value_since(room, &s->from.v[leaf]);
        v = room;
    }
    return hw_value_is_zero(v) ? NULL : v; /* then its variance is left out, as in other graphs */
}

/* The same, of one metric. */
static int64_t leaf_metric(const struct hw_flame_window *s, uint32_t leaf, enum hw_metric m)
{
    int64_t now = s->now.has_row[leaf] ? hw_value_get(&s->now.v[leaf], m) : 0;
    if (!s->is_since || !s->now.has_row[leaf] || !s->from.has_row[leaf])
        return now;
    int64_t grown = hw_sat_sub(now, hw_value_get(&s->from.v[leaf], m));
    return grown > 0 ? grown : 0;
}

/* The values at the place, and their prefix sums. */
static int compute_values(struct hw_flame_window *s, const struct hw_flame_window_place *place)
{
    int rc = sum_dumps(s, &s->now, place->ts_ns);
    if (rc == HW_OK && place->has_from)
        rc = sum_dumps(s, &s->from, place->from_ns);
    if (rc < 0)
        return rc;
    int64_t sum = 0;
    s->is_since = place->has_from;
    for (uint32_t i = 0; i < s->n_leaves; i++) {
        s->prefix_sums[i] = sum;
        if (__builtin_add_overflow(sum, leaf_metric(s, i, place->metric), &sum))
            return HW_ELIMIT;
    }
    s->prefix_sums[s->n_leaves] = sum;
    return HW_OK;
}

/* ---- move: the shown nodes ---- */

struct open {
    uint32_t node, shown, last; /* last: child that was added; HW_ID_NONE */
    uint32_t next;              /* child to visit */
    uint32_t n_small;
    struct hw_value small;
};

/* A value below a node that is not shown: 0 in this metric, but not in all. */
struct hidden {
    uint32_t shown;
    struct hw_value v;
};

struct job {
    const struct hw_flame_window *s;
    double min;
    struct hw_flame *out;
    HW_VEC(struct open) open; /* the path to the current node */
    HW_VEC(struct hidden) hidden;
};

static int64_t node_total(const struct hw_flame_window *s, uint32_t node)
{
    return s->prefix_sums[s->nodes[s->nodes[node].end].first] -
           s->prefix_sums[s->nodes[node].first];
}

static void add_leaves(const struct hw_flame_window *s, uint32_t first, uint32_t end,
                       struct hw_value *to)
{
    for (uint32_t i = first; i < end; i++) {
        struct hw_value room;
        const struct hw_value *v = leaf_value(s, i, &room);
        if (v)
            hw_value_add(to, v);
    }
}

static int add_node(struct job *j, uint32_t parent, uint32_t last, uint32_t function,
                    const struct hw_value *self, uint32_t *out)
{
    struct hw_flame *f = j->out;
    struct hw_flame_node n = {.parent = parent,
                              .first_child = HW_ID_NONE,
                              .next_sibling = HW_ID_NONE,
                              .function = function,
                              .self = (uint32_t)f->selfs.n};
    if (parent != HW_ID_NONE)
        n.depth = f->v.v[parent].depth + 1;
    *out = (uint32_t)f->v.n;
    if (hw_vec_push(&f->v, n) < 0 || hw_vec_push(&f->selfs, *self) < 0)
        return HW_ENOMEM;
    if (last != HW_ID_NONE)
        f->v.v[last].next_sibling = *out;
    else if (parent != HW_ID_NONE)
        f->v.v[parent].first_child = *out;
    return HW_OK;
}

/* Shows a node and makes it the current one. */
static int enter(struct job *j, uint32_t node, struct open *parent)
{
    const struct hw_flame_window *s = j->s;
    struct hw_value self = {0};
    struct open o = {.node = node, .last = HW_ID_NONE, .next = node + 1};
    add_leaves(s, s->nodes[node].first, s->nodes[node + 1].first, &self);
    int rc = add_node(j, parent ? parent->shown : HW_ID_NONE, parent ? parent->last : HW_ID_NONE,
                      s->nodes[node].function, &self, &o.shown);
    if (rc == HW_OK && parent)
        parent->last = o.shown;
    return rc == HW_OK && hw_vec_push(&j->open, o) < 0 ? HW_ENOMEM : rc;
}

static int add_hidden(struct job *j, uint32_t below, const struct hw_value *v)
{
    if (hw_value_is_zero(v) && v->samples == 0 && !(v->variance > 0))
        return HW_OK;
    return hw_vec_push(&j->hidden, (struct hidden){below, *v}) < 0 ? HW_ENOMEM : HW_OK;
}

/* All children of the current node were visited. */
static int leave(struct job *j)
{
    struct open *o = &j->open.v[--j->open.n];
    uint32_t merged;
    if (o->n_small == 0)
        return add_hidden(j, o->shown, &o->small);
    int rc = add_node(j, o->shown, o->last, HW_FLAME_MERGED, &o->small, &merged);
    if (rc < 0)
        return rc;
    struct hw_flame_merged m = {merged, o->n_small};
    return hw_vec_push(&j->out->merged, m) < 0 ? HW_ENOMEM : HW_OK;
}

static int visit_child(struct job *j, struct open *o)
{
    const struct hw_flame_window *s = j->s;
    uint32_t node = o->next;
    int64_t value = node_total(s, node);
    o->next = s->nodes[node].end;
    if ((double)value < j->min) {
        o->n_small += value > 0;
        add_leaves(s, s->nodes[node].first, s->nodes[o->next].first, &o->small);
        return HW_OK;
    }
    if (value > 0)
        return enter(j, node, o);
    struct hw_value other = {0};
    add_leaves(s, s->nodes[node].first, s->nodes[o->next].first, &other);
    return add_hidden(j, o->shown, &other);
}

static int sum_up(struct job *j)
{
    int rc = hw_flame_sum_up(j->out);
    for (size_t i = 0; rc == HW_OK && i < j->hidden.n; i++)
        for (uint32_t n = j->hidden.v[i].shown; n != HW_ID_NONE; n = j->out->v.v[n].parent)
            hw_value_add(&j->out->totals.v[n], &j->hidden.v[i].v);
    return rc;
}

static int by_node(const void *a, const void *b)
{
    uint32_t x = ((const struct hw_flame_merged *)a)->node;
    uint32_t y = ((const struct hw_flame_merged *)b)->node;
    return x < y ? -1 : x > y;
}

static int show(struct job *j)
{
    int rc = enter(j, 0, NULL);
    while (rc == HW_OK && j->open.n) {
        struct open *o = &j->open.v[j->open.n - 1];
        rc = o->next < j->s->nodes[o->node].end ? visit_child(j, o) : leave(j);
    }
    if (rc == HW_OK && j->out->merged.n)
        qsort(j->out->merged.v, j->out->merged.n, sizeof *j->out->merged.v, by_node);
    return rc == HW_OK ? sum_up(j) : rc;
}

int hw_flame_window_move(struct hw_flame_window *s, const struct hw_flame_window_place *place,
                         struct hw_flame *out, int64_t *unfiltered)
{
    struct job j = {.s = s, .out = out};
    *out = (struct hw_flame){0};
    int rc = compute_values(s, place);
    if (rc < 0)
        return rc;
    *unfiltered = s->prefix_sums[s->n_leaves];
    j.min = (double)node_total(s, 0) * place->min_share;
    rc = show(&j);
    hw_vec_done(&j.open);
    hw_vec_done(&j.hidden);
    if (rc < 0)
        hw_flame_done(out);
    return rc;
}
