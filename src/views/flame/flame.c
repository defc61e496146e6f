/*
 * Callsites are numbered parents first. So the plain top-down tree is one pass over them in order
 * of id: mark values' callsites and their ancestors (backwards), then give each a node below its
 * parent's. Most nodes have few children, which are searched in their list, near in memory; from
 * WIDE on they are in a hash map. (One map for all nodes: 490 ns a node, most of it cache misses
 * and growth.)
 */
#include "views/flame/flame.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "views/flame/flame_path.h"

#include "base/banned.h"

enum { WIDE = 8 };

/* ---- merging paths ---- */

static int node_new(struct hw_flame *f, uint32_t parent, uint32_t function, uint32_t *out)
{
    if (f->v.n >= HW_ID_NONE)
        return HW_ELIMIT;
    struct hw_flame_node n = {.parent = parent,
                              .first_child = HW_ID_NONE,
                              .next_sibling = HW_ID_NONE,
                              .function = function,
                              .self = HW_ID_NONE};
    uint32_t id = (uint32_t)f->v.n;
    if (parent != HW_ID_NONE) {
        n.depth = f->v.v[parent].depth + 1;
        n.next_sibling = f->v.v[parent].first_child;
    }
    if (hw_vec_push(&f->v, n) < 0)
        return HW_ENOMEM;
    if (parent != HW_ID_NONE)
        f->v.v[parent].first_child = id;
    *out = id;
    return HW_OK;
}

int hw_flame_begin(struct hw_flame *f)
{
    uint32_t root;
    *f = (struct hw_flame){0};
    return node_new(f, HW_ID_NONE, HW_ID_NONE, &root);
}

static int count_reserve(struct hw_flame_index *ix, size_t n_nodes)
{
    if (hw_vec_reserve(&ix->n_children, n_nodes) < 0)
        return HW_ENOMEM;
    while (ix->n_children.n < n_nodes)
        ix->n_children.v[ix->n_children.n++] = 0;
    return HW_OK;
}

static uint64_t key_of(uint32_t parent, uint32_t function)
{
    return (uint64_t)parent << 32 | function;
}

/* The parent got its WIDE-th child: puts all of them into the map. */
static int widen(struct hw_flame *f, struct hw_flame_index *ix, uint32_t parent)
{
    int rc = HW_OK;
    for (uint32_t c = f->v.v[parent].first_child; rc == 0 && c != HW_ID_NONE;
         c = f->v.v[c].next_sibling)
        rc = hw_map64_put(&ix->wide, key_of(parent, f->v.v[c].function), c);
    return rc;
}

int hw_flame_child(struct hw_flame *f, struct hw_flame_index *ix, uint32_t parent,
                   uint32_t function, uint32_t *out)
{
    uint64_t found;
    bool wide = parent < ix->n_children.n && ix->n_children.v[parent] >= WIDE;
    if (wide) {
        if (hw_map64_get(&ix->wide, key_of(parent, function), &found)) {
            *out = (uint32_t)found;
            return HW_OK;
        }
    } else {
        for (uint32_t c = f->v.v[parent].first_child; c != HW_ID_NONE; c = f->v.v[c].next_sibling) {
            if (f->v.v[c].function == function) {
                *out = c;
                return HW_OK;
            }
        }
    }
    int rc = node_new(f, parent, function, out);
    if (rc == 0)
        rc = count_reserve(ix, f->v.n);
    if (rc < 0)
        return rc;
    if (wide)
        return hw_map64_put(&ix->wide, key_of(parent, function), *out);
    return ++ix->n_children.v[parent] < WIDE ? HW_OK : widen(f, ix, parent);
}

void hw_flame_index_done(struct hw_flame_index *ix)
{
    hw_map64_done(&ix->wide);
    hw_vec_done(&ix->n_children);
}

int hw_flame_add_self(struct hw_flame *f, uint32_t node, const struct hw_value *v)
{
    uint32_t *self = &f->v.v[node].self;
    if (*self == HW_ID_NONE) {
        if (hw_vec_push(&f->selfs, *v) < 0)
            return HW_ENOMEM;
        *self = (uint32_t)f->selfs.n - 1;
        return HW_OK;
    }
    hw_value_add(&f->selfs.v[*self], v);
    return HW_OK;
}

