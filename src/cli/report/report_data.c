#include "cli/report/report_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "cli/parts/open_profile.h"

#include "base/banned.h"

/* A site below this share of the total is only counted in the line "more sites". */
#define FOLD_SHARE 0.005

static int pick_process(struct hw_report_data *d, struct hw_error *err)
{
    for (size_t i = 0; i < d->ranks.n; i++) {
        if (d->o->pid < 0 || d->p->processes.v[d->ranks.v[i].upid.v].pid == d->o->pid) {
            d->upid = d->ranks.v[i].upid;
            return HW_OK;
        }
    }
    if (d->o->pid >= 0)
        return hw_fail(err, HW_ENOTFOUND, 0, "no heap profile of pid %lld in the trace",
                       (long long)d->o->pid);
    return hw_fail(err, HW_ENOTFOUND, 0, "no heap profile in the trace%s",
                   d->p->graphs.n ? ", but a managed heap: heapwise graph shows it" : "");
}

static void pick_moments(struct hw_report_data *d)
{
    const struct hw_process_view *v = &d->view;
    if (v->moments.n)
        d->now = v->moments.v[v->moments.n - 1];
    else if (v->peaks.n)
        d->now = v->peaks.v[v->peaks.n - 1];
    const struct hw_process_moment *peak = hw_process_view_peak(v);
    d->peak = peak ? *peak : d->now;
    d->is_over = d->peak.total.space > 0 && d->peak.ts_ns != d->now.ts_ns &&
                 (d->o->peak || hw_process_view_cleaned_up(v));
    d->shows_peak = d->is_over && (d->o->peak || hw_metric_is_live(d->o->metric));
    /* The dump at the peak is not a base to compare with: what follows it is the program's end. Nor
     * is one that was due just before the end, in which nothing can have changed. */
    int64_t apart = hw_sat_sub(d->now.ts_ns, v->start_ns) / 100;
    for (size_t i = 0; !d->shows_peak && i + 1 < v->moments.n; i++)
        if (!v->moments.v[i].is_peak && hw_sat_sub(d->now.ts_ns, v->moments.v[i].ts_ns) > apart)
            d->before = &v->moments.v[i];
}

static int add_sites(struct hw_report_data *d, const struct hw_process_moment *m,
                     enum hw_sites_moment which)
{
    hw_values values = {0};
    int rc = hw_process_values(d->p, &d->list, d->upid, m->ts_ns, m->at_max, &values);
    if (rc == 0)
        hw_sites_add(&d->sites, d->functions, &values, which);
    hw_vec_done(&values);
    return rc;
}

/* Live figures are those of the peak. Totals allocated stay those of the end, beside them; who asks
 * for totals at the peak gets what was allocated until then. */
static void put_peak(struct hw_report_data *d)
{
    for (size_t i = 0; i < d->sites.n; i++) {
        struct hw_site *s = &d->sites.v[i];
        if (!hw_metric_is_live(d->o->metric)) {
            s->now = s->peak;
            continue;
        }
        s->now.space = s->peak.space;
        s->now.objects = s->peak.objects;
        s->now.samples = s->peak.samples;
        s->now.variance = s->peak.variance;
        s->now.variance_objects = s->peak.variance_objects;
    }
}

/* The dumps of a maximum left out: they are where live memory was high, as no others are. */
static size_t keep_dumps(const struct hw_process_view *v, double *row)
{
    size_t n = 0;
    for (size_t i = 0; i < v->moments.n; i++)
        if (!v->moments.v[i].is_peak)
            row[n++] = row[i];
    return n;
}

