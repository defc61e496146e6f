#include "views/findings/leaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "views/stack_mask.h"

#include "base/banned.h"

enum { SPLIT_PARTS = 10, MIN_SAMPLES = 10 };

struct find {
    const struct hw_leaks_query *q;
    struct hw_leaks *out;
    hw_values last;          /* at the last moment */
    uint32_t *node_of_value; /* of last */
    double *node_growth;     /* by node: growth of its growing stacks, with all below */
    uint32_t *site_of_node;  /* by node: the node that is its site */
    uint8_t *managed;        /* by node: below a managed function, or one */
    uint32_t *row_of;        /* by callsite: row + 1 */
    struct old {             /* by row: until cut_s, and freed_since */
        double allocated, live;
        double freed_since;
    } * old;
    double *turnover; /* as hw_leaks.history: bytes allocated and freed until then */
    double cut_s;     /* when the last third begins */
};

/* ---- moments ---- */

/* Not a maximum, nor the time of a heap's dump that is not among the totals. */
static bool is_point(const struct hw_process_moment *m)
{
    return m->is_dump && !m->is_peak;
}

/* A program that ended has freed some of its memory: its last dump, and others made while it was
 * cleaning up, say nothing about leaks. */
static size_t moments_of_interest(const struct hw_process_view *v)
{
    const struct hw_process_moment *m = v->moments.v;
    size_t n = v->moments.n, n_dumps = 0;
    int64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        n_dumps += is_point(&m[i]);
        if (m[i].total.space > most)
            most = m[i].total.space;
    }
    for (bool first = true; v->ended && n_dumps > 1; first = false) {
        while (!is_point(&m[n - 1]))
            n--;
        bool fell = first && m[n - 1].total.space < m[n - 2].total.space;
        if (!fell && m[n - 1].total.space >= most / 2)
            break;
        n--;
        n_dumps--;
    }
    return n;
}

static int pick_moments(struct find *f)
{
    const struct hw_process_view *v = f->q->view;
    struct hw_leaks *l = f->out;
    size_t n = moments_of_interest(v);
    for (size_t i = 0; i < n; i++) {
        const struct hw_process_moment *m = &v->moments.v[i];
        if (!is_point(m))
            continue;
        if (l->ts_ns.n == 0)
            l->total_first = (double)m->total.space;
        l->total = m->total;
        if (hw_vec_push(&l->ts_ns, m->ts_ns) < 0 ||
            hw_vec_push(&l->t, (double)hw_sat_sub(m->ts_ns, l->ts_ns.v[0]) / 1e9) < 0)
            return HW_ENOMEM;
    }
    if (l->t.n)
        f->cut_s = l->t.v[l->t.n - 1] * 2 / 3;
    return HW_OK;
}

/* ---- sites ---- */

static bool keeps(const void *ctx, const struct hw_profile *p, const struct hw_series *s)
{
    (void)p;
    return hw_stack_mask_keeps_heap(ctx, s);
}

/* The process's values at a moment that the mask keeps. */
static int values_at(const struct hw_leaks_query *q, int64_t ts_ns, hw_values *out)
{
    int rc = hw_process_values_of(q->p, q->list, q->view->upid, ts_ns, /* at_max = */ false, keeps,
                                  q->mask, out);
    if (rc == HW_OK) {
        hw_stack_mask_apply(q->mask, out);
        rc = hw_stack_mask_error(q->mask);
    }
    return rc;
}

static struct hw_value sum_of(const hw_values *values)
{
    struct hw_value sum = {0};
    for (size_t i = 0; i < values->n; i++)
        hw_value_add(&sum, &values->v[i].v);
    return sum;
}

static int make_tree(struct find *f)
{
    const struct hw_leaks_query *q = f->q;
    struct hw_leaks *l = f->out;
    int rc = HW_OK;
    if (l->ts_ns.n)
        rc = values_at(q, l->ts_ns.v[l->ts_ns.n - 1], &f->last);
    if (rc < 0)
        return rc;
    if (q->mask)
        l->total = sum_of(&f->last);
    f->node_of_value = calloc(f->last.n + 1, sizeof *f->node_of_value);
    if (!f->node_of_value)
        return HW_ENOMEM;
    struct hw_flame_input input = {.cs = q->p->callsites,
                                   .fns = q->fns,
                                   .values = &f->last,
                                   .flags = HW_FLAME_SITES,
                                   .node_of_value = f->node_of_value};
    return hw_flame_build_with(&input, &l->tree);
}

