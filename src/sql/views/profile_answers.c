/* Views of a dump or a process: functions, callers, leaks, diff, sizes, lifetimes, accounting. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "sql/views/profile_views_parts.h"
#include "views/account/memory_parts.h"
#include "views/account/rounding.h"
#include "views/findings/accounting.h"
#include "views/findings/diff.h"
#include "views/findings/leaks.h"
#include "views/findings/lifetimes.h"
#include "views/findings/sites.h"
#include "views/findings/sizes.h"
#include "views/flame/callers.h"
#include "views/flame/program.h"

#include "base/banned.h"

static int values_at(struct hw_view_result *a, hw_upid upid, int64_t ts, hw_values *out)
{
    bool at_max = hw_view_has_only_peaks(a, upid, &ts);
    return hw_process_values(a->p, &a->list, upid, ts, at_max, out);
}

uint64_t hw_view_interval_of(const struct hw_view_result *a, hw_upid upid)
{
    uint64_t most = 1;
    const struct hw_process_rows dumps = hw_by_process_of(&a->p->dumps_of, upid);
    for (size_t i = 0; i < dumps.n; i++)
        if (a->p->dumps.v[dumps.v[i]].interval_bytes > most)
            most = a->p->dumps.v[dumps.v[i]].interval_bytes;
    return most;
}

void hw_view_put_errors(struct hw_view_result *a, const struct hw_value *v, uint64_t interval)
{
    for (int m = 0; m < HW_METRIC_USUAL; m++)
        hw_view_put_real(a, hw_value_error(v, (enum hw_metric)m, interval));
}

void hw_view_put_temporary(struct hw_view_result *a, const struct hw_value *self,
                           const struct hw_value *total, uint64_t interval)
{
    enum { COLUMNS = 3 * (HW_METRIC_COUNT - HW_METRIC_USUAL) };
    if (hw_value_metrics(total) == HW_METRIC_USUAL) {
        for (int i = 0; i < COLUMNS; i++)
            hw_view_put(a, (struct hw_view_cell){.kind = CELL_NULL});
        return;
    }
    for (int m = HW_METRIC_USUAL; m < HW_METRIC_COUNT; m++) {
        hw_view_put_int(a, hw_value_get(self, (enum hw_metric)m));
        hw_view_put_int(a, hw_value_get(total, (enum hw_metric)m));
    }
    for (int m = HW_METRIC_USUAL; m < HW_METRIC_COUNT; m++)
        hw_view_put_real(a, hw_value_error(total, (enum hw_metric)m, interval));
}

static void put_callers(struct hw_view_result *a, const struct hw_callers *c)
{
    struct hw_strbuf text = {0};
    hw_callers_text(&text, c, a->p->callsites, a->fns, NULL);
    hw_view_put_text(a, hw_bytes_of(text.p, text.n));
    a->failed |= text.failed;
    hw_strbuf_done(&text);
}

int hw_view_fill_top(struct hw_view_result *a, const struct hw_view_query *q)
{
    hw_values values = {0};
    hw_autofree struct hw_callers *callers = NULL;
    struct hw_flame tree = {0};
    hw_function_values rows = {0};
    uint64_t interval = hw_view_interval_of(a, q->upid[0]);
    int rc = values_at(a, q->upid[0], q->ts[0], &values);
    if (rc == 0)
        rc = hw_flame_build(a->p->callsites, a->fns, &values, 0, &tree);
    if (rc == 0)
        rc = hw_flame_by_function(&tree, hw_functions_count(a->fns), &rows);
    if (rc == 0)
        rc = hw_callers_find(a->p->callsites, a->fns, &tree, HW_METRIC_SPACE, HW_CALLERS_OF_TOTAL,
                             &callers);
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        const struct hw_function_value *v = &rows.v[i];
        if (!v->total.alloc_samples && !v->total.alloc_space && !v->total.space)
            continue;
        hw_view_put_function(a, v->function);
        for (int m = 0; m < HW_METRIC_USUAL; m++) {
            hw_view_put_int(a, hw_value_get(&v->self, (enum hw_metric)m));
            hw_view_put_int(a, hw_value_get(&v->total, (enum hw_metric)m));
        }
        hw_view_put_int(a, v->total.samples);
        hw_view_put_errors(a, &v->total, interval);
        put_callers(a, &callers[v->function]);
        hw_view_put_temporary(a, &v->self, &v->total, interval);
    }
    hw_vec_done(&rows);
    hw_flame_done(&tree);
    hw_vec_done(&values);
    return rc;
}

static void put_tree(struct hw_view_result *a, const struct hw_flame *t)
{
    for (uint32_t i = 1; i < t->v.n; i++) {
        const struct hw_flame_node *n = &t->v.v[i];
        hw_view_put_int(a, i);
        hw_view_put_int(a, n->parent);
        hw_view_put_int(a, n->depth - 1);
        hw_view_put_function(a, n->function);
        hw_view_put_int(a, hw_flame_self(t, i)->space);
        for (int m = 0; m < HW_METRIC_USUAL; m++)
            hw_view_put_int(a, hw_value_get(hw_flame_total(t, i), (enum hw_metric)m));
    }
}

/* Filters match a program by its file and by the name it was started under. */
int hw_view_match_filters(struct hw_view_result *a, hw_upid upid, const hw_values *values,
                          const hw_filters *filters, const struct hw_namer *namer,
                          struct hw_filter_matches *out)
{
    struct hw_shown_program program =
        hw_program_find(a->p->callsites, values, hw_process_name(a->p, upid));
    return hw_filter_match(filters, a->p->callsites, a->fns, namer, &program, out);
}

