/* Goes through the dumps of one heap after another, adding each callstack to its function. */
#include "views/findings/lifetimes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/profile.h"
#include "views/flame/functions.h"
#include "views/stack_mask.h"
#include "views/time/process_view.h"
#include "views/time/series.h"
#include "views/time/values.h"

#include "base/banned.h"

enum { MAX_DUMPS = 256 };

struct sums {
    double area; /* byte-seconds */
    double least, most;
    int64_t alloc_space, alloc_objects, space;
};

struct previous {
    int64_t alloc_space, space;
};

struct find {
    const struct hw_lifetimes_query *q;
    struct hw_lifetimes *out;
    struct sums *by_function;
    struct previous *previous; /* by callsite, of the current heap */
    double steps_s;
    size_t n_steps;
};

double hw_lifetime_bucket_s(unsigned bucket)
{
    return pow(10, (double)bucket / 2) * 1e-6;
}

static uint8_t bucket_of(double s)
{
    double b = s > 1e-6 ? floor(2 * log10(s * 1e6) + 1e-9) : 0;
    return b < HW_LIFETIME_BUCKETS ? (uint8_t)b : HW_LIFETIME_BUCKETS - 1;
}

static void add_step(struct find *f, const hw_values *values, double seconds)
{
    for (size_t i = 0; i < values->n; i++) {
        const struct hw_value *v = &values->v[i].v;
        hw_callsite_id c = values->v[i].callsite;
        struct previous *b = &f->previous[c.v];
        struct sums *s = &f->by_function[hw_functions_site(f->q->fns, c)];
        double came = (double)v->alloc_space - (double)b->alloc_space;
        double went = came - ((double)v->space - (double)b->space);
        s->area += seconds * ((double)b->space + (double)v->space) / 2;
        s->least += fmax(0, went - (double)b->space);
        s->most += fmax(0, fmin(came, went));
        *b = (struct previous){v->alloc_space, v->space};
    }
}

static void add_end(struct find *f, const hw_values *values)
{
    for (size_t i = 0; i < values->n; i++) {
        const struct hw_value *v = &values->v[i].v;
        struct sums *s = &f->by_function[hw_functions_site(f->q->fns, values->v[i].callsite)];
        s->alloc_space = hw_sat_add(s->alloc_space, v->alloc_space);
        s->alloc_objects = hw_sat_add(s->alloc_objects, v->alloc_objects);
        s->space = hw_sat_add(s->space, v->space);
    }
}

/* Evenly thinned: bounds over longer steps are valid, too. */
static bool is_selected(size_t i, size_t n)
{
    size_t stride = n / MAX_DUMPS + 1;
    return i + 1 == n || i % stride == 0;
}

static int add_series(struct find *f, const struct hw_series *s)
{
    struct hw_sum *sum;
    int64_t last_ns = f->q->start_ns;
    int rc = hw_sum_new(f->q->p, s, &sum);
    if (rc < 0)
        return rc;
    memset(f->previous, 0, hw_callsites_count(f->q->p->callsites) * sizeof *f->previous);
    for (size_t i = 0; rc == HW_OK && i < s->shown.n; i++) {
        hw_values values = {0};
        if (!is_selected(i, s->shown.n))
            continue;
        int64_t ts_ns = f->q->p->dumps.v[s->shown.v[i]].ts_ns;
        double seconds = ts_ns > last_ns ? (double)hw_sat_sub(ts_ns, last_ns) / 1e9 : 0;
        rc = hw_sum_advance(sum, s->shown.v[i]);
        if (rc == HW_OK)
            rc = hw_sum_values(sum, &values);
        hw_stack_mask_apply(f->q->mask, &values);
        if (rc == HW_OK)
            add_step(f, &values, seconds);
        if (rc == HW_OK && i + 1 == s->shown.n)
            add_end(f, &values);
        f->steps_s += seconds;
        f->n_steps++;
        last_ns = ts_ns;
        hw_vec_done(&values);
    }
    f->out->n_dumps += s->shown.n;
    hw_sum_free(sum);
    return rc;
}

static int most_first(const void *pa, const void *pb)
{
    const struct hw_lifetime *a = pa, *b = pb;
    if (a->alloc_space != b->alloc_space)
        return a->alloc_space > b->alloc_space ? -1 : 1;
    return a->function < b->function ? -1 : a->function > b->function;
}

static int sum_up(struct find *f, size_t n_functions)
{
    struct hw_lifetimes *l = f->out;
    for (uint32_t i = 0; i < n_functions; i++) {
        const struct sums *s = &f->by_function[i];
        if (s->alloc_space <= 0)
            continue;
        struct hw_lifetime row = {.function = i,
                                  .alloc_space = s->alloc_space,
                                  .alloc_objects = s->alloc_objects,
                                  .space = s->space,
                                  .mean_lifetime_s = s->area / (double)s->alloc_space,
                                  .temporary_least = s->least,
                                  .temporary_most = s->most};
        row.bucket = bucket_of(row.mean_lifetime_s);
        l->bytes[row.bucket] += (double)row.alloc_space;
        if (hw_vec_push(&l->v, row) < 0)
            return HW_ENOMEM;
    }
    if (l->v.n)
        qsort(l->v.v, l->v.n, sizeof *l->v.v, most_first);
    l->step_s = f->n_steps ? f->steps_s / (double)f->n_steps : 0;
    return HW_OK;
}

static bool keeps(const void *ctx, const struct hw_profile *p, const struct hw_series *s)
{
    const struct hw_lifetimes_query *q = ctx;
    (void)p;
    return (q->heap_name.v == 0 || s->heap_name.v == q->heap_name.v) &&
           hw_stack_mask_keeps_heap(q->mask, s);
}

int hw_lifetimes_find(const struct hw_lifetimes_query *q, struct hw_lifetimes *out)
{
    struct find f = {.q = q, .out = out};
    size_t n_functions = hw_functions_count(q->fns);
    int rc = HW_OK;
    const enum hw_heap_kind kind = hw_process_kind(q->p, q->list, q->upid, keeps, q);
    *out = (struct hw_lifetimes){0};
    f.by_function = calloc(n_functions + 1, sizeof *f.by_function);
    f.previous = calloc(hw_callsites_count(q->p->callsites) + 1, sizeof *f.previous);
    if (!f.by_function || !f.previous)
        rc = HW_ENOMEM;
    const struct hw_process_rows heaps = hw_series_of(q->list, q->upid);
    for (size_t i = 0; rc == HW_OK && i < heaps.n; i++) {
        const struct hw_series *s = &q->list->v.v[heaps.v[i]];
        if (s->kind == kind && keeps(q, q->p, s))
            rc = add_series(&f, s);
    }
    if (rc == HW_OK)
        rc = hw_stack_mask_error(q->mask);
    if (rc == HW_OK)
        rc = sum_up(&f, n_functions);
    free(f.by_function);
    free(f.previous);
    if (rc < 0)
        hw_lifetimes_done(out);
    return rc;
}

void hw_lifetimes_done(struct hw_lifetimes *l)
{
    hw_vec_done(&l->v);
    *l = (struct hw_lifetimes){0};
}
