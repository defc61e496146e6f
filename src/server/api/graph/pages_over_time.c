/*
 * Memory over time, at no more than 64 moments.
 *
 * GET /api/v1/traces/ID/parts: resident memory by owner at each reading, and what pins free memory.
 * Parameters: upid at. {"names": [of parts], "points": [[ts, rss, bytes of each part…]…], "grows":
 * [one of each part], "pinned": {"at", "bytes", "whole" (or null), "rows", "sites": [[name, module,
 * pins, blocks, live, [[caller, share]…]]…]} or null}
 *
 * GET /api/v1/traces/ID/functions-over-time: the functions with most memory at any of the moments.
 * Parameters: a selection; total=1 (including callees; totals overlap). {"moments": [ts…],
 * "all": [bytes…], "functions": [{"name", "module", "values": [bytes…]}…]}
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/pages_internal.h"
#include "views/account/pinned.h"
#include "views/findings/parts_series.h"
#include "views/findings/sites.h"
#include "views/findings/top_functions.h"
#include "views/flame/callers.h"

#include "base/banned.h"

enum { MAX_PINS = 50 };

/* ---- parts ---- */

static void put_series(struct hw_json *j, const struct hw_parts_series *s)
{
    hw_json_key(j, "names");
    hw_json_begin_array(j);
    for (int k = 0; k < HW_PART_COUNT; k++)
        hw_json_str(j, hw_memory_part_name((enum hw_memory_part)k));
    hw_json_end_array(j);
    hw_json_key(j, "points");
    hw_json_begin_array(j);
    for (size_t i = 0; i < s->v.n; i++) {
        hw_json_begin_array(j);
        hw_json_int(j, s->v.v[i].ts_ns);
        hw_json_double(j, s->v.v[i].rss);
        for (int k = 0; k < HW_PART_COUNT; k++)
            hw_json_double(j, s->v.v[i].parts[k]);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_key(j, "grows");
    hw_json_begin_array(j);
    for (int k = 0; k < HW_PART_COUNT; k++)
        hw_json_bool(j, s->growth[k].grows);
    hw_json_end_array(j);
}

struct pins {
    struct hw_pinned pinned;
    hw_sites sites, live; /* live: not ranked, the i-th is function i */
    struct hw_callers *callers;
    bool known;
};

static void pins_done(struct pins *x)
{
    free(x->callers);
    hw_vec_done(&x->sites);
    hw_vec_done(&x->live);
    hw_pinned_done(&x->pinned);
}

static int add_sites(const struct hw_page_trace *t, const hw_values *values, hw_sites *out)
{
    int rc = hw_sites_init(out, t->functions);
    if (rc == HW_OK)
        hw_sites_add(out, t->functions, values, HW_SITES_NOW);
    return rc;
}

static int find_callers(const struct hw_page_trace *t, struct pins *x)
{
    struct hw_flame tree = {0};
    int rc = hw_flame_build(t->profile->callsites, t->functions, &x->pinned.values, HW_FLAME_SITES,
                            &tree);
    if (rc == HW_OK)
        rc = hw_callers_find(t->profile->callsites, t->functions, &tree, HW_METRIC_SPACE,
                             HW_CALLERS_OF_SELF, &x->callers);
    hw_flame_done(&tree);
    return rc;
}

static int find_pins(const struct hw_page_trace *t, const struct hw_page_selection *s,
                     const struct hw_memory_parts *m, struct pins *x)
{
    int rc = hw_pinned_find(t->profile, &t->list, s->upid, m, &x->pinned);
    if (rc < 0)
        return rc == HW_ENOTFOUND ? HW_OK : rc;
    x->known = true;
    rc = add_sites(t, &x->pinned.live, &x->live);
    if (rc == HW_OK)
        rc = add_sites(t, &x->pinned.values, &x->sites);
    if (rc == HW_OK)
        rc = find_callers(t, x);
    if (rc == HW_OK)
        hw_sites_rank(&x->sites, HW_METRIC_SPACE);
    while (rc == HW_OK && x->sites.n && x->sites.v[x->sites.n - 1].now.space <= 0)
        x->sites.n--;
    return rc;
}

static void put_pin(struct hw_json *j, const struct hw_page_trace *t,
                    const struct hw_page_selection *s, const struct pins *x, size_t i)
{
    const struct hw_site *r = &x->sites.v[i];
    const struct hw_callers *c = &x->callers[r->function];
    hw_json_begin_array(j);
    hw_json_str(j, hw_page_label(t, s->program, r->function));
    hw_json_str(j, hw_page_where(t, s->program, r->function));
    hw_json_int(j, r->now.space);
    hw_json_int(j, r->now.objects);
    hw_json_int(j, r->function < x->live.n ? x->live.v[r->function].now.space : 0);
    hw_json_begin_array(j);
    for (size_t k = 0; k < c->n; k++) {
        hw_json_begin_array(j);
        hw_json_str(j, hw_page_label(t, s->program, c->function[k]));
        hw_json_double(j, c->share[k]);
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
    hw_json_end_array(j);
}

static void put_pins(struct hw_json *j, const struct hw_page_trace *t,
                     const struct hw_page_selection *s, const struct pins *x)
{
    hw_json_key(j, "pinned");
    if (!x->known) {
        hw_json_null(j);
        return;
    }
    hw_json_begin_object(j);
    hw_json_kv_int(j, "at", x->pinned.ts_ns);
    hw_json_kv_double(j, "bytes", x->pinned.pinned);
    hw_json_key(j, "whole");
    if (x->pinned.whole < 0)
        hw_json_null(j);
    else
        hw_json_double(j, x->pinned.whole);
    hw_json_kv_uint(j, "rows", x->sites.n);
    hw_json_key(j, "sites");
    hw_json_begin_array(j);
    for (size_t i = 0; i < x->sites.n && i < MAX_PINS; i++)
        put_pin(j, t, s, x, i);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static int find_parts(const struct hw_page_trace *t, const struct hw_page_selection *s,
                      struct hw_parts_series *series, struct pins *pins, struct hw_error *err)
{
    const struct hw_process_view *v = hw_page_view(t, s->upid);
    hw_values live = {0};
    struct hw_memory_parts m = {0};
    if (!v)
        return hw_fail(err, HW_ENOTFOUND, 0, "no heap profile of this process");
    int rc = hw_parts_series_find(t->profile, &t->list, v, series);
    if (rc == HW_OK)
        rc = hw_process_values(t->profile, &t->list, s->upid, s->ts_ns, s->at_max, &live);
    if (rc == HW_OK) {
        rc = hw_memory_parts_find(t->profile, v, s->ts_ns, &live, &m);
        if (rc == HW_OK)
            rc = find_pins(t, s, &m, pins);
        rc = rc == HW_ENOTFOUND ? HW_OK : rc;
    }
    hw_memory_parts_done(&m);
    hw_vec_done(&live);
    return rc < 0 ? hw_fail(err, rc, 0, "parts over time:") : HW_OK;
}

void hw_page_owners_over_time(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_selection sel;
    struct hw_parts_series series = {0};
    struct pins pins = {0};
    struct hw_error err = {0};
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK)
        rc = find_parts(t, &sel, &series, &pins, &err);
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
    } else {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        hw_json_begin_object(&j);
        put_series(&j, &series);
        put_pins(&j, t, &sel, &pins);
        hw_json_end_object(&j);
        hw_page_reply_json(req, &j);
    }
    pins_done(&pins);
    hw_parts_series_done(&series);
    hw_page_selection_done(&sel);
}

/* ---- functions ---- */

static const struct hw_process_moment *moment_of(const struct hw_process_view *v, size_t i,
                                                 size_t n_points)
{
    size_t last = v->moments.n - 1;
    return &v->moments.v[n_points > 1 ? i * last / (n_points - 1) : last];
}

static int add_point(struct hw_page_trace *t, const struct hw_page_selection *s,
                     struct hw_page_mask *mask, const struct hw_process_moment *m,
                     struct hw_top_functions *out, struct hw_error *err)
{
    struct hw_page_selection then = *s; /* its filters are borrowed from s */
    hw_values values = {0};
    then.ts_ns = m->ts_ns;
    then.at_max = m->at_max;
    then.has_from = false;
    int rc = hw_page_values(t, &then, &values, err);
    if (rc == HW_OK && mask->mask) {
        hw_stack_mask_apply(mask->mask, &values);
        rc = hw_stack_mask_error(mask->mask);
    }
    if (rc == HW_OK)
        hw_top_functions_add(out, &values);
    hw_vec_done(&values);
    return rc;
}

static void put_functions(struct hw_json *j, const struct hw_page_trace *t,
                          const struct hw_page_selection *s, const struct hw_process_view *v,
                          const struct hw_top_functions *f)
{
    hw_json_begin_object(j);
    hw_json_key(j, "moments");
    hw_json_begin_array(j);
    for (size_t i = 0; i < f->n_points; i++)
        hw_json_int(j, moment_of(v, i, f->n_points)->ts_ns);
    hw_json_end_array(j);
    hw_json_kv_doubles(j, "all", f->all, f->n_points);
    hw_json_key(j, "functions");
    hw_json_begin_array(j);
    for (size_t r = 0; r < f->n; r++) {
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", hw_page_label(t, s->program, f->function[r]));
        hw_json_kv_str(j, "module", hw_page_where(t, s->program, f->function[r]));
        hw_json_key(j, "values");
        hw_json_begin_array(j);
        for (size_t i = 0; i < f->n_points; i++)
            hw_json_double(j, hw_top_functions_get(f, r, i));
        hw_json_end_array(j);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

void hw_page_functions_over_time(struct hw_http_request *req, struct hw_page_trace *t)
{
    struct hw_page_selection sel;
    struct hw_page_mask mask = {0};
    struct hw_top_functions top = {0};
    struct hw_error err = {0};
    int rc = hw_page_selection_init(&sel, t, req, &err);
    const struct hw_process_view *v = rc == HW_OK ? hw_page_view(t, sel.upid) : NULL;
    if (rc == HW_OK && !v)
        rc = hw_fail(&err, HW_ENOTFOUND, 0, "no heap profile of this process");
    if (rc == HW_OK)
        rc = hw_page_mask_init(&mask, t, &sel);
    size_t n = v ? hw_top_functions_points(t->functions, v->moments.n) : 0;
    if (rc == HW_OK)
        rc = hw_top_functions_init(&top, t->profile->callsites, t->functions, sel.metric,
                                   hw_http_query(req, "total") != NULL, n);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = hw_http_gone(req) ? HW_EGONE
                               : add_point(t, &sel, &mask, moment_of(v, i, n), &top, &err);
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc);
    } else {
        struct hw_json j;
        hw_top_functions_rank(&top);
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        put_functions(&j, t, &sel, v, &top);
        hw_page_reply_json(req, &j);
    }
    hw_top_functions_done(&top);
    hw_page_mask_done(&mask);
    hw_page_selection_done(&sel);
}
