/*
 * GET /api/v1/traces/ID/diff: two selections side by side (views/findings/diff.h); the table is in
 * pages_diff_table.c.
 *
 * Side B is the selection of the request, side A that of the same parameters with the prefix `a_`
 * and a_trace (none: the same trace). Also: mode (none = plain figures, share = of each side's
 * total, rate = per second of each side's time range), key=name (ignores the module).
 *
 * The graph (flame_block.h) has each side's figures times its factor in a and b. `self` and `cum`
 * are widths: a stack is as wide as its larger side, and a box as wide as the boxes on top of it,
 * so that widths are comparable across the graph. Errors are those of the change.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/graph/flame_block.h"
#include "server/api/graph/pages_diff.h"

#include "base/banned.h"

enum { ONLY_A = 16, ONLY_B = 32 }; /* flags of a node */

void hw_page_diff_done(struct hw_page_diff *q)
{
    for (int i = HW_PAGE_A; i < HW_PAGE_SIDES; i++) {
        hw_filter_matches_done(&q->side[i].matches);
        hw_vec_done(&q->side[i].values);
        hw_page_selection_done(&q->side[i].sel);
    }
    hw_diff_done(&q->diff);
}

/* ---- both sides ---- */

static void find_begin(struct hw_page_diff_side *s)
{
    const struct hw_process_view *v = hw_page_view(s->t, s->sel.upid);
    s->begin_ns = s->sel.has_from || !v ? s->sel.from_ns : v->start_ns;
}

static int open_side(struct hw_page_diff_side *s, struct hw_http_request *req, const char *prefix,
                     struct hw_error *err)
{
    int rc = hw_page_side_init(&s->sel, s->t, req, prefix, err);
    if (rc == HW_OK && hw_filters_have_pivot(&s->sel.filters))
        rc = hw_fail(err, HW_EINVAL, 0, "a diff takes no pivot; remove it");
    find_begin(s);
    if (rc == HW_OK)
        rc = hw_page_values(s->t, &s->sel, &s->values, err);
    s->namer = hw_page_namer(s->t);
    if (rc == HW_OK)
        rc = hw_filter_match(&s->sel.filters, s->t->profile->callsites, s->t->functions, &s->namer,
                             hw_page_program_shown(s->sel.program), &s->matches);
    return rc;
}

/* Are A and B dumps of one process, A first? Only then are A's samples part of B's. */
static bool is_same_run(const struct hw_page_diff_side *a, const struct hw_page_diff_side *b)
{
    return a->t == b->t && a->sel.upid.v == b->sel.upid.v &&
           strcmp(a->sel.heap, b->sel.heap) == 0 && a->sel.ts_ns <= b->sel.ts_ns &&
           !a->sel.at_max && !b->sel.at_max && !a->sel.has_from && !b->sel.has_from;
}

double hw_page_diff_seconds(const struct hw_page_diff_side *s)
{
    return (double)hw_sat_sub(s->sel.ts_ns, s->begin_ns) / 1e9;
}

static int set_mode(struct hw_page_diff *q, const char *mode, struct hw_error *err)
{
    const struct hw_diff_value *all = &q->diff.nodes.v[0].total;
    double a = 1, b = 1;
    if (!mode || !*mode)
        return HW_OK;
    if (strcmp(mode, "share") == 0) {
        a = hw_diff_side_a(&q->diff, all, q->metric);
        b = hw_diff_side_b(&q->diff, all, q->metric);
    } else if (strcmp(mode, "rate") == 0) {
        a = hw_page_diff_seconds(&q->side[HW_PAGE_A]);
        b = hw_page_diff_seconds(&q->side[HW_PAGE_B]);
        if (a <= 0 || b <= 0)
            return hw_fail(err, HW_EINVAL, 0,
                           "one side is a single moment, so there is no value per second");
    } else {
        return hw_fail(err, HW_EINVAL, 0, "unknown mode '%.40s'", mode);
    }
    hw_diff_scale(&q->diff, a > 0 ? 1 / a : 0, b > 0 ? 1 / b : 0);
    return HW_OK;
}

static int make(struct hw_page_diff *q, struct hw_http_request *req, struct hw_error *err)
{
    const char *frames = hw_http_query(req, "frames"), *key = hw_http_query(req, "key");
    struct hw_diff_side in[HW_PAGE_SIDES];
    unsigned flags = (frames && strcmp(frames, "all") == 0 ? HW_DIFF_ALL_FRAMES : 0) |
                     (key && strcmp(key, "name") == 0 ? HW_DIFF_BY_NAME : 0) |
                     (is_same_run(&q->side[HW_PAGE_A], &q->side[HW_PAGE_B]) ? HW_DIFF_SAME_RUN : 0);
    for (int i = HW_PAGE_A; i < HW_PAGE_SIDES; i++) {
        const struct hw_page_diff_side *s = &q->side[i];
        in[i] = (struct hw_diff_side){.p = s->t->profile,
                                      .fns = s->t->functions,
                                      .namer = &s->namer,
                                      .program = hw_page_program_shown(s->sel.program),
                                      .values = &s->values,
                                      .filters = s->sel.filters.n ? &s->matches : NULL,
                                      .interval_bytes = s->sel.interval_bytes};
    }
    q->metric = q->side[HW_PAGE_B].sel.metric;
    int rc = hw_diff_make(&in[HW_PAGE_A], &in[HW_PAGE_B], flags, &q->diff);
    return rc < 0 ? hw_fail(err, rc, 0, "difference:") : HW_OK;
}