static int find_trends(struct hw_report_data *d)
{
    size_t n = d->view.moments.n, n_dumps;
    d->trends = calloc(d->n_rows + 1, sizeof *d->trends);
    hw_autofree double *live = calloc(d->n_rows * n + 1, sizeof *live);
    hw_autofree double *turnover = calloc(d->n_rows * n + 1, sizeof *turnover);
    hw_autofree double *t = calloc(n + 1, sizeof *t);
    if (!d->trends || !live || !turnover || !t)
        return HW_ENOMEM;
    if (d->shows_peak)
        return HW_OK;
    struct hw_sites_history h = {live, turnover};
    int rc = hw_sites_history(d->p, &d->list, d->functions, &d->view, &d->sites, d->n_rows, &h);
    for (size_t i = 0; i < n; i++)
        t[i] = (double)hw_sat_sub(d->view.moments.v[i].ts_ns, d->view.start_ns) / 1e9;
    n_dumps = keep_dumps(&d->view, t);
    for (size_t i = 0; rc == 0 && i < d->n_rows; i++) {
        const struct hw_value *v = &d->sites.v[i].now;
        struct hw_trend_result r;
        (void)keep_dumps(&d->view, live + i * n);
        (void)keep_dumps(&d->view, turnover + i * n);
        struct hw_trend_series s = {.t = t,
                                    .live = live + i * n,
                                    .turnover = turnover + i * n,
                                    .n = n_dumps,
                                    .step = hw_value_step(v, d->view.interval_bytes),
                                    .alloc_space = (double)v->alloc_space};
        rc = hw_trend_of(&s, &r);
        if (rc == 0)
            d->trends[i] = r.trend;
    }
    return rc;
}

/* Who called the sites, and which module is the program's own. */
static int find_callers(struct hw_report_data *d)
{
    const struct hw_process_moment *m = d->shows_peak ? &d->peak : &d->now;
    hw_values values = {0};
    int rc = hw_process_values(d->p, &d->list, d->upid, m->ts_ns, m->at_max, &values);
    d->names = (struct hw_site_names){.cs = d->p->callsites,
                                      .fns = d->functions,
                                      .namer = &d->namer,
                                      .process_name = hw_report_process_name(d, d->upid)};
    if (rc == 0)
        rc = hw_site_names_find(&d->names, &values, d->o->metric);
    hw_vec_done(&values);
    return rc;
}

static int find_sites(struct hw_report_data *d)
{
    int rc = hw_functions_new(d->p->callsites, &d->o->wrappers, &d->functions);
    if (rc == 0)
        rc = hw_sites_init(&d->sites, d->functions);
    if (rc == 0)
        rc = add_sites(d, &d->now, HW_SITES_NOW);
    if (rc == 0)
        rc = add_sites(d, &d->peak, HW_SITES_PEAK);
    if (rc == 0 && d->before)
        rc = add_sites(d, d->before, HW_SITES_BEFORE);
    if (rc == 0)
        rc = find_callers(d);
    if (rc < 0)
        return rc;
    if (d->shows_peak)
        put_peak(d);
    hw_sites_rank(&d->sites, d->o->metric);
    d->n_rows = d->sites.n;
    const struct hw_value *total = d->shows_peak ? &d->peak.total : &d->now.total;
    double least = d->o->fold ? FOLD_SHARE * fabs((double)hw_value_get(total, d->o->metric)) : 0;
    while (d->n_rows > 0) { /* rows with nothing live at the end are useless */
        const struct hw_site *s = &d->sites.v[d->n_rows - 1];
        double value = fabs((double)hw_value_get(&s->now, d->o->metric));
        bool changed = d->before && s->before_space != s->now.space &&
                       fabs((double)hw_sat_sub(s->now.space, s->before_space)) >= least;
        if (changed || (value != 0 && (value >= least || d->n_rows == 1)))
            break;
        d->n_rows--;
    }
    if (d->o->top && d->n_rows > d->o->top)
        d->n_rows = d->o->top;
    return find_trends(d);
}

static int find_losses(struct hw_report_data *d)
{
    int rc = hw_losses_find(d->p, &d->losses);
    if (rc < 0)
        return rc;
    size_t kept = 0;
    for (size_t i = 0; i < d->losses.n; i++) {
        const struct hw_loss *l = &d->losses.v[i];
        if (l->upid.v != d->upid.v && l->upid.v != HW_ID_NONE) {
            rc = hw_losses_sum_add(&d->others, l);
            if (rc < 0)
                return rc;
            continue;
        }
        if (l->kind == HW_LOSS_SAMPLES)
            d->n_lost += l->count;
        d->incomplete |= hw_loss_is_incomplete(l);
        d->losses.v[kept++] = *l;
    }
    d->losses.n = kept;
    if (d->o->pid < 0) /* the recording is what was asked for */
        d->incomplete |= d->others.upids.n != 0;
    return HW_OK;
}

