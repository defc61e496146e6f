/*
 * GET /api/v1/traces/ID/flame: a flamegraph as arrays.
 *
 * The bytes: flame_block.h.
 *
 * Nodes are in preorder, siblings by descending value, or with stable=1 in an order independent of
 * the selection. Siblings below min_share of the whole become one node "(N small ones)" with flag
 * MERGED. group=module or group=owner (of the allocating function), group=heap or group=process
 * adds a node for each group below the root, with flag GROUP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "server/api/graph/flame_block.h"
#include "server/api/pages_groups.h"
#include "server/api/pages_internal.h"
#include "views/flame/program.h"

#include "base/banned.h"

enum node_flags {
    NODE_ALLOCATOR = 2,
    NODE_STD = 4,
    NODE_UNNAMED = 8,
    NODE_GROUP = 64, /* 16, 32: pages_diff.c */
    NODE_OWN = 128   /* the program's own code */
};
struct arrays {
    struct hw_page_trace *t;
    const struct hw_page_selection *sel;
    const struct hw_flame *f;
    const char *group; /* the name of f's root; NULL: it is the root of all */
    double min;
    bool is_pruned; /* small nodes were already merged when the tree was built */
    struct hw_flame_block block;
    uint32_t *name_of, *module_of; /* by function: string + 1 */
    struct hw_map64 modules;       /* str_id → string */
};

static void arrays_done(struct arrays *a)
{
    hw_flame_block_done(&a->block);
    free(a->name_of);
    free(a->module_of);
    hw_map64_done(&a->modules);
}

static int module_text(struct arrays *a, hw_str_id module, uint32_t *out)
{
    uint64_t seen;
    if (hw_map64_get(&a->modules, (uint64_t)module.v + 1, &seen)) {
        *out = (uint32_t)seen;
        return HW_OK;
    }
    const char *path = hw_page_module(a->t, a->sel->program, module);
    int rc = hw_flame_block_text(&a->block, path, strlen(path), out);
    return rc == HW_OK ? hw_map64_put(&a->modules, (uint64_t)module.v + 1, *out) : rc;
}

static int function_texts(struct arrays *a, uint32_t function, uint32_t *name, uint32_t *module)
{
    if (!a->name_of[function]) {
        const char *label = hw_page_label(a->t, a->sel->program, function);
        int rc = hw_flame_block_text(&a->block, label, strlen(label), name);
        if (rc == HW_OK)
            rc = module_text(a, hw_function_where(hw_functions_get(a->t->functions, function)),
                             module);
        if (rc < 0)
            return rc;
        a->name_of[function] = *name + 1;
        a->module_of[function] = *module + 1;
    }
    *name = a->name_of[function] - 1;
    *module = a->module_of[function] - 1;
    return HW_OK;
}

struct figures {
    uint32_t name, module;
    uint8_t flags;
    uint32_t depth;
    struct hw_value self, total;
};

static int put(struct arrays *a, int32_t parent, const struct figures *g)
{
    enum hw_metric m = a->sel->metric;
    struct hw_flame_box x = {.parent = parent,
                             .depth = g->depth,
                             .name = g->name,
                             .module = g->module,
                             .flags = g->flags,
                             .self = (double)hw_value_get(&g->self, m),
                             .cum = (double)hw_value_get(&g->total, m),
                             .samples = (double)hw_value_samples(&g->total, m),
                             .error = hw_value_error(&g->total, m, a->sel->interval_bytes)};
    if (a->block.has_shown)
        x.shown = hw_figure_error(&g->total, m, a->sel->interval_bytes);
    return hw_flame_block_put(&a->block, &x);
}