/* False: the request was answered with an error. */
bool hw_page_diff_init(struct hw_page_diff *q, struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *base = hw_http_query(req, "a_trace");
    struct hw_error err = {0};
    *q = (struct hw_page_diff){.side = {{.t = t}, {.t = t}}};
    if (base && *base && !(q->side[HW_PAGE_A].t = hw_page_trace_get(t->pages, req, base)))
        return false;
    int rc = open_side(&q->side[HW_PAGE_B], req, "", &err);
    if (rc == HW_OK)
        rc = open_side(&q->side[HW_PAGE_A], req, "a_", &err);
    if (rc == HW_OK)
        rc = make(q, req, &err);
    if (rc == HW_OK)
        rc = set_mode(q, hw_http_query(req, "mode"), &err);
    if (rc == HW_OK)
        return true;
    hw_page_reply_error(req, &err, rc);
    hw_page_diff_done(q);
    return false;
}

/* ---- the graph ---- */

struct graph {
    const struct hw_page_diff *q;
    double *width, *self; /* by node of the diff */
    uint32_t *order;      /* nodes by parent, wide ones first */
    uint32_t *first;      /* by node: where its children begin in `order`; [n] = the end */
    double min;
    uint32_t max_depth;
    struct hw_flame_block block;
};

static void graph_done(struct graph *g)
{
    free(g->width);
    free(g->self);
    free(g->order);
    free(g->first);
    hw_flame_block_done(&g->block);
}

/* "all", then the name and the module of each function. */
static int put_texts(struct graph *g)
{
    const struct hw_diff *d = &g->q->diff;
    uint32_t id;
    int rc = hw_flame_block_text(&g->block, "all", 3, &id);
    for (size_t i = 0; rc == HW_OK && i < d->functions.n; i++) {
        struct hw_bytes name = hw_strings_get(d->strings, d->functions.v[i].name);
        struct hw_bytes module = hw_strings_get(d->strings, d->functions.v[i].module);
        rc = hw_flame_block_text(&g->block, name.p, name.n, &id);
        if (rc == HW_OK)
            rc = hw_flame_block_text(&g->block, module.p, module.n, &id);
    }
    return rc;
}

static void measure(struct graph *g)
{
    const struct hw_diff *d = &g->q->diff;
    for (size_t i = d->nodes.n; i-- > 0;) {
        const struct hw_diff_value *v = &d->nodes.v[i].self;
        g->self[i] =
            fmax(0, fmax(hw_diff_side_a(d, v, g->q->metric), hw_diff_side_b(d, v, g->q->metric)));
        g->width[i] += g->self[i];
        if (d->nodes.v[i].parent != HW_ID_NONE)
            g->width[d->nodes.v[i].parent] += g->width[i];
    }
}

