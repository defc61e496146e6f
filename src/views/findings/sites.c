#include "views/findings/sites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"

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

/* The running sums of a series, by row. */
struct running {
    const uint32_t *row_of;  /* function → row + 1 */
    double *live, *turnover; /* by row */
    size_t n_rows;
};

static void add_dump(const struct hw_profile *p, uint32_t dump, const struct hw_functions *fns,
                     const struct running *r)
{
    size_t first, n;
    hw_profile_dump_rows(p, dump, &first, &n);
    for (size_t i = first; i < first + n; i++) {
        hw_callsite_id site = {p->allocs.callsite[i]};
        uint32_t row = r->row_of[hw_functions_site(fns, site)];
        if (!row)
            continue;
        double size = (double)hw_alloc_size(&p->allocs, i);
        r->live[row - 1] += size;
        r->turnover[row - 1] += fabs(size);
    }
}

static void add_series(const struct hw_profile *p, const struct hw_series *s,
                       const struct hw_functions *fns, const struct hw_process_view *v,
                       const struct running *r, const struct hw_sites_history *out)
{
    size_t next = 0, n_moments = v->moments.n;
    memset(r->live, 0, r->n_rows * sizeof *r->live);
    memset(r->turnover, 0, r->n_rows * sizeof *r->turnover);
    for (size_t m = 0; m < n_moments; m++) {
        for (; next < s->all.n && p->dumps.v[s->all.v[next]].ts_ns <= v->moments.v[m].ts_ns; next++)
            add_dump(p, s->all.v[next], fns, r);
        for (size_t i = 0; i < r->n_rows; i++) {
            out->live[i * n_moments + m] += r->live[i];
            out->turnover[i * n_moments + m] += r->turnover[i];
        }
    }
}

int hw_sites_history(const struct hw_profile *p, const struct hw_series_list *list,
                     const struct hw_functions *fns, const struct hw_process_view *v,
                     const hw_sites *s, size_t n_sites, const struct hw_sites_history *out)
{
    hw_autofree uint32_t *row_of = calloc(hw_functions_count(fns) + 1, sizeof *row_of);
    hw_autofree double *sums = calloc(2 * n_sites + 1, sizeof *sums);
    if (!row_of || !sums)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < n_sites; i++)
        row_of[s->v[i].function] = i + 1;
    struct running r = {row_of, sums, sums + n_sites, n_sites};
    const struct hw_process_rows heaps = hw_series_of(list, v->upid);
    for (size_t i = 0; i < heaps.n; i++)
        if (list->v.v[heaps.v[i]].kind == v->kind)
            add_series(p, &list->v.v[heaps.v[i]], fns, v, &r, out);
    return HW_OK;
}