/* A merged node for one node, or (all) for this sibling and the following, smaller ones. */
static int put_merged(struct arrays *a, uint32_t node, int32_t parent, bool all)
{
    struct figures g = {.flags = HW_FLAME_BOX_MERGED,
                        .depth = a->f->v.v[node].depth + (a->group != NULL)};
    char text[48];
    unsigned n = 0;
    for (; node != HW_ID_NONE; node = all ? a->f->v.v[node].next_sibling : HW_ID_NONE) {
        uint32_t merged = hw_flame_merged_count(a->f, node);
        n += merged ? merged : 1;
        hw_value_add(&g.total, hw_flame_total(a->f, node));
    }
    g.self = g.total;
    int len = snprintf(text, sizeof text, n == 1 ? "(1 small one)" : "(%u small ones)", n);
    int rc = hw_flame_block_text(&a->block, text, (size_t)len, &g.name);
    return rc < 0 ? rc : put(a, parent, &g);
}

static uint8_t flags_of(const struct arrays *a, const struct hw_function *fn)
{
    unsigned flags = fn->name.v == 0 ? NODE_UNNAMED : 0;
    switch (hw_function_owner_of(hw_page_program_shown(a->sel->program), a->t->profile->callsites,
                                 fn)) {
    case HW_OWNER_PROGRAM:
        flags |= NODE_OWN;
        break;
    case HW_OWNER_RUNTIME:
        flags |= fn->kind == HW_FUNCTION_ALLOCATOR ? NODE_ALLOCATOR : NODE_STD;
        break;
    case HW_OWNER_LIBRARY:
    case HW_OWNER_COUNT:
        break;
    }
    return (uint8_t)flags;
}

static int put_node(struct arrays *a, uint32_t node, int32_t parent)
{
    const struct hw_flame_node *n = &a->f->v.v[node];
    if (n->function == HW_FLAME_MERGED)
        return put_merged(a, node, parent, /* all = */ false);
    struct figures g = {.depth = n->depth + (a->group != NULL),
                        .self = *hw_flame_self(a->f, node),
                        .total = *hw_flame_total(a->f, node)};
    if (n->function == HW_ID_NONE && a->group) {
        g.flags = NODE_GROUP;
        int bad = hw_flame_block_text(&a->block, a->group, strlen(a->group), &g.name);
        return bad < 0 ? bad : put(a, parent, &g);
    }
    if (n->function == HW_ID_NONE)
        return put(a, parent, &g); /* string 0: "all" */
    const struct hw_function *fn = hw_functions_get(a->t->functions, n->function);
    g.flags = flags_of(a, fn);
    int rc = function_texts(a, n->function, &g.name, &g.module);
    return rc < 0 ? rc : put(a, parent, &g);
}

struct open {
    uint32_t node, index;
    uint32_t n_small; /* stable: children merged so far, and their sum */
    struct hw_value small;
};

static bool is_small(const struct arrays *a, uint32_t node, double value)
{
    return value < a->min && a->f->v.v[node].next_sibling != HW_ID_NONE;
}

/* In the stable order small nodes are scattered: the merged one follows the others. */
static int put_merged_small(struct arrays *a, const struct open *o)
{
    struct figures g = {.flags = HW_FLAME_BOX_MERGED,
                        .depth = a->f->v.v[o->node].depth + 1 + (a->group != NULL),
                        .self = o->small,
                        .total = o->small};
    char text[48];
    int len = snprintf(text, sizeof text, o->n_small == 1 ? "(1 small one)" : "(%u small ones)",
                       o->n_small);
    int rc = hw_flame_block_text(&a->block, text, (size_t)len, &g.name);
    return rc < 0 ? rc : put(a, (int32_t)o->index, &g);
}

