#include "views/findings/top_functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

enum { MASK_BITS = 64, MIN_POINTS = 8, MAX_CELLS = 8 << 20 };

size_t hw_top_functions_points(const struct hw_functions *fns, size_t n_moments)
{
    size_t n = MAX_CELLS / (hw_functions_count(fns) + 1);
    if (n > HW_TOP_FUNCTIONS_POINTS)
        n = HW_TOP_FUNCTIONS_POINTS;
    if (n < MIN_POINTS)
        n = MIN_POINTS;
    return n < n_moments ? n : n_moments;
}

/* A walk over the callsites as a tree. */
struct walk {
    uint32_t *first, *next; /* lists of children, ended by HW_ID_NONE; first[n]: the roots */
    uint32_t *depth;        /* by function: how often it is in the current stack */
};

/* Backwards, so that children are in order of id. */
static int link_children(const struct hw_top_functions *f, struct walk *w)
{
    size_t n = hw_callsites_count(f->cs);
    w->first = malloc((n + 1) * sizeof *w->first);
    w->next = malloc((n + 1) * sizeof *w->next);
    w->depth = calloc(f->n_functions + 1, sizeof *w->depth);
    if (!w->first || !w->next || !w->depth)
        return HW_ENOMEM;
    for (size_t i = 0; i <= n; i++)
        w->first[i] = HW_ID_NONE;
    for (size_t i = n; i-- > 0;) {
        hw_callsite_id parent = hw_callsites_get(f->cs, (hw_callsite_id){(uint32_t)i})->parent;
        size_t of = parent.v == HW_ID_NONE ? n : parent.v;
        w->next[i] = w->first[of];
        w->first[of] = (uint32_t)i;
    }
    return HW_OK;
}

static void enter(struct hw_top_functions *f, struct walk *w, uint32_t c)
{
    size_t n;
    hw_frame_id frame = hw_callsites_get(f->cs, (hw_callsite_id){c})->frame;
    const struct hw_function_at *chain = hw_functions_chain(f->fns, frame, &n);
    for (size_t i = 0; i < n; i++)
        if (w->depth[chain[i].function]++ == 0 && i < MASK_BITS)
            f->outermost[c] |= 1ull << i;
}

static void leave(const struct hw_top_functions *f, struct walk *w, uint32_t c)
{
    size_t n;
    hw_frame_id frame = hw_callsites_get(f->cs, (hw_callsite_id){c})->frame;
    const struct hw_function_at *chain = hw_functions_chain(f->fns, frame, &n);
    for (size_t i = 0; i < n; i++)
        w->depth[chain[i].function]--;
}

/* So that a stack counts once for a recursive function. */
static int find_outermost(struct hw_top_functions *f)
{
    struct walk w = {0};
    int rc = link_children(f, &w);
    uint32_t at = rc == HW_OK ? w.first[hw_callsites_count(f->cs)] : HW_ID_NONE;
    while (at != HW_ID_NONE) {
        enter(f, &w, at);
        if (w.first[at] != HW_ID_NONE) {
            at = w.first[at];
            continue;
        }
        leave(f, &w, at);
        while (at != HW_ID_NONE && w.next[at] == HW_ID_NONE) {
            at = hw_callsites_get(f->cs, (hw_callsite_id){at})->parent.v;
            if (at != HW_ID_NONE)
                leave(f, &w, at);
        }
        at = at == HW_ID_NONE ? at : w.next[at];
    }
    free(w.first);
    free(w.next);
    free(w.depth);
    return rc;
}

int hw_top_functions_init(struct hw_top_functions *f, const struct hw_callsites *cs,
                          const struct hw_functions *fns, enum hw_metric metric, bool total,
                          size_t n_points)
{
    size_t n_callsites = hw_callsites_count(cs);
    *f = (struct hw_top_functions){.cs = cs,
                                   .fns = fns,
                                   .metric = metric,
                                   .total = total,
                                   .room = n_points,
                                   .n_functions = hw_functions_count(fns)};
    f->bytes = calloc(f->n_functions * n_points + 1, sizeof *f->bytes);
    if (total) {
        f->sums = calloc(n_callsites + 1, sizeof *f->sums);
        f->outermost = calloc(n_callsites + 1, sizeof *f->outermost);
    }
    if (!f->bytes || (total && (!f->sums || !f->outermost)))
        return HW_ENOMEM;
    return total ? find_outermost(f) : HW_OK;
}

/* Sums from the leaves to the roots: children come after their parents. */
static void add_totals(struct hw_top_functions *f, double *row)
{
    for (size_t c = hw_callsites_count(f->cs); c-- > 0;) {
        const struct hw_callsite *at = hw_callsites_get(f->cs, (hw_callsite_id){(uint32_t)c});
        double v = f->sums[c];
        size_t n;
        const struct hw_function_at *chain = hw_functions_chain(f->fns, at->frame, &n);
        for (size_t i = 0; v != 0 && i < n && i < MASK_BITS; i++)
            if (f->outermost[c] >> i & 1)
                row[chain[i].function] += v;
        if (at->parent.v != HW_ID_NONE)
            f->sums[at->parent.v] += v;
    }
}

void hw_top_functions_add(struct hw_top_functions *f, const hw_values *values)
{
    if (f->n_points == f->room)
        return;
    double *row = &f->bytes[f->n_points * f->n_functions];
    if (f->total)
        memset(f->sums, 0, hw_callsites_count(f->cs) * sizeof *f->sums);
    for (size_t i = 0; i < values->n; i++) {
        int64_t v = hw_value_get(&values->v[i].v, f->metric);
        if (v <= 0)
            continue;
        f->all[f->n_points] += (double)v;
        if (f->total)
            f->sums[values->v[i].callsite.v] += (double)v;
        else
            row[hw_functions_site(f->fns, values->v[i].callsite)] += (double)v;
    }
    if (f->total)
        add_totals(f, row);
    f->n_points++;
}

static double most_of(const struct hw_top_functions *f, uint32_t function)
{
    double most = 0;
    for (size_t p = 0; p < f->n_points; p++) {
        double v = f->bytes[p * f->n_functions + function];
        most = v > most ? v : most;
    }
    return most;
}

void hw_top_functions_rank(struct hw_top_functions *f)
{
    double most[HW_TOP_FUNCTIONS_MAX];
    f->n = 0;
    for (uint32_t fn = 0; fn < f->n_functions; fn++) {
        const struct hw_function *row = hw_functions_get(f->fns, fn);
        double v = f->total && row->kind != HW_FUNCTION_PLAIN ? 0 : most_of(f, fn);
        size_t at = f->n;
        if (v <= 0 || (at == HW_TOP_FUNCTIONS_MAX && v <= most[at - 1]))
            continue;
        at -= at == HW_TOP_FUNCTIONS_MAX;
        for (; at > 0 && most[at - 1] < v; at--) {
            most[at] = most[at - 1];
            f->function[at] = f->function[at - 1];
        }
        most[at] = v;
        f->function[at] = fn;
        f->n += f->n < HW_TOP_FUNCTIONS_MAX;
    }
}

double hw_top_functions_get(const struct hw_top_functions *f, size_t rank, size_t point)
{
    return f->bytes[point * f->n_functions + f->function[rank]];
}

void hw_top_functions_done(struct hw_top_functions *f)
{
    free(f->bytes);
    free(f->sums);
    free(f->outermost);
    *f = (struct hw_top_functions){0};
}