static int fill_around(struct hw_view_result *a, const struct hw_view_query *q, bool callers)
{
    hw_values values = {0};
    hw_filters filters = {0};
    struct hw_filter_matches matches = {0};
    struct hw_flame below = {0}, above = {0};
    struct hw_strbuf text = {0};
    hw_strbuf_addf(&text, "P:%s", q->text);
    int rc = text.failed ? HW_ENOMEM : hw_filters_add(&filters, text.p, &a->err);
    if (rc == 0)
        rc = values_at(a, q->upid[0], q->ts[0], &values);
    if (rc == 0)
        rc = hw_view_match_filters(a, q->upid[0], &values, &filters, NULL, &matches);
    struct hw_flame_input query = {
        .cs = a->p->callsites, .fns = a->fns, .values = &values, .filters = &matches};
    if (rc == 0)
        rc = hw_flame_pivot(&query, &below, &above);
    if (rc == 0)
        put_tree(a, callers ? &above : &below);
    hw_flame_done(&below);
    hw_flame_done(&above);
    hw_filter_matches_done(&matches);
    hw_filters_done(&filters);
    hw_vec_done(&values);
    hw_strbuf_done(&text);
    return rc;
}

int hw_view_fill_callers(struct hw_view_result *a, const struct hw_view_query *q)
{
    return fill_around(a, q, /* callers = */ true);
}

int hw_view_fill_callees(struct hw_view_result *a, const struct hw_view_query *q)
{
    return fill_around(a, q, /* callers = */ false);
}

static void put_leak(struct hw_view_result *a, const struct hw_leaks *l, const struct hw_leak *r)
{
    hw_view_put_text(a, hw_bytes_str(hw_leak_verdict_name(r->verdict)));
    hw_view_put_function(a, l->tree.v.v[r->node].function);
    hw_view_put_real(a, r->trend.slope);
    hw_view_put_real(a, r->trend.slope_low);
    hw_view_put_real(a, r->trend.slope_high);
    hw_view_put_real(a, r->trend.tau);
    hw_view_put_real(a, r->trend.p);
    hw_view_put_int(a, (int64_t)r->grown);
    hw_view_put_real(a, r->freed_ratio);
    hw_view_put_int(a, r->now.space);
    hw_view_put_real(a, hw_value_error(&r->now, HW_METRIC_SPACE, l->interval_bytes));
    hw_view_put_int(a, r->now.samples);
    hw_view_put_int(a, r->rest);
}

int hw_view_fill_leaks(struct hw_view_result *a, const struct hw_view_query *q)
{
    struct hw_process_view view;
    struct hw_leaks leaks;
    int rc = hw_process_view_init(&view, a->p, &a->list, q->upid[0]);
    if (rc < 0)
        return rc;
    struct hw_leaks_query query = {.p = a->p, .list = &a->list, .view = &view, .fns = a->fns};
    rc = hw_leaks_find(&query, &leaks);
    if (rc == 0) {
        for (size_t i = 0; i < leaks.v.n; i++)
            put_leak(a, &leaks, &leaks.v.v[i]);
        hw_leaks_done(&leaks);
    }
    hw_process_view_done(&view);
    return rc;
}

/* of: a function, or HW_ID_NONE, by side. */
static void put_file(struct hw_view_result *a, const uint32_t of[2])
{
    uint32_t function = of[1] == HW_ID_NONE ? of[0] : of[1];
    hw_view_put_text(a, hw_strings_get(hw_callsites_strings(a->p->callsites),
                                       hw_functions_get(a->fns, function)->file));
}