/* Children come after their parents, so one pass from the end sums the tree. */
int hw_flame_sum_up(struct hw_flame *f)
{
    hw_vec_done(&f->totals);
    f->totals.v = calloc(f->v.n, sizeof *f->totals.v);
    if (!f->totals.v)
        return HW_ENOMEM;
    f->totals.n = f->totals.cap = f->v.n;
    for (size_t i = f->v.n; i-- > 0;) {
        const struct hw_flame_node *n = &f->v.v[i];
        struct hw_value *total = &f->totals.v[i];
        if (n->self != HW_ID_NONE)
            hw_value_add(total, &f->selfs.v[n->self]);
        if (n->parent != HW_ID_NONE)
            hw_value_add(&f->totals.v[n->parent], total);
    }
    return HW_OK;
}

/* ---- from callsites ---- */

struct build {
    const struct hw_flame_input *q;
    struct hw_flame *out;
    struct hw_flame_index index;
    uint32_t *node_of; /* by callsite: node + 1; 0 = no values, MARK = values, but no node yet */
    hw_flame_path path, calls;
};

enum { MARK = UINT32_MAX };

static const struct hw_callsite *callsite_of(const struct build *b, uint32_t callsite)
{
    return hw_callsites_get(b->q->cs, (hw_callsite_id){callsite});
}

static int step(struct build *b, uint32_t function, uint32_t *node)
{
    bool again = b->q->flags & HW_FLAME_COLLAPSE && b->out->v.v[*node].function == function;
    return again ? HW_OK : hw_flame_child(b->out, &b->index, *node, function, node);
}

static int add_chain(struct build *b, const struct hw_function_at *chain, size_t n, uint32_t *node)
{
    int rc = HW_OK;
    for (size_t k = 0; rc == 0 && k < n; k++)
        rc = step(b, chain[k].function, node);
    return rc;
}

static uint32_t parent_node(const struct build *b, uint32_t callsite)
{
    uint32_t parent = callsite_of(b, callsite)->parent.v;
    return parent == HW_ID_NONE ? 0 : b->node_of[parent] - 1;
}

static void mark(struct build *b)
{
    const hw_values *values = b->q->values;
    for (size_t i = 0; i < values->n; i++) {
        if (hw_value_is_zero(&values->v[i].v))
            continue;
        struct hw_flame_end e = hw_flame_end_of(b->q, values->v[i].callsite);
        uint32_t whole = e.depth < e.n ? callsite_of(b, e.callsite)->parent.v : e.callsite;
        if (whole != HW_ID_NONE)
            b->node_of[whole] = MARK;
    }
    for (size_t c = hw_callsites_count(b->q->cs); c-- > 0;) {
        uint32_t parent = b->node_of[c] ? callsite_of(b, (uint32_t)c)->parent.v : HW_ID_NONE;
        if (parent != HW_ID_NONE)
            b->node_of[parent] = MARK;
    }
}

static int top_down(struct build *b)
{
    const hw_values *values = b->q->values;
    size_t n_callsites = hw_callsites_count(b->q->cs), n_chain;
    int rc = HW_OK;
    uint32_t node;
    b->node_of = calloc(n_callsites + 1, sizeof *b->node_of);
    if (!b->node_of)
        return HW_ENOMEM;
    mark(b);
    for (uint32_t c = 0; rc == 0 && c < n_callsites; c++) {
        if (!b->node_of[c])
            continue;
        const struct hw_function_at *chain =
            hw_functions_chain(b->q->fns, callsite_of(b, c)->frame, &n_chain);
        node = parent_node(b, c);
        rc = add_chain(b, chain, n_chain, &node);
        b->node_of[c] = node + 1;
    }
    for (size_t i = 0; rc == 0 && i < values->n; i++) {
        if (hw_value_is_zero(&values->v[i].v))
            continue;
        struct hw_flame_end e = hw_flame_end_of(b->q, values->v[i].callsite);
        if (e.depth < e.n) {
            node = parent_node(b, e.callsite);
            rc = add_chain(b, e.chain, e.depth, &node);
        } else {
            node = b->node_of[e.callsite] - 1;
        }
        if (rc == 0)
            rc = hw_flame_add_self(b->out, node, &values->v[i].v);
        if (b->q->node_of_value)
            b->q->node_of_value[i] = node;
    }
    return rc;
}

