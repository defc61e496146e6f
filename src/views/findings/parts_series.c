#include "views/findings/parts_series.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "views/findings/trend.h"

#include "base/banned.h"

#define MIN_GROWTH (1024.0 * 1024)
#define MIN_SHARE  0.05 /* of resident memory */
#define MIN_TAU    0.7
#define MAX_P      0.05

typedef HW_VEC(int64_t) time_list;

static int by_time(const void *pa, const void *pb)
{
    int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    return (a > b) - (a < b);
}

/* Sorted and unique. */
static int find_times(const struct hw_profile *p, hw_upid upid, time_list *out)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes want = hw_bytes_str("account.rss");
    size_t n = 0;
    const struct hw_process_rows rows = hw_by_process_of(&p->counters_of, upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[rows.v[i]];
        if (hw_bytes_equal(hw_strings_get(strings, c->name), want) &&
            hw_vec_push(out, c->ts_ns) < 0)
            return HW_ENOMEM;
    }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, by_time);
    for (size_t i = 0; i < out->n; i++)
        if (n == 0 || out->v[n - 1] != out->v[i])
            out->v[n++] = out->v[i];
    out->n = n;
    return HW_OK;
}

/* Readings without owners give no point. */
static int add_point(const struct hw_profile *p, const struct hw_series_list *list,
                     const struct hw_process_view *view, int64_t ts_ns, struct hw_parts_series *out)
{
    hw_values values = {0};
    struct hw_memory_parts m;
    int rc = hw_process_values(p, list, view->upid, ts_ns, /* at_max = */ false, &values);
    if (rc == HW_OK)
        rc = hw_memory_parts_find(p, view, ts_ns, &values, &m);
    hw_vec_done(&values);
    if (rc < 0)
        return rc == HW_ENOTFOUND ? HW_OK : rc;
    struct hw_parts_point point = {.ts_ns = m.ts_ns, .rss = m.total.rss, .live_error = m.error};
    for (int k = 0; k < HW_PART_COUNT; k++)
        point.parts[k] = m.parts[k].rss;
    if (m.by_owner && m.ts_ns == ts_ns && hw_vec_push(&out->v, point) < 0)
        rc = HW_ENOMEM;
    hw_memory_parts_done(&m);
    return rc;
}

static bool can_grow(int part)
{
    return part != HW_PART_LIVE && part != HW_PART_ROUNDING && part != HW_PART_PROFILER &&
           part != HW_PART_MOVED;
}

static double error_of(const struct hw_parts_series *s, int part)
{
    bool by_live = part == HW_PART_FREE || part == HW_PART_OLDER;
    return by_live ? hypot(s->v.v[0].live_error, s->v.v[s->v.n - 1].live_error) : 0;
}

static int find_growth(struct hw_parts_series *s, int part)
{
    double t[HW_PARTS_POINTS], y[HW_PARTS_POINTS], nothing[HW_PARTS_POINTS] = {0};
    struct hw_parts_growth *g = &s->growth[part];
    size_t n = s->v.n;
    for (size_t i = 0; i < n; i++) {
        t[i] = ((double)s->v.v[i].ts_ns - (double)s->v.v[0].ts_ns) * 1e-9;
        y[i] = s->v.v[i].parts[part];
    }
    struct hw_trend_series series = {
        .t = t, .live = y, .turnover = nothing, .n = n, .alloc_space = y[n - 1]};
    struct hw_trend_result r;
    int rc = hw_trend_of(&series, &r);
    double least = fmax(MIN_GROWTH, MIN_SHARE * s->v.v[n - 1].rss);
    least = fmax(least, 2 * error_of(s, part));
    *g = (struct hw_parts_growth){
        .grown = y[n - 1] - y[0], .slope = r.slope, .tau = r.tau, .p = r.p};
    g->grows = rc == HW_OK && can_grow(part) && r.trend == HW_TREND_GROWING && r.tau > MIN_TAU &&
               r.p < MAX_P && g->grown > least;
    return rc;
}

int hw_parts_series_find(const struct hw_profile *p, const struct hw_series_list *list,
                         const struct hw_process_view *view, struct hw_parts_series *out)
{
    time_list times = {0};
    *out = (struct hw_parts_series){0};
    int rc = find_times(p, view->upid, &times);
    size_t n = times.n < HW_PARTS_POINTS ? times.n : HW_PARTS_POINTS;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = add_point(p, list, view, times.v[n > 1 ? i * (times.n - 1) / (n - 1) : 0], out);
    for (int part = 0; rc == HW_OK && out->v.n >= HW_PARTS_LEAST && part < HW_PART_COUNT; part++)
        rc = find_growth(out, part);
    hw_vec_done(&times);
    if (rc < 0)
        hw_parts_series_done(out);
    return rc;
}

void hw_parts_series_done(struct hw_parts_series *s)
{
    hw_vec_done(&s->v);
}