/* Without recursion: stacks may be thousands of frames deep. */
static int walk(struct arrays *a, int32_t parent)
{
    HW_VEC(struct open) open = {0}; /* the ancestors of `next` */
    uint32_t next = a->f->v.v[0].first_child;
    bool stable = a->sel->flags & HW_PAGE_STABLE;
    uint32_t first = (uint32_t)a->block.parent.n;
    int rc = put_node(a, 0, parent);
    if (rc == HW_OK)
        rc = hw_vec_push(&open, (struct open){.index = first});
    while (rc == HW_OK && open.n) {
        struct open *top = &open.v[open.n - 1];
        double value = next == HW_ID_NONE
                           ? 0
                           : (double)hw_value_get(hw_flame_total(a->f, next), a->sel->metric);
        if (next != HW_ID_NONE && a->f->v.v[next].function == HW_FLAME_MERGED && a->is_pruned) {
            rc = put_merged(a, next, (int32_t)top->index, /* all = */ false);
            next = a->f->v.v[next].next_sibling;
        } else if (stable && next != HW_ID_NONE && value < a->min) {
            top->n_small += value > 0;
            hw_value_add(&top->small, hw_flame_total(a->f, next));
            next = a->f->v.v[next].next_sibling;
        } else if (stable && next != HW_ID_NONE && value <= 0) {
            next = a->f->v.v[next].next_sibling;
        } else if (value <= 0) { /* no sibling left with a value in this metric */
            if (top->n_small)
                rc = put_merged_small(a, top);
            hw_flame_block_close(&a->block, top->index);
            next = a->f->v.v[top->node].next_sibling;
            open.n--;
        } else if (!stable && is_small(a, next, value)) {
            rc = put_merged(a, next, (int32_t)top->index, /* all = */ true);
            next = HW_ID_NONE;
        } else {
            uint32_t index = (uint32_t)a->block.parent.n;
            rc = put_node(a, next, (int32_t)top->index);
            if (rc == HW_OK)
                rc = hw_vec_push(&open, (struct open){.node = next, .index = index});
            next = a->f->v.v[next].first_child;
        }
    }
    hw_vec_done(&open);
    return rc;
}

/* ---- groups of callstacks ---- */

/* A root over the groups' roots. */
static int put_root(struct arrays *a, const hw_page_parts *p)
{
    struct figures all = {0};
    for (size_t i = 0; i < p->n; i++) {
        hw_value_add(&all.self, hw_flame_self(&p->v[i].flame, 0));
        hw_value_add(&all.total, hw_flame_total(&p->v[i].flame, 0));
    }
    all.self = (struct hw_value){0};
    return put(a, -1, &all);
}

static int walk_parts(struct arrays *a, const hw_page_parts *p)
{
    bool grouped = p->n != 1 || p->v[0].name;
    int rc = grouped ? put_root(a, p) : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < p->n; i++) {
        a->f = &p->v[i].flame;
        a->group = p->v[i].name;
        if (!grouped || hw_value_get(hw_flame_total(a->f, 0), a->sel->metric) > 0)
            rc = walk(a, grouped ? 0 : -1);
    }
    if (rc == HW_OK && grouped)
        hw_flame_block_close(&a->block, 0);
    return rc;
}

static int fill(struct arrays *a, const hw_page_parts *p, double unfiltered, struct hw_strbuf *b)
{
    static const char all[] = "all";
    uint32_t zero;
    a->block.has_shown = !hw_metric_is_bytes(a->sel->metric) && a->sel->interval_bytes > 1;
    a->name_of = calloc(a->t->n_labels + 1, sizeof *a->name_of);
    a->module_of = calloc(a->t->n_labels + 1, sizeof *a->module_of);
    if (!a->name_of || !a->module_of)
        return HW_ENOMEM;
    int rc = hw_flame_block_text(&a->block, all, sizeof all - 1, &zero);
    if (rc == HW_OK)
        rc = walk_parts(a, p);
    const struct hw_flame_head head = {.flags = a->sel->flags,
                                       .unfiltered = unfiltered,
                                       .ts_ns = (double)a->sel->ts_ns,
                                       .interval = (double)a->sel->interval_bytes};
    return rc < 0 ? rc : hw_flame_block_write(&a->block, &head, b);
}

/* ---- figures ---- */

static double sum_of(const hw_values *values, enum hw_metric m)
{
    int64_t sum = 0;
    for (size_t i = 0; i < values->n; i++)
        sum = hw_sat_add(sum, hw_value_get(&values->v[i].v, m));
    return (double)sum;
}