/* first: the values at the first moment; both are sorted by callsite. */
static void add_growth(struct find *f, const hw_values *first)
{
    size_t at = 0;
    for (size_t i = 0; i < f->last.n; i++) {
        uint32_t node = f->node_of_value[i];
        while (at < first->n && first->v[at].callsite.v < f->last.v[i].callsite.v)
            at++;
        double before = at < first->n && first->v[at].callsite.v == f->last.v[i].callsite.v
                            ? (double)first->v[at].v.space
                            : 0;
        if (node != HW_ID_NONE)
            f->node_growth[node] += (double)f->last.v[i].v.space - before;
    }
    for (size_t i = f->out->tree.v.n; i-- > 1;) {
        f->node_growth[i] =
            fmax(f->node_growth[i], 0); /* with its children, which are never negative */
        f->node_growth[f->out->tree.v.v[i].parent] += f->node_growth[i];
    }
}

static bool is_rough(const struct hw_value *v, uint64_t interval)
{
    double error = hw_value_error(v, HW_METRIC_SPACE, interval);
    return v->samples < MIN_SAMPLES && error > 0.3 * fabs((double)v->space);
}

/* What an interpreter does between two functions that it runs is no site: who called it is. */
static bool is_between(const struct find *f, uint32_t node)
{
    const struct hw_flame_node *n = &f->out->tree.v.v[node];
    return f->managed[n->parent] &&
           hw_functions_get(f->q->fns, n->function)->language == HW_FUNCTION_RUNTIME;
}

static bool is_site(const struct find *f, uint32_t node)
{
    const struct hw_leaks *l = f->out;
    uint32_t parent = l->tree.v.v[node].parent;
    if (is_between(f, node))
        return false;
    while (parent && is_between(f, parent))
        parent = l->tree.v.v[parent].parent;
    const struct hw_value *v = hw_flame_total(&l->tree, node);
    const struct hw_value *above = hw_flame_total(&l->tree, parent);
    if (f->site_of_node[parent] != parent || v->space <= 0 || is_rough(v, l->interval_bytes))
        return false;
    return (f->node_growth[node] > 0 &&
            f->node_growth[node] * SPLIT_PARTS >= f->node_growth[parent]) ||
           (double)v->space * SPLIT_PARTS >= (double)above->space;
}

static int split(struct find *f)
{
    const struct hw_leaks_query *q = f->q;
    struct hw_leaks *l = f->out;
    size_t n = l->tree.v.n;
    hw_values first = {0};
    f->node_growth = calloc(n, sizeof *f->node_growth);
    f->site_of_node = calloc(n, sizeof *f->site_of_node);
    f->managed = hw_flame_managed_nodes(&l->tree, q->fns);
    if (!f->node_growth || !f->site_of_node || !f->managed)
        return HW_ENOMEM;
    int rc = HW_OK;
    if (l->ts_ns.n)
        rc = values_at(q, l->ts_ns.v[0], &first);
    if (q->mask)
        l->total_first = (double)sum_of(&first).space;
    if (rc == 0)
        add_growth(f, &first);
    hw_vec_done(&first);
    for (uint32_t i = 1; rc == 0 && i < n; i++)
        f->site_of_node[i] = is_site(f, i) ? i : f->site_of_node[l->tree.v.v[i].parent];
    return rc;
}

/* Makes rows for sites at which stacks end, and row_of for their callsites. */
static int make_rows(struct find *f)
{
    struct hw_leaks *l = f->out;
    size_t n = l->tree.v.n;
    uint32_t *row_of_node = calloc(n, sizeof *row_of_node);
    f->row_of = calloc(hw_callsites_count(f->q->p->callsites) + 1, sizeof *f->row_of);
    if (!row_of_node || !f->row_of) {
        free(row_of_node);
        return HW_ENOMEM;
    }
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < f->last.n; i++) {
        if (f->node_of_value[i] == HW_ID_NONE)
            continue;
        uint32_t site = f->site_of_node[f->node_of_value[i]];
        if (!row_of_node[site]) {
            if (hw_vec_push(&l->v, (struct hw_leak){.node = site}) < 0)
                rc = HW_ENOMEM;
            row_of_node[site] = (uint32_t)l->v.n;
        }
        f->row_of[f->last.v[i].callsite.v] = row_of_node[site];
        if (rc == 0)
            hw_value_add(&l->v.v[row_of_node[site] - 1].now, &f->last.v[i].v);
    }
    for (uint32_t i = 1; rc == 0 && i < n; i++) {
        uint32_t above = f->site_of_node[l->tree.v.v[i].parent];
        if (f->site_of_node[i] == i && row_of_node[above])
            l->v.v[row_of_node[above] - 1].rest = true;
    }
    free(row_of_node);
    return rc;
}