/* From path[first] to path[last], in either direction; an empty path gives the root. */
static int add_path(struct build *b, size_t first, size_t last, uint32_t *node)
{
    int rc = HW_OK;
    *node = 0;
    if (b->path.n == 0)
        return HW_OK;
    for (size_t i = first; rc == 0; i = first <= last ? i + 1 : i - 1) {
        rc = step(b, b->path.v[i], node);
        if (i == last)
            break;
    }
    return rc;
}

enum direction { WHOLE, CALLEES, CALLERS };

static int by_paths(struct build *b, enum direction dir)
{
    const struct hw_flame_input *q = b->q;
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < q->values->n; i++) {
        size_t pivot = 0;
        uint32_t node;
        if (hw_value_is_zero(&q->values->v[i].v))
            continue;
        rc = hw_flame_path_of(q, q->values->v[i].callsite, &b->calls, &b->path);
        if (rc < 0 || (q->filters && !hw_filter_apply(q->filters, b->path.v, &b->path.n, &pivot)))
            continue;
        size_t last = b->path.n ? b->path.n - 1 : 0;
        if (dir == WHOLE && (q->flags & HW_FLAME_INVERTED))
            rc = add_path(b, last, 0, &node);
        else if (dir == CALLERS)
            rc = add_path(b, pivot, 0, &node);
        else
            rc = add_path(b, dir == WHOLE ? 0 : pivot, last, &node);
        if (rc == 0)
            rc = hw_flame_add_self(b->out, node, &q->values->v[i].v);
        if (q->node_of_value)
            q->node_of_value[i] = node;
    }
    return rc;
}

static int build(const struct hw_flame_input *q, enum direction dir, struct hw_flame *out)
{
    struct build b = {.q = q, .out = out};
    bool plain = dir == WHOLE && !(q->flags & HW_FLAME_INVERTED) &&
                 (!q->filters || q->filters->filters->n == 0);
    for (size_t i = 0; q->node_of_value && i < q->values->n; i++)
        q->node_of_value[i] = HW_ID_NONE;
    int rc = hw_flame_begin(out);
    if (rc == 0)
        rc = plain ? top_down(&b) : by_paths(&b, dir);
    if (rc == 0)
        rc = hw_flame_sum_up(out);
    free(b.node_of);
    hw_vec_done(&b.path);
    hw_vec_done(&b.calls);
    hw_flame_index_done(&b.index);
    if (rc < 0)
        hw_flame_done(out);
    return rc;
}

int hw_flame_build_with(const struct hw_flame_input *q, struct hw_flame *out)
{
    return build(q, WHOLE, out);
}

int hw_flame_pivot(const struct hw_flame_input *q, struct hw_flame *callees,
                   struct hw_flame *callers)
{
    struct hw_flame_input second = *q;
    second.node_of_value = NULL;
    int rc = build(q, CALLEES, callees);
    if (rc < 0)
        return rc;
    rc = build(&second, CALLERS, callers);
    if (rc < 0)
        hw_flame_done(callees);
    return rc;
}

int hw_flame_build(const struct hw_callsites *cs, const struct hw_functions *fns,
                   const hw_values *values, unsigned flags, struct hw_flame *out)
{
    struct hw_flame_input q = {.cs = cs, .fns = fns, .values = values, .flags = flags};
    return hw_flame_build_with(&q, out);
}

void hw_flame_done(struct hw_flame *f)
{
    hw_vec_done(&f->v);
    hw_vec_done(&f->totals);
    hw_vec_done(&f->selfs);
    hw_vec_done(&f->merged);
}