static bool counts_heap(const struct hw_report_data *d, hw_str_id name)
{
    const struct hw_series *s = hw_series_find(&d->list, d->upid, name);
    return s && s->kind == d->view.kind;
}

static void count_samples(struct hw_report_data *d)
{
    int64_t seen = d->now.total.alloc_samples;
    d->n_samples = seen > 0 ? (uint64_t)seen : 0;
    const struct hw_process_rows dumps = hw_by_process_of(&d->p->dumps_of, d->upid);
    for (size_t i = 0; i < dumps.n; i++) {
        const struct hw_heap_dump *h = &d->p->dumps.v[dumps.v[i]];
        if (counts_heap(d, h->heap_name) && h->heap_samples > d->n_samples)
            d->n_samples = h->heap_samples;
    }
}

/* Does a reading belong to this moment? Readings are taken independently of the profile. */
static bool is_near(const struct hw_report_data *d, int64_t at_ns, int64_t ts_ns)
{
    enum { NEAR_NS = 60000000, NEAR_SHARE = 100 };
    int64_t run_ns = hw_sat_sub(ts_ns, d->view.start_ns);
    int64_t away_ns = at_ns > ts_ns ? hw_sat_sub(at_ns, ts_ns) : hw_sat_sub(ts_ns, at_ns);
    return away_ns <= NEAR_NS || away_ns <= run_ns / NEAR_SHARE;
}

/*
 * The reading closest to the moment; if it belongs to another moment it is shown with its time and
 * not compared. A growing program peaks between two readings: the highest RSS is then the peak's.
 */
static void find_rss(struct hw_report_data *d, const struct hw_process_moment *m)
{
    double highest = 0;
    int64_t at = 0;
    d->has_rss =
        hw_process_counter(d->p, d->upid, "mem.rss", m->ts_ns, &d->rss, &d->rss_ns) && d->rss > 0;
    d->rss_is_near = d->has_rss && is_near(d, d->rss_ns, m->ts_ns);
    if (!d->has_rss || d->rss >= (double)m->total.space)
        return;
    d->rss_is_near = false;
    if (m->ts_ns != d->peak.ts_ns ||
        !hw_process_counter(d->p, d->upid, "mem.rss.watermark", INT64_MAX, &highest, &at) ||
        highest < (double)m->total.space || (at < m->ts_ns && !is_near(d, at, m->ts_ns)))
        return;
    d->rss = highest;
    d->rss_ns = m->ts_ns;
    d->rss_is_peak = d->rss_is_near = true;
}

static void find_minfo(struct hw_report_data *d, int64_t ts_ns)
{
    double mapped = 0;
    d->has_minfo =
        hw_process_counter(d->p, d->upid, "malloc_info.in_use", ts_ns, &d->minfo_in_use,
                           &d->minfo_ns) &&
        hw_process_counter(d->p, d->upid, "malloc_info.free", ts_ns, &d->minfo_free, NULL);
    (void)hw_process_counter(d->p, d->upid, "malloc_info.mmap", ts_ns, &mapped, NULL); /* 0 then */
    d->minfo_in_use += mapped;
    d->minfo_is_near = is_near(d, d->minfo_ns, ts_ns);
}

static int find_beside(struct hw_report_data *d)
{
    struct hw_series_list all;
    hw_values values = {0};
    int rc = hw_series_list_init(&all, d->p);
    for (size_t i = 0; rc == HW_OK && i < all.v.n; i++) {
        const struct hw_series *s = &all.v.v[i];
        struct hw_report_heap heap = {.name = s->heap_name, .kind = (enum hw_heap_kind)s->kind};
        if (s->upid.v != d->upid.v || counts_heap(d, s->heap_name) || s->shown.n == 0)
            continue;
        rc = hw_values_at(d->p, s, s->shown.v[s->shown.n - 1], &values);
        for (size_t k = 0; rc == HW_OK && k < values.n; k++)
            hw_value_add(&heap.now, &values.v[k].v);
        if (rc == HW_OK && hw_vec_push(&d->beside, heap) < 0)
            rc = HW_ENOMEM;
    }
    hw_vec_done(&values);
    hw_series_list_done(&all);
    return rc;
}