/* ---- history ---- */

/* sums: live bytes of all rows, then turnover of all rows */
static void add_row(struct find *f, const struct hw_alloc_row *r, double at_s, double *sums)
{
    uint32_t row = f->row_of[r->callsite.v];
    if (!row)
        return;
    struct old *old = &f->old[row - 1];
    double size = (double)r->size;
    sums[row - 1] += size;
    sums[f->out->v.n + row - 1] += fabs(size);
    if (at_s <= f->cut_s) {
        old->live += size;
        old->allocated += fmax(size, 0);
    } else {
        old->freed_since += fmax(-size, 0);
    }
}

static void add_series(struct find *f, const struct hw_series *s, double *sums)
{
    const struct hw_profile *p = f->q->p;
    struct hw_leaks *l = f->out;
    size_t next = 0;
    memset(sums, 0, 2 * l->v.n * sizeof *sums);
    for (size_t m = 0; m < l->ts_ns.n; m++) {
        for (; next < s->all.n && p->dumps.v[s->all.v[next]].ts_ns <= l->ts_ns.v[m]; next++) {
            size_t first, n;
            hw_profile_dump_rows(p, s->all.v[next], &first, &n);
            for (size_t i = first; i < first + n; i++) {
                struct hw_alloc_row r = hw_alloc_row_of(&p->allocs, s->all.v[next], i);
                add_row(f, &r, l->t.v[m], sums);
            }
        }
        for (size_t i = 0; i < l->v.n; i++) {
            l->history[i * l->t.n + m] += sums[i];
            f->turnover[i * l->t.n + m] += sums[l->v.n + i];
        }
    }
}

static int make_history(struct find *f)
{
    struct hw_leaks *l = f->out;
    hw_autofree double *sums = calloc(2 * l->v.n + 1, sizeof *sums);
    size_t cells;
    if (__builtin_mul_overflow(l->v.n, l->t.n, &cells))
        cells = SIZE_MAX / sizeof *l->history - 1; /* calloc will fail */
    l->history = calloc(cells + 1, sizeof *l->history);
    f->turnover = calloc(cells + 1, sizeof *f->turnover);
    f->old = calloc(l->v.n + 1, sizeof *f->old);
    if (!sums || !l->history || !f->turnover || !f->old)
        return HW_ENOMEM;
    enum hw_heap_kind kind =
        hw_process_kind(f->q->p, f->q->list, f->q->view->upid, keeps, f->q->mask);
    const struct hw_process_rows heaps = hw_series_of(f->q->list, f->q->view->upid);
    for (size_t i = 0; i < heaps.n; i++) {
        const struct hw_series *s = &f->q->list->v.v[heaps.v[i]];
        if (s->kind == kind && hw_stack_mask_keeps_heap(f->q->mask, s))
            add_series(f, s, sums);
    }
    return HW_OK;
}

/* ---- verdicts ---- */

static int decide(struct find *f, size_t row)
{
    struct hw_leaks *l = f->out;
    struct hw_leak *r = &l->v.v[row];
    const double *live = l->history + row * l->t.n;
    const struct old *old = &f->old[row];
    double allocated = (double)r->now.alloc_space;
    struct hw_trend_series series = {.t = l->t.v,
                                     .live = live,
                                     .turnover = f->turnover + row * l->t.n,
                                     .n = l->t.n,
                                     .step = hw_value_step(&r->now, l->interval_bytes),
                                     .alloc_space = allocated};
    for (size_t i = 1; i < l->t.n; i++)
        r->n_rises += live[i] > live[i - 1];
    r->grown = live[l->t.n - 1] - live[0];
    if (allocated > 0)
        r->freed_ratio = fmax(0, 1 - (double)r->now.space / allocated);
    r->survival = r->survival_most = -1;
    if (old->allocated > 0) {
        r->survival = fmax(0, old->live - old->freed_since) / old->allocated;
        r->survival_most = fmax(0, fmin(old->live, (double)r->now.space)) / old->allocated;
    }
    int rc = hw_trend_of(&series, &r->trend);
    bool rough = series.step > 0 && r->now.samples < MIN_SAMPLES;
    if (rc == 0)
        r->verdict = hw_leak_verdict_of(r, l->t.n, rough);
    return rc;
}

/* ---- known leaks ---- */