int hw_page_flame_build(struct hw_page_trace *t, const struct hw_page_selection *s,
                        const hw_values *values, bool callers, double share, struct hw_flame *out,
                        struct hw_error *err)
{
    struct hw_filter_matches matches = {0};
    struct hw_namer namer = hw_page_namer(t);
    struct hw_flame_input q = {.cs = t->profile->callsites,
                               .fns = t->functions,
                               .values = values,
                               .flags = hw_page_flame_flags(s)};
    bool pivot = hw_filters_have_pivot(&s->filters);
    if (callers && !pivot)
        return hw_fail(err, HW_EINVAL, 0, "part=callers needs a pivot among the filters");
    if (s->flags & HW_PAGE_INVERT && !pivot)
        q.flags |= HW_FLAME_INVERTED;
    int rc = hw_filter_match(&s->filters, q.cs, t->functions, &namer,
                             hw_page_program_shown(s->program), &matches);
    if (s->filters.n)
        q.filters = &matches;
    if (rc == HW_OK && pivot) {
        struct hw_flame other = {0};
        rc = callers ? hw_flame_pivot(&q, &other, out) : hw_flame_pivot(&q, out, &other);
        hw_flame_done(&other);
    } else if (rc == HW_OK) {
        rc = q.flags & HW_FLAME_INVERTED && share > 0 ? hw_flame_invert(&q, share, s->metric, out)
                                                      : hw_flame_build_with(&q, out);
    }
    if (rc == HW_OK)
        rc = s->flags & HW_PAGE_STABLE ? hw_flame_sort_stable(out) : hw_flame_sort(out, s->metric);
    hw_filter_matches_done(&matches);
    return rc < 0 ? hw_fail(err, rc, 0, "flamegraph:") : HW_OK;
}

static double min_share_of(struct hw_http_request *req)
{
    const char *text = hw_http_query(req, "min_share");
    double v = text ? strtod(text, NULL) : 0;
    return v > 0 && v < 1 ? v : 0;
}

/* ---- groups ---- */

static int by_total(const void *pa, const void *pb, void *ctx)
{
    const struct hw_page_part *a = pa, *b = pb;
    enum hw_metric m = *(const enum hw_metric *)ctx;
    int64_t x = hw_value_get(hw_flame_total(&a->flame, 0), m);
    int64_t y = hw_value_get(hw_flame_total(&b->flame, 0), m);
    return x != y ? (x < y ? 1 : -1) : strcmp(a->name, b->name);
}

static int by_name(const void *pa, const void *pb)
{
    return strcmp(((const struct hw_page_part *)pa)->name, ((const struct hw_page_part *)pb)->name);
}

/* Checked between steps: stops if the client has disconnected. */
static int check_client(struct hw_http_request *req)
{
    return hw_http_gone(req) ? HW_EGONE : HW_OK;
}

static int make_parts(struct hw_http_request *req, struct hw_page_trace *t,
                      const struct hw_page_selection *s, hw_values *values, hw_page_parts *out,
                      struct hw_error *err)
{
    const char *group = hw_http_query(req, "group"), *part = hw_http_query(req, "part");
    bool callers = part && strcmp(part, "callers") == 0;
    int rc = hw_page_parts_by(group, t, s, values, out, err);
    for (size_t i = 0; rc == HW_OK && i < out->n; i++) {
        rc = check_client(req);
        if (rc == HW_OK)
            rc = hw_page_flame_build(t, s, &out->v[i].values, callers, min_share_of(req),
                                     &out->v[i].flame, err);
    }
    enum hw_metric m = s->metric;
    if (rc == HW_OK && out->n > 1 && s->flags & HW_PAGE_STABLE)
        qsort(out->v, out->n, sizeof *out->v, by_name);
    else if (rc == HW_OK && out->n > 1)
        qsort_r(out->v, out->n, sizeof *out->v, by_total, &m);
    return rc < 0 && err->code == 0 ? hw_fail(err, rc, 0, "groups:") : rc;
}