#define OF_ONE_MOMENT 0.02 /* of live bytes, where nothing is sampled */

/*
 * Of the reading closest to the moment, whatever the metric. What is of another moment, or of other
 * live bytes, is shown with its time: a table of allocations is of the end, and the last reading may
 * still be of the peak. Left out if memory runs out.
 */
static void find_account(struct hw_report_data *d)
{
    hw_values values = {0};
    const struct hw_process_moment *m = d->is_over ? &d->peak : &d->now;
    int rc = hw_process_values(d->p, &d->list, d->upid, m->ts_ns, m->at_max, &values);
    if (rc == HW_OK)
        rc = hw_memory_parts_find(d->p, &d->view, m->ts_ns, &values, &d->account);
    d->has_account = rc == HW_OK && d->account.by_owner;
    double live = (double)m->total.space, apart = fabs(d->account.requested - live);
    bool is_same = apart <= fmax(d->account.error, OF_ONE_MOMENT * live);
    d->account_is_of_another =
        d->shows_peak != d->is_over || !is_same || !is_near(d, d->account.ts_ns, m->ts_ns);
    hw_vec_done(&values);
}

int hw_report_data_init(struct hw_report_data *d, const struct hw_profile *p,
                        const struct hw_report_options *o, struct hw_error *err)
{
    *d = (struct hw_report_data){.p = p, .o = o};
    int rc = hw_series_list_init(&d->list, p);
    if (rc == 0 && !hw_open_profile_choose_heap(&d->list, p, o->heap, err)) {
        rc = HW_ENOTFOUND;
        goto fail;
    }
    if (rc == 0)
        rc = hw_open_profile_rank(p, &d->list, &d->ranks);
    if (rc == 0) {
        rc = pick_process(d, err);
        if (rc < 0)
            goto fail;
        rc = hw_process_view_init(&d->view, p, &d->list, d->upid);
    }
    if (rc == 0)
        rc = hw_demangler_new(hw_callsites_strings(p->callsites), &d->demangler);
    if (rc == 0) {
        d->namer = (struct hw_namer){hw_demangle_shown, d->demangler};
        pick_moments(d);
        rc = hw_open_profile_has_metric(o->metric, hw_value_metrics(&d->now.total), err);
        if (rc < 0)
            goto fail;
        rc = find_sites(d);
    }
    if (rc == 0)
        rc = find_beside(d);
    if (rc == 0)
        rc = find_losses(d);
    if (rc < 0) {
        (void)hw_fail(err, rc, 0, "report:"); /* the code is returned below */
        goto fail;
    }
    count_samples(d);
    const struct hw_process_moment *m = d->shows_peak ? &d->peak : &d->now;
    find_rss(d, m);
    find_minfo(d, m->ts_ns);
    find_account(d);
    return HW_OK;
fail:
    hw_report_data_done(d);
    return rc;
}

void hw_report_data_done(struct hw_report_data *d)
{
    hw_series_list_done(&d->list);
    hw_vec_done(&d->ranks);
    hw_vec_done(&d->beside);
    hw_process_view_done(&d->view);
    hw_functions_free(d->functions);
    hw_demangler_free(d->demangler);
    hw_vec_done(&d->sites);
    free(d->trends);
    hw_site_names_done(&d->names);
    hw_vec_done(&d->losses);
    hw_losses_sum_done(&d->others);
    hw_memory_parts_done(&d->account);
    *d = (struct hw_report_data){0};
}

const char *hw_report_process_name(const struct hw_report_data *d, hw_upid upid)
{
    return hw_strings_cstr(hw_callsites_strings(d->p->callsites), d->p->processes.v[upid.v].name);
}