static bool is_suppressed(const struct find *f, uint32_t node, struct hw_strbuf *text)
{
    const struct hw_leaks_query *q = f->q;
    for (; node != 0; node = f->out->tree.v.v[node].parent) {
        const struct hw_function *fn = hw_functions_get(q->fns, f->out->tree.v.v[node].function);
        hw_strbuf_clear(text);
        hw_function_label(text, q->p->callsites, fn, q->namer);
        if (text->n && hw_suppressions_match(q->suppressions, text->p))
            return true;
        hw_strbuf_clear(text);
        hw_function_module(text, q->p->callsites, fn);
        if (text->n && hw_suppressions_match(q->suppressions, text->p))
            return true;
    }
    return false;
}

static int drop_suppressed(struct find *f)
{
    struct hw_leaks *l = f->out;
    struct hw_strbuf text = {0};
    size_t kept = 0;
    if (!f->q->suppressions || f->q->suppressions->v.n == 0)
        return HW_OK;
    for (size_t i = 0; i < l->v.n; i++) {
        if (is_suppressed(f, l->v.v[i].node, &text)) {
            l->suppressed_space = hw_sat_add(l->suppressed_space, l->v.v[i].now.space);
            l->n_suppressed++;
            continue;
        }
        memmove(l->history + kept * l->t.n, l->history + i * l->t.n, l->t.n * sizeof *l->history);
        l->v.v[kept++] = l->v.v[i];
    }
    l->v.n = kept;
    bool failed = text.failed;
    hw_strbuf_done(&text);
    return failed ? HW_ENOMEM : HW_OK;
}

/* ---- order ---- */

static int by_rank(const void *a, const void *b, void *ctx)
{
    const struct hw_leak *rows = ctx, *x = &rows[*(const uint32_t *)a];
    const struct hw_leak *y = &rows[*(const uint32_t *)b];
    if (x->verdict != y->verdict)
        return x->verdict < y->verdict ? -1 : 1;
    if (x->grown > y->grown || x->grown < y->grown)
        return x->grown > y->grown ? -1 : 1;
    if (x->now.space != y->now.space)
        return x->now.space > y->now.space ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int rank(struct hw_leaks *l)
{
    size_t n = l->v.n;
    uint32_t *order = calloc(n + 1, sizeof *order);
    double *history = calloc(n * l->t.n + 1, sizeof *history);
    struct hw_leak *rows = calloc(n + 1, sizeof *rows);
    bool ok = order && history && rows;
    for (uint32_t i = 0; ok && i < n; i++)
        order[i] = i;
    if (ok && n)
        qsort_r(order, n, sizeof *order, by_rank, l->v.v);
    for (size_t i = 0; ok && i < n; i++) {
        rows[i] = l->v.v[order[i]];
        memcpy(history + i * l->t.n, l->history + order[i] * l->t.n, l->t.n * sizeof *history);
    }
    if (ok && n)
        memcpy(l->v.v, rows, n * sizeof *rows);
    free(order);
    free(rows);
    if (!ok) {
        free(history);
        return HW_ENOMEM;
    }
    free(l->history);
    l->history = history;
    return HW_OK;
}

int hw_leaks_find(const struct hw_leaks_query *q, struct hw_leaks *out)
{
    *out = (struct hw_leaks){.interval_bytes = q->view->interval_bytes};
    struct find f = {.q = q, .out = out};
    int rc = pick_moments(&f);
    if (rc == 0)
        rc = make_tree(&f);
    if (rc == 0)
        rc = split(&f);
    if (rc == 0)
        rc = make_rows(&f);
    if (rc == 0)
        rc = make_history(&f);
    for (size_t i = 0; rc == 0 && i < out->v.n; i++)
        rc = decide(&f, i);
    if (rc == 0)
        rc = drop_suppressed(&f);
    if (rc == 0)
        rc = rank(out);
    hw_vec_done(&f.last);
    free(f.node_of_value);
    free(f.node_growth);
    free(f.site_of_node);
    free(f.managed);
    free(f.row_of);
    free(f.old);
    free(f.turnover);
    if (rc < 0)
        hw_leaks_done(out);
    return rc;
}

void hw_leaks_done(struct hw_leaks *l)
{
    hw_flame_done(&l->tree);
    hw_vec_done(&l->t);
    hw_vec_done(&l->ts_ns);
    hw_vec_done(&l->v);
    free(l->history);
    *l = (struct hw_leaks){0};
}

double hw_leaks_likely(const struct hw_leaks *l)
{
    double sum = 0;
    for (size_t i = 0; i < l->v.n; i++)
        if (l->v.v[i].verdict == HW_LEAK_LIKELY)
            sum += l->v.v[i].grown;
    return sum;
}