/* The total without any filters, including those on heaps. */
static int sum_unfiltered(const struct hw_page_trace *t, const struct hw_page_selection *s,
                          const hw_values *values, double *out, struct hw_error *err)
{
    struct hw_page_selection whole = *s;
    hw_values all = {0};
    *out = sum_of(values, s->metric);
    if (!hw_filters_have_heap(&s->filters))
        return HW_OK;
    whole.filters = (hw_filters){0};
    int rc = hw_page_values(t, &whole, &all, err);
    *out = sum_of(&all, s->metric);
    hw_vec_done(&all);
    return rc;
}

static int reply_parts(struct hw_http_request *req, struct hw_page_trace *t,
                       const struct hw_page_selection *s, const hw_page_parts *p, bool is_pruned,
                       double unfiltered)
{
    struct hw_strbuf bytes = {0};
    struct arrays a = {.t = t, .sel = s, .is_pruned = is_pruned};
    double share = is_pruned ? 0 : min_share_of(req), total = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        n += p->v[i].flame.v.n;
        total += (double)hw_value_get(hw_flame_total(&p->v[i].flame, 0), s->metric);
    }
    if (share == 0 && n > HW_FLAME_BLOCK_MANY && !is_pruned)
        share = HW_FLAME_BLOCK_SMALL;
    a.min = total * share;
    int rc = fill(&a, p, unfiltered, &bytes);
    arrays_done(&a);
    if (rc == HW_OK)
        hw_http_reply(req, HTTP_OK, "application/octet-stream", bytes.p, bytes.n);
    hw_strbuf_done(&bytes);
    return rc;
}

static bool is_given(struct hw_http_request *req, const char *name)
{
    const char *text = hw_http_query(req, name);
    return text && *text;
}

/* Replies from a cached window. HW_ELIMIT: windows do not support this request. */
static int reply_from_window(struct hw_http_request *req, struct hw_page_trace *t,
                             const struct hw_page_selection *s)
{
    const char *filters = hw_http_query(req, "filters");
    struct hw_page_part whole = {0};
    const hw_page_parts one = {&whole, 1, 1};
    int64_t unfiltered = 0;
    if (!hw_page_flame_windows_can(t, s) || is_given(req, "group") || is_given(req, "part"))
        return HW_ELIMIT;
    int rc = hw_page_flame_windows_move(t, s, filters ? filters : "", min_share_of(req),
                                        &whole.flame, &unfiltered);
    if (rc == HW_OK)
        rc = reply_parts(req, t, s, &one, /* is_pruned = */ true, (double)unfiltered);
    hw_flame_done(&whole.flame);
    return rc;
}

static int reply_built(struct hw_http_request *req, struct hw_page_trace *t,
                       const struct hw_page_selection *s, struct hw_error *err)
{
    hw_values values = {0};
    hw_page_parts made = {0};
    double unfiltered = 0;
    int rc = hw_page_values(t, s, &values, err);
    if (rc == HW_OK)
        rc = sum_unfiltered(t, s, &values, &unfiltered, err);
    if (rc == HW_OK)
        rc = make_parts(req, t, s, &values, &made, err);
    if (rc == HW_OK)
        rc = check_client(req);
    if (rc == HW_OK)
        rc = reply_parts(req, t, s, &made, /* is_pruned = */ false, unfiltered);
    hw_page_parts_done(&made);
    hw_vec_done(&values);
    return rc;
}

void hw_page_flame(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_selection sel;
    struct hw_error err = {0};
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK) {
        rc = reply_from_window(req, t, &sel);
        if (rc == HW_ELIMIT)
            rc = reply_built(req, t, &sel, &err);
    }
    if (rc < 0)
        hw_page_reply_error(req, &err, rc);
    hw_page_selection_done(&sel);
}
