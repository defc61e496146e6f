#include "views/flame.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/map64.h"

#include "base/banned.h"

struct build {
    const struct hw_callsites *cs;
    const struct hw_functions *fns;
    struct hw_flame *out;
    struct hw_map64 children; /* parent << 32 | function → node */
    uint32_t *node_of;        /* top-down: by callsite, node + 1 */
    HW_VEC(uint32_t) path;
};

static int node_new(struct hw_flame *f, uint32_t parent, uint32_t function, uint32_t *out)
{
    if (f->v.n >= HW_ID_NONE)
        return HW_ELIMIT;
    struct hw_flame_node n = {.parent = parent,
                              .first_child = HW_ID_NONE,
                              .next_sibling = HW_ID_NONE,
                              .function = function};
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

static int child_get(struct build *b, uint32_t parent, uint32_t function, uint32_t *out)
{
    uint64_t key = (uint64_t)parent << 32 | function, found;
    if (hw_map64_get(&b->children, key, &found)) {
        *out = (uint32_t)found;
        return HW_OK;
    }
    int rc = node_new(b->out, parent, function, out);
    return rc < 0 ? rc : hw_map64_put(&b->children, key, *out);
}

/* The functions of a callsite's frame, outermost first. */
static const struct hw_function_at *chain_at(const struct build *b, uint32_t callsite, size_t *n)
{
    return hw_functions_chain(b->fns, hw_callsites_get(b->cs, (hw_callsite_id){callsite})->frame,
                              n);
}

/* The callsites from `leaf` up to the root, or (stop_known) up to one that has its node already. */
static int collect(struct build *b, uint32_t leaf, bool stop_known)
{
    hw_vec_clear(&b->path);
    for (uint32_t c = leaf; c != HW_ID_NONE;
         c = hw_callsites_get(b->cs, (hw_callsite_id){c})->parent.v) {
        if (stop_known && b->node_of[c])
            break;
        if (hw_vec_push(&b->path, c) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int node_top_down(struct build *b, uint32_t leaf, uint32_t *out)
{
    int rc = collect(b, leaf, /* stop_known = */ true);
    if (rc < 0)
        return rc;
    uint32_t node = 0;
    if (b->path.n == 0) {
        *out = b->node_of[leaf] - 1;
        return HW_OK;
    }
    uint32_t above = hw_callsites_get(b->cs, (hw_callsite_id){b->path.v[b->path.n - 1]})->parent.v;
    if (above != HW_ID_NONE)
        node = b->node_of[above] - 1;
    for (size_t i = b->path.n; i-- > 0;) {
        size_t n;
        const struct hw_function_at *chain = chain_at(b, b->path.v[i], &n);
        for (size_t k = 0; rc == 0 && k < n; k++)
            rc = child_get(b, node, chain[k].function, &node);
        if (rc < 0)
            return rc;
        b->node_of[b->path.v[i]] = node + 1;
    }
    *out = node;
    return HW_OK;
}

/* Only the first `depth` functions of the leaf's frame count: those inlined below its site do not.
 */
static int node_inverted(struct build *b, uint32_t leaf, size_t depth, uint32_t *out)
{
    int rc = collect(b, leaf, /* stop_known = */ false);
    uint32_t node = 0;
    for (size_t i = 0; rc == 0 && i < b->path.n; i++) {
        size_t n;
        const struct hw_function_at *chain = chain_at(b, b->path.v[i], &n);
        for (size_t k = i == 0 && depth < n ? depth : n; rc == 0 && k-- > 0;)
            rc = child_get(b, node, chain[k].function, &node);
    }
    *out = node;
    return rc;
}

/* The node of a whole frame is that of its innermost function; a site may stand further out. */
static int node_of_stack(struct build *b, hw_callsite_id leaf, unsigned flags, uint32_t *out)
{
    size_t n, depth = SIZE_MAX;
    if (flags & HW_FLAME_SITES) {
        (void)hw_functions_site_at(b->fns, leaf, &depth); /* only how deep */
        leaf = hw_functions_site_callsite(b->fns, leaf);
    }
    if (flags & HW_FLAME_INVERTED)
        return node_inverted(b, leaf.v, depth, out);
    (void)chain_at(b, leaf.v, &n); /* only how long */
    if (depth >= n)
        return node_top_down(b, leaf.v, out);
    hw_callsite_id parent = hw_callsites_get(b->cs, leaf)->parent;
    uint32_t node = 0;
    int rc = parent.v == HW_ID_NONE ? HW_OK : node_top_down(b, parent.v, &node);
    const struct hw_function_at *chain = chain_at(b, leaf.v, &n);
    for (size_t k = 0; rc == 0 && k < depth; k++)
        rc = child_get(b, node, chain[k].function, &node);
    *out = node;
    return rc;
}

static bool is_zero(const struct hw_value *v)
{
    return !v->space && !v->objects && !v->alloc_space && !v->alloc_objects && !v->alloc_samples;
}

/* Children stand behind their parents, so one pass from the end sums the tree. */
static void sum_up(struct hw_flame *f)
{
    for (size_t i = f->v.n; i-- > 0;) {
        struct hw_flame_node *n = &f->v.v[i];
        hw_value_add(&n->total, &n->self);
        if (n->parent != HW_ID_NONE)
            hw_value_add(&f->v.v[n->parent].total, &n->total);
    }
}

int hw_flame_build(const struct hw_callsites *cs, const struct hw_functions *fns,
                   const hw_values *values, unsigned flags, struct hw_flame *out)
{
    *out = (struct hw_flame){0};
    struct build b = {.cs = cs, .fns = fns, .out = out};
    uint32_t node;
    int rc = node_new(out, HW_ID_NONE, HW_ID_NONE, &node);
    size_t n = hw_callsites_count(cs);
    b.node_of = calloc(n ? n : 1, sizeof *b.node_of);
    if (!b.node_of)
        rc = HW_ENOMEM;
    for (size_t i = 0; rc == 0 && i < values->n; i++) {
        const struct hw_callsite_value *cv = &values->v[i];
        if (is_zero(&cv->v))
            continue;
        rc = node_of_stack(&b, cv->callsite, flags, &node);
        if (rc == 0)
            hw_value_add(&out->v.v[node].self, &cv->v);
    }
    free(b.node_of);
    hw_vec_done(&b.path);
    hw_map64_done(&b.children);
    if (rc < 0) {
        hw_flame_done(out);
        return rc;
    }
    sum_up(out);
    return HW_OK;
}

void hw_flame_done(struct hw_flame *f)
{
    hw_vec_done(&f->v);
}

struct order {
    const struct hw_flame *f;
    enum hw_metric by;
};

static int by_total(const void *a, const void *b, void *ctx)
{
    const struct order *o = ctx;
    const struct hw_flame_node *x = &o->f->v.v[*(const uint32_t *)a];
    const struct hw_flame_node *y = &o->f->v.v[*(const uint32_t *)b];
    int64_t vx = hw_value_get(&x->total, o->by), vy = hw_value_get(&y->total, o->by);
    if (vx != vy)
        return vx > vy ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

int hw_flame_sort(struct hw_flame *f, enum hw_metric by)
{
    struct order o = {f, by};
    HW_VEC(uint32_t) kids = {0};
    for (size_t i = 0; i < f->v.n; i++) {
        struct hw_flame_node *n = &f->v.v[i];
        hw_vec_clear(&kids);
        for (uint32_t c = n->first_child; c != HW_ID_NONE; c = f->v.v[c].next_sibling) {
            if (hw_vec_push(&kids, c) < 0) {
                hw_vec_done(&kids);
                return HW_ENOMEM;
            }
        }
        if (kids.n < 2)
            continue;
        qsort_r(kids.v, kids.n, sizeof *kids.v, by_total, &o);
        n->first_child = kids.v[0];
        for (size_t k = 0; k < kids.n; k++)
            f->v.v[kids.v[k]].next_sibling = k + 1 < kids.n ? kids.v[k + 1] : HW_ID_NONE;
    }
    hw_vec_done(&kids);
    return HW_OK;
}

/* Walks the tree without recursion; open[f] counts how often f stands on the path to the root. */
static void add_totals(const struct hw_flame *f, uint32_t *open, hw_function_values *out)
{
    uint32_t at = f->v.v[0].first_child;
    while (at != HW_ID_NONE && at != 0) {
        const struct hw_flame_node *n = &f->v.v[at];
        struct hw_function_value *fv = &out->v[n->function];
        hw_value_add(&fv->self, &n->self);
        if (open[n->function]++ == 0)
            hw_value_add(&fv->total, &n->total);
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