static int by_parent_and_width(const void *pa, const void *pb, void *ctx)
{
    const struct graph *g = ctx;
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    uint32_t above_a = g->q->diff.nodes.v[a].parent, above_b = g->q->diff.nodes.v[b].parent;
    if (above_a != above_b)
        return above_a < above_b ? -1 : 1;
    if (g->width[a] > g->width[b] || g->width[a] < g->width[b])
        return g->width[a] > g->width[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int arrange(struct graph *g)
{
    size_t n = g->q->diff.nodes.n;
    g->width = calloc(n, sizeof *g->width);
    g->self = calloc(n, sizeof *g->self);
    g->order = calloc(n, sizeof *g->order);
    g->first = calloc(n + 1, sizeof *g->first);
    if (!g->width || !g->self || !g->order || !g->first)
        return HW_ENOMEM;
    measure(g);
    for (uint32_t i = 1; i < n; i++) { /* the root has no parent */
        g->order[i - 1] = i;
        g->first[g->q->diff.nodes.v[i].parent + 1]++;
    }
    for (size_t i = 0; i < n; i++)
        g->first[i + 1] += g->first[i];
    if (n > 2)
        qsort_r(g->order, n - 1, sizeof *g->order, by_parent_and_width, g);
    return HW_OK;
}

struct box {
    struct hw_diff_value total;
    double self, width;
    uint32_t name, module, depth;
    uint8_t flags;
};

static int put_box(struct graph *g, int32_t parent, const struct box *x)
{
    const struct hw_page_diff *q = g->q;
    double a = hw_diff_side_a(&q->diff, &x->total, q->metric);
    double b = hw_diff_side_b(&q->diff, &x->total, q->metric);
    int64_t samples = hw_sat_add(hw_value_samples(&x->total.a, q->metric),
                                 hw_value_samples(&x->total.b, q->metric));
    unsigned sides = (b <= 0 && a > 0 ? ONLY_A : 0) | (a <= 0 && b > 0 ? ONLY_B : 0);
    struct hw_flame_box box = {.parent = parent,
                               .depth = x->depth,
                               .name = x->name,
                               .module = x->module,
                               .flags = (uint8_t)(x->flags | sides),
                               .self = x->self,
                               .cum = x->width,
                               .samples = (double)samples,
                               .error = hw_diff_error(&q->diff, &x->total, q->metric),
                               .a = a,
                               .b = b};
    return hw_flame_block_put(&g->block, &box);
}

static int put_node(struct graph *g, uint32_t node, int32_t parent)
{
    const struct hw_diff_node *n = &g->q->diff.nodes.v[node];
    struct box x = {.total = n->total,
                    .self = g->self[node],
                    .width = g->width[node],
                    .depth = n->depth,
                    .name = node ? 1 + 2 * n->function : 0,
                    .module = node ? 2 + 2 * n->function : 0};
    return put_box(g, parent, &x);
}

/* Merges children [from, until), which are too small to be drawn one by one. */
static int put_merged(struct graph *g, uint32_t from, uint32_t until, int32_t parent)
{
    const struct hw_diff_node *nodes = g->q->diff.nodes.v;
    struct box x = {.flags = HW_FLAME_BOX_MERGED, .depth = nodes[g->order[from]].depth};
    char text[48];
    int len = snprintf(text, sizeof text, "(%u small ones)", until - from);
    for (uint32_t i = from; i < until; i++) {
        const struct hw_diff_value *v = &nodes[g->order[i]].total;
        hw_value_add(&x.total.a, &v->a);
        hw_value_add(&x.total.b, &v->b);
        x.total.variance += v->variance;
        x.total.variance_objects += v->variance_objects;
        x.width += g->width[g->order[i]];
    }
    x.self = x.width;
    int rc = hw_flame_block_text(&g->block, text, (size_t)len, &x.name);
    return rc < 0 ? rc : put_box(g, parent, &x);
}

struct open {
    uint32_t index, next, until; /* remaining children: [next, until) of `order` */
};

static int walk(struct graph *g)
{
    HW_VEC(struct open) open = {0};
    int rc = put_node(g, 0, -1);
    if (rc == HW_OK)
        rc = hw_vec_push(&open, (struct open){0, g->first[0], g->first[1]});
    while (rc == HW_OK && open.n) {
        struct open *top = &open.v[open.n - 1];
        uint32_t node = top->next < top->until ? g->order[top->next] : 0;
        int32_t parent = (int32_t)top->index;
        if (top->next == top->until || g->width[node] <= 0) {
            hw_flame_block_close(&g->block, top->index);
            open.n--;
        } else if (g->width[node] < g->min && top->until - top->next > 1) {
            rc = put_merged(g, top->next, top->until, parent);
            top->next = top->until;
        } else {
            top->next++;
            uint32_t index = (uint32_t)g->block.parent.n;
            rc = put_node(g, node, parent);
            if (rc == HW_OK)
                rc = hw_vec_push(&open, (struct open){index, g->first[node], g->first[node + 1]});
        }
    }
    hw_vec_done(&open);
    return rc;
}

static int write_out(const struct graph *g, struct hw_strbuf *out)
{
    const struct hw_page_selection *b = &g->q->side[HW_PAGE_B].sel;
    const struct hw_flame_head head = {.unfiltered = g->block.cum.v[0],
                                       .ts_ns = (double)b->ts_ns,
                                       .interval = (double)b->interval_bytes};
    return hw_flame_block_write(&g->block, &head, out);
}

/* The smallest share of the whole that gets a box of its own. */
static double smallest(struct hw_http_request *req, size_t n_nodes)
{
    const char *text = hw_http_query(req, "min_share");
    double share = text ? strtod(text, NULL) : 0;
    if (share > 0 && share < 1)
        return share;
    return n_nodes > HW_FLAME_BLOCK_MANY ? HW_FLAME_BLOCK_SMALL : 0;
}

void hw_page_diff(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_diff q;
    struct hw_strbuf bytes = {0};
    if (!hw_page_diff_init(&q, req, t))
        return;
    struct graph g = {.q = &q, .block = {.has_sides = true}};
    int rc = arrange(&g);
    if (rc == HW_OK)
        g.min = g.width[0] * smallest(req, q.diff.nodes.n);
    if (rc == HW_OK)
        rc = put_texts(&g);
    if (rc == HW_OK)
        rc = walk(&g);
    if (rc == HW_OK)
        rc = write_out(&g, &bytes);
    if (rc < 0)
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(rc));
    else
        hw_http_reply(req, HTTP_OK, "application/octet-stream", bytes.p, bytes.n);
    hw_strbuf_done(&bytes);
    graph_done(&g);
    hw_page_diff_done(&q);
}