uint8_t *hw_flame_managed_nodes(const struct hw_flame *f, const struct hw_functions *fns)
{
    uint8_t *managed = calloc(f->v.n + 1, 1);
    for (size_t i = 1; managed && i < f->v.n; i++)
        managed[i] = managed[f->v.v[i].parent] ||
                     hw_functions_get(fns, f->v.v[i].function)->language == HW_FUNCTION_MANAGED;
    return managed;
}

struct order {
    const struct hw_flame *f;
    enum hw_metric by;
};

static int by_total(const void *a, const void *b, void *ctx)
{
    const struct order *o = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int64_t vx = hw_value_get(hw_flame_total(o->f, x), o->by);
    int64_t vy = hw_value_get(hw_flame_total(o->f, y), o->by);
    if (vx != vy)
        return vx > vy ? -1 : 1;
    uint32_t fx = o->f->v.v[x].function, fy = o->f->v.v[y].function;
    return fx < fy ? -1 : fx > fy;
}

static int sort(struct hw_flame *f, int (*compare)(const void *, const void *, void *),
                struct order *o)
{
    HW_VEC(uint32_t) kids = {0};
    for (size_t i = 0; i < f->v.n; i++) {
        struct hw_flame_node *n = &f->v.v[i];
        if (n->first_child == HW_ID_NONE || f->v.v[n->first_child].next_sibling == HW_ID_NONE)
            continue;
        hw_vec_clear(&kids);
        for (uint32_t c = n->first_child; c != HW_ID_NONE; c = f->v.v[c].next_sibling) {
            if (hw_vec_push(&kids, c) < 0) {
                hw_vec_done(&kids);
                return HW_ENOMEM;
            }
        }
        qsort_r(kids.v, kids.n, sizeof *kids.v, compare, o);
        n->first_child = kids.v[0];
        for (size_t k = 0; k < kids.n; k++)
            f->v.v[kids.v[k]].next_sibling = k + 1 < kids.n ? kids.v[k + 1] : HW_ID_NONE;
    }
    hw_vec_done(&kids);
    return HW_OK;
}

static int by_function(const void *a, const void *b, void *ctx)
{
    const struct hw_flame *f = ((const struct order *)ctx)->f;
    uint32_t x = f->v.v[*(const uint32_t *)a].function, y = f->v.v[*(const uint32_t *)b].function;
    return x < y ? -1 : x > y;
}

int hw_flame_sort(struct hw_flame *f, enum hw_metric by)
{
    struct order o = {f, by};
    return sort(f, by_total, &o);
}

int hw_flame_sort_stable(struct hw_flame *f)
{
    struct order o = {.f = f};
    return sort(f, by_function, &o);
}

/* Walks the tree without recursion; open[f] counts how often f is on the path to the root. */
static void add_totals(const struct hw_flame *f, uint32_t *open, hw_function_values *out)
{
    uint32_t at = f->v.v[0].first_child;
    while (at != HW_ID_NONE && at != 0) {
        const struct hw_flame_node *n = &f->v.v[at];
        struct hw_function_value *fv = &out->v[n->function];
        hw_value_add(&fv->self, hw_flame_self(f, at));
        if (open[n->function]++ == 0)
            hw_value_add(&fv->total, hw_flame_total(f, at));
        if (n->first_child != HW_ID_NONE) {
            at = n->first_child;
            continue;
        }
        while (at != 0) {
            n = &f->v.v[at];
            open[n->function]--;
            if (n->next_sibling != HW_ID_NONE) {
                at = n->next_sibling;
                break;
            }
            at = n->parent;
        }
    }
}

int hw_flame_by_function(const struct hw_flame *f, size_t n_functions, hw_function_values *out)
{
    hw_vec_clear(out);
    uint32_t *open = calloc(n_functions ? n_functions : 1, sizeof *open);
    if (!open || hw_vec_reserve(out, n_functions) < 0) {
        free(open);
        return HW_ENOMEM;
    }
    for (uint32_t i = 0; i < n_functions; i++)
        out->v[out->n++] = (struct hw_function_value){.function = i};
    add_totals(f, open, out);
    free(open);
    return HW_OK;
}
