#include "views/sites.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

int hw_sites_init(hw_sites *s, const struct hw_functions *fns)
{
    *s = (hw_sites){0};
    size_t n = hw_functions_count(fns);
    if (hw_vec_reserve(s, n) < 0)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        s->v[s->n++] = (struct hw_site){.function = i, .callsite = HW_ID_NONE};
    return HW_OK;
}

void hw_sites_add(hw_sites *s, const struct hw_functions *fns, const hw_values *values,
                  enum hw_sites_moment moment)
{
    for (size_t i = 0; i < values->n; i++) {
        const struct hw_callsite_value *cv = &values->v[i];
        struct hw_site *site = &s->v[hw_functions_site(fns, cv->callsite)];
        switch (moment) {
        case HW_SITES_NOW:
            hw_value_add(&site->now, &cv->v);
            if (site->callsite == HW_ID_NONE || cv->v.space > site->callsite_space) {
                site->callsite = cv->callsite.v;
                site->callsite_space = cv->v.space;
            }
            break;
        case HW_SITES_BEFORE:
            site->before_space = hw_sat_add(site->before_space, cv->v.space);
            break;
        case HW_SITES_PEAK:
            hw_value_add(&site->peak, &cv->v);
            break;
        }
    }
}

static int by_metric(const void *a, const void *b, void *ctx)
{
    const struct hw_site *x = a, *y = b;
    enum hw_metric m = *(enum hw_metric *)ctx;
    int64_t vx = hw_value_get(&x->now, m), vy = hw_value_get(&y->now, m);
    if (vx != vy)
        return vx > vy ? -1 : 1;
    if (x->now.alloc_space != y->now.alloc_space)
        return x->now.alloc_space > y->now.alloc_space ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

void hw_sites_rank(hw_sites *s, enum hw_metric by)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct hw_site *x = &s->v[i];
        if (x->now.alloc_samples || x->now.alloc_space || x->now.space || x->peak.space ||
            x->before_space)
            s->v[kept++] = *x;
    }
    s->n = kept;
    if (kept)
        qsort_r(s->v, kept, sizeof *s->v, by_metric, &by);
}

/* row_of: function → row + 1. */
static void add_series(const struct hw_profile *p, const struct hw_series *s,
                       const struct hw_functions *fns, const struct hw_process_view *v,
                       const uint32_t *row_of, double *live, size_t n_sites, double *out)
{
    size_t next = 0, n_moments = v->moments.n;
    memset(live, 0, n_sites * sizeof *live);
    for (size_t m = 0; m < n_moments; m++) {
        for (; next < s->all.n && p->dumps.v[s->all.v[next]].ts_ns <= v->moments.v[m].ts_ns;
             next++) {
            size_t first, n;
            hw_profile_dump_rows(p, s->all.v[next], &first, &n);
            for (size_t i = first; i < first + n; i++) {
                hw_callsite_id site = {p->allocs.callsite[i]};
                uint32_t row = row_of[hw_functions_site(fns, site)];
                if (row)
                    live[row - 1] += (double)hw_alloc_size(&p->allocs, i);
            }
        }
        for (size_t i = 0; i < n_sites; i++)
            out[i * n_moments + m] += live[i];
    }
}

int hw_sites_history(const struct hw_profile *p, const struct hw_series_list *list,
                     const struct hw_functions *fns, const struct hw_process_view *v,
                     const hw_sites *s, size_t n_sites, double *out)
{
    size_t n_functions = hw_functions_count(fns);
    uint32_t *row_of = calloc(n_functions + 1, sizeof *row_of);
    double *live = calloc(n_sites + 1, sizeof *live);
    if (!row_of || !live) {
        free(row_of);
        free(live);
        return HW_ENOMEM;
    }
    for (uint32_t i = 0; i < n_sites; i++)
        row_of[s->v[i].function] = i + 1;
    memset(out, 0, n_sites * v->moments.n * sizeof *out);
    for (size_t i = 0; i < list->v.n; i++)
        if (list->v.v[i].upid.v == v->upid.v && list->v.v[i].kind == v->kind)
            add_series(p, &list->v.v[i], fns, v, row_of, live, n_sites, out);
    free(row_of);
    free(live);
    return HW_OK;
}