int hw_view_fill_diff(struct hw_view_result *a, const struct hw_view_query *q)
{
    hw_values values[2] = {{0}, {0}};
    struct hw_diff_side side[2];
    struct hw_diff d;
    enum hw_metric m = HW_METRIC_SPACE;
    if (q->text && !hw_metric_find(q->text, &m))
        return hw_fail(&a->err, HW_EINVAL, 0, "unknown metric '%.40s'", q->text);
    int rc = HW_OK;
    for (int i = 0; rc == 0 && i < 2; i++) {
        rc = values_at(a, q->upid[i], q->ts[i], &values[i]);
        side[i] = (struct hw_diff_side){.p = a->p,
                                        .fns = a->fns,
                                        .values = &values[i],
                                        .interval_bytes = hw_view_interval_of(a, q->upid[i])};
    }
    bool same = q->upid[0].v == q->upid[1].v && q->ts[0] <= q->ts[1];
    if (rc == 0)
        rc = hw_diff_make(&side[0], &side[1], same ? HW_DIFF_SAME_RUN : 0, &d);
    for (size_t i = 0; rc == 0 && i < d.rows.n; i++) {
        const struct hw_diff_value *v = &d.rows.v[i].self;
        if (hw_diff_change(&d, v, m) == 0)
            continue;
        hw_view_put_text(a, hw_strings_get(d.strings, d.functions.v[i].name));
        hw_view_put_text(a, hw_strings_get(d.strings, d.functions.v[i].module));
        put_file(a, d.functions.v[i].of);
        hw_view_put_int(a, hw_value_get(&v->a, m));
        hw_view_put_int(a, hw_value_get(&v->b, m));
        hw_view_put_int(a, (int64_t)hw_diff_change(&d, v, m));
        hw_view_put_real(a, hw_diff_error(&d, v, m));
        hw_view_put_int(a, hw_diff_is_significant(&d, v, m));
    }
    if (rc == 0)
        hw_diff_done(&d);
    hw_vec_done(&values[0]);
    hw_vec_done(&values[1]);
    return rc;
}

int hw_view_fill_sizes(struct hw_view_result *a, const struct hw_view_query *q)
{
    hw_size_rows rows = {0};
    const struct hw_sizes_query query = {
        .p = a->p, .list = &a->list, .fns = a->fns, .upid = q->upid[0], .ts_ns = q->ts[0]};
    int rc = hw_sizes_find(&query, &rows);
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        const struct hw_size_row *r = &rows.v[i];
        uint64_t up_to = hw_size_up_to(r->class);
        hw_view_put_text(a, hw_strings_get(hw_callsites_strings(a->p->callsites),
                                           a->list.v.v[r->series].heap_name));
        hw_view_put_function(a, r->function);
        hw_view_put_int(a, up_to > INT64_MAX ? INT64_MAX : (int64_t)up_to);
        hw_view_put_int(a, r->v.alloc_objects);
        hw_view_put_int(a, r->v.alloc_space);
        hw_view_put_int(a, r->v.exact_objects);
        hw_view_put_int(a, r->v.objects);
        hw_view_put_int(a, r->v.space);
        hw_view_put_int(a, r->v.temporary_objects);
        hw_view_put_int(a, r->v.temporary_space);
    }
    hw_vec_done(&rows);
    return rc;
}

int hw_view_fill_lifetimes(struct hw_view_result *a, const struct hw_view_query *q)
{
    struct hw_process_view view;
    struct hw_lifetimes l;
    int rc = hw_process_view_init(&view, a->p, &a->list, q->upid[0]);
    if (rc < 0)
        return rc;
    const struct hw_lifetimes_query query = {
        .p = a->p, .list = &a->list, .fns = a->fns, .upid = q->upid[0], .start_ns = view.start_ns};
    rc = hw_lifetimes_find(&query, &l);
    for (size_t i = 0; rc == 0 && i < l.v.n; i++) {
        const struct hw_lifetime *r = &l.v.v[i];
        hw_view_put_function(a, r->function);
        hw_view_put_int(a, r->alloc_space);
        hw_view_put_int(a, r->alloc_objects);
        hw_view_put_int(a, r->space);
        hw_view_put_real(a, r->mean_lifetime_s);
        hw_view_put_real(a, r->temporary_least);
        hw_view_put_real(a, r->temporary_most);
    }
    if (rc == 0)
        hw_lifetimes_done(&l);
    hw_process_view_done(&view);
    return rc;
}

static void put_account(struct hw_view_result *a, const struct hw_accounting *account)
{
    struct hw_account_step steps[HW_ACCOUNT_MAX_STEPS];
    size_t n = hw_accounting_steps(account, steps);
    for (size_t i = 0; i < n; i++) {
        hw_view_put_text(a, hw_bytes_str(steps[i].name));
        hw_view_put_int(a, steps[i].is_total);
        hw_view_put_real(a, steps[i].end - steps[i].begin);
        hw_view_put_int(a, steps[i].at_ns);
    }
}

int hw_view_fill_accounting(struct hw_view_result *a, const struct hw_view_query *q)
{
    struct hw_process_view view;
    struct hw_accounting account;
    hw_values values = {0};
    struct hw_value live = {0};
    int rc = hw_process_view_init(&view, a->p, &a->list, q->upid[0]);
    if (rc < 0)
        return rc;
    size_t n = view.moments.n;
    int64_t ts =
        n && q->ts[0] > view.moments.v[n - 1].ts_ns ? view.moments.v[n - 1].ts_ns : q->ts[0];
    rc = values_at(a, q->upid[0], ts, &values);
    for (size_t i = 0; rc == 0 && i < values.n; i++)
        hw_value_add(&live, &values.v[i].v);
    if (rc == 0 && n)
        rc = hw_accounting_find(a->p, &view, ts, &live, &account);
    if (rc == 0 && n) {
        put_account(a, &account);
        hw_accounting_done(&account);
    }
    hw_vec_done(&values);
    hw_process_view_done(&view);
    return rc;
}

static void put_part(struct hw_view_result *a, enum hw_memory_part part, const char *name,
                     const struct hw_part_bytes *b)
{
    hw_view_put_text(a, hw_bytes_str(hw_memory_part_name(part)));
    if (name)
        hw_view_put_text(a, hw_bytes_str(name));
    else
        hw_view_put(a, (struct hw_view_cell){.kind = CELL_NULL});
    hw_view_put_int(a, (int64_t)b->rss);
    hw_view_put_int(a, (int64_t)b->pss);
    hw_view_put_int(a, (int64_t)b->swap);
}

static void put_parts(struct hw_view_result *a, const struct hw_memory_parts *m)
{
    for (int p = 0; p < HW_PART_COUNT; p++) {
        put_part(a, (enum hw_memory_part)p, NULL, &m->parts[p]);
        hw_view_put(a, (struct hw_view_cell){.kind = CELL_NULL});
        hw_view_put(a, (struct hw_view_cell){.kind = CELL_NULL});
        hw_view_put_int(a, m->ts_ns);
    }
    for (size_t i = 0; i < m->entries.n; i++) {
        const struct hw_part_entry *e = &m->entries.v[i];
        put_part(a, e->part, hw_strings_cstr(hw_callsites_strings(a->p->callsites), e->name),
                 &e->bytes);
        hw_view_put_int(a, (int64_t)e->size);
        hw_view_put_int(a, (int64_t)e->n_mappings);
        hw_view_put_int(a, m->ts_ns);
    }
}

static int64_t last_of(const struct hw_process_view *v)
{
    return v->moments.n ? v->moments.v[v->moments.n - 1].ts_ns : INT64_MAX;
}

int hw_view_fill_account(struct hw_view_result *a, const struct hw_view_query *q)
{
    struct hw_process_view view;
    struct hw_memory_parts parts;
    hw_values values = {0};
    int rc = hw_process_view_init(&view, a->p, &a->list, q->upid[0]);
    if (rc < 0)
        return rc;
    int64_t ts = q->ts[0], last = last_of(&view);
    rc = values_at(a, q->upid[0], ts < last ? ts : last, &values);
    if (rc == 0)
        rc = hw_memory_parts_find(a->p, &view, ts < last ? ts : last, &values, &parts);
    if (rc == 0) {
        put_parts(a, &parts);
        hw_memory_parts_done(&parts);
    }
    hw_vec_done(&values);
    hw_process_view_done(&view);
    return rc == HW_ENOTFOUND ? HW_OK : rc; /* no mappings: no rows */
}

int hw_view_fill_rounding(struct hw_view_result *a, const struct hw_view_query *q)
{
    hw_values values = {0};
    hw_sites sites = {0};
    uint64_t interval = hw_view_interval_of(a, q->upid[0]);
    int rc = values_at(a, q->upid[0], q->ts[0], &values);
    if (rc == 0)
        rc = hw_sites_init(&sites, a->fns);
    if (rc == 0)
        hw_sites_add(&sites, a->fns, &values, HW_SITES_NOW);
    for (size_t i = 0; rc == 0 && i < sites.n; i++) {
        const struct hw_value *v = &sites.v[i].now;
        if (v->rounding <= 0)
            continue;
        hw_view_put_function(a, sites.v[i].function);
        hw_view_put_int(a, v->rounding);
        hw_view_put_real(a, hw_rounding_error(v, interval));
        hw_view_put_int(a, v->space);
        hw_view_put_int(a, v->objects);
    }
    hw_vec_done(&sites);
    hw_vec_done(&values);
    return rc;
}
