/*
 * GET /api/v1/traces/ID/leaks: growth from dump to dump, with verdicts of views/findings/leaks.h.
 *
 * Parameters: upid, filters; known=LINES (suppressions as in views/findings/suppressions.h); limit
 *             (rows).
 * A row's path is that in a flamegraph without allocator frames, so that the page can find it by
 * names alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/pages_internal.h"
#include "views/findings/leaks.h"

#include "base/banned.h"

enum { DEFAULT_ROWS = 100 };

static const char *label_of(const struct hw_page_trace *t, const struct hw_page_program *program,
                            const struct hw_leaks *l, uint32_t node)
{
    uint32_t function = l->tree.v.v[node].function;
    return function == HW_ID_NONE ? "" : hw_page_label(t, program, function);
}

static void put_path(struct hw_json *j, const struct hw_page_trace *t,
                     const struct hw_page_program *program, const struct hw_leaks *l,
                     const struct hw_leak *row)
{
    HW_VEC(uint32_t) nodes = {0};
    for (uint32_t node = row->node; node != 0; node = l->tree.v.v[node].parent)
        if (hw_vec_push(&nodes, node) < 0)
            j->error = HW_ENOMEM;
    hw_json_key(j, "path");
    hw_json_begin_array(j);
    for (size_t i = nodes.n; i-- > 0;)
        hw_json_str(j, label_of(t, program, l, nodes.v[i]));
    hw_json_end_array(j);
    hw_vec_done(&nodes);
}

static const char *module_of(const struct hw_page_trace *t, const struct hw_page_program *program,
                             const struct hw_leaks *l, uint32_t node)
{
    uint32_t function = l->tree.v.v[node].function;
    return function == HW_ID_NONE ? "" : hw_page_where(t, program, function);
}

static void put_trend(struct hw_json *j, const struct hw_leaks *l, const struct hw_trend_result *r)
{
    double step = l->t.n > 1 ? l->t.v[l->t.n - 1] / (double)(l->t.n - 1) : 0;
    hw_json_kv_double(j, "slope", r->slope);
    hw_json_kv_double(j, "slope_low", r->slope_low);
    hw_json_kv_double(j, "slope_high", r->slope_high);
    hw_json_kv_double(j, "slope_interval", r->slope * step);
    hw_json_kv_double(j, "tau", r->tau);
    hw_json_kv_double(j, "p", r->p);
}

static void put_row(struct hw_json *j, const struct hw_page_trace *t,
                    const struct hw_page_program *program, const struct hw_leaks *l, size_t i)
{
    const struct hw_leak *r = &l->v.v[i];
    hw_json_begin_object(j);
    hw_json_kv_str(j, "verdict", hw_leak_verdict_name(r->verdict));
    hw_json_kv_str(j, "name", label_of(t, program, l, r->node));
    hw_json_kv_str(j, "module", module_of(t, program, l, r->node));
    hw_json_kv_bool(j, "rest", r->rest);
    put_path(j, t, program, l, r);
    put_trend(j, l, &r->trend);
    hw_json_kv_double(j, "grown", r->grown);
    hw_json_kv_uint(j, "rises", r->n_rises);
    hw_json_kv_double(j, "freed_ratio", r->freed_ratio);
    hw_json_kv_double(j, "survival", r->survival);
    hw_json_kv_double(j, "survival_most", r->survival_most);
    hw_json_kv_int(j, "space", r->now.space);
    hw_json_kv_double(j, "error", hw_value_error(&r->now, HW_METRIC_SPACE, l->interval_bytes));
    hw_json_kv_int(j, "objects", r->now.objects);
    hw_json_kv_int(j, "alloc_space", r->now.alloc_space);
    hw_json_kv_int(j, "samples", r->now.samples);
    hw_json_kv_doubles(j, "history", &l->history[i * l->t.n], l->t.n);
    hw_json_end_object(j);
}

static void put_all(struct hw_json *j, const struct hw_page_trace *t,
                    const struct hw_page_program *program, const struct hw_leaks *l, size_t limit)
{
    size_t n_likely = 0;
    for (size_t i = 0; i < l->v.n; i++)
        n_likely += l->v.v[i].verdict == HW_LEAK_LIKELY;
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "interval", l->interval_bytes);
    hw_json_kv_int(j, "space", l->total.space);
    hw_json_kv_double(j, "error", hw_value_error(&l->total, HW_METRIC_SPACE, l->interval_bytes));
    hw_json_kv_double(j, "grown", (double)l->total.space - l->total_first);
    hw_json_kv_double(j, "likely", hw_leaks_likely(l));
    hw_json_kv_uint(j, "n_likely", n_likely);
    hw_json_kv_uint(j, "n_rows", l->v.n);
    hw_json_kv_uint(j, "suppressed_rows", l->n_suppressed);
    hw_json_kv_int(j, "suppressed_space", l->suppressed_space);
    hw_json_key(j, "moments");
    hw_json_begin_array(j);
    for (size_t i = 0; i < l->ts_ns.n; i++)
        hw_json_int(j, l->ts_ns.v[i]);
    hw_json_end_array(j);
    hw_json_key(j, "rows");
    hw_json_begin_array(j);
    for (size_t i = 0; i < l->v.n && i < limit; i++)
        put_row(j, t, program, l, i);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static int find(struct hw_page_trace *t, const struct hw_page_selection *sel,
                const struct hw_suppressions *known, struct hw_leaks *out, struct hw_error *err)
{
    struct hw_page_mask mask;
    struct hw_namer namer = hw_page_namer(t);
    const struct hw_process_view *view = hw_page_view(t, sel->upid);
    int rc = hw_page_mask_init(&mask, t, sel);
    if (rc == HW_OK && !view)
        rc = HW_ENOTFOUND;
    if (rc == HW_OK) {
        struct hw_leaks_query q = {.p = t->profile,
                                   .list = &t->list,
                                   .view = view,
                                   .fns = t->functions,
                                   .namer = &namer,
                                   .suppressions = known,
                                   .mask = mask.mask};
        rc = hw_leaks_find(&q, out);
    }
    hw_page_mask_done(&mask);
    return rc < 0 ? hw_fail(err, rc, 0, "leaks:") : HW_OK;
}

void hw_page_leaks(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *text = hw_http_query(req, "known"), *limit = hw_http_query(req, "limit");
    struct hw_page_selection sel;
    struct hw_suppressions known = {0};
    struct hw_leaks leaks = {0};
    struct hw_error err = {0};
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK && text)
        rc = hw_suppressions_read(hw_bytes_of(text, strlen(text)), &known, &err);
    if (rc == HW_OK)
        rc = find(t, &sel, &known, &leaks, &err);
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc == HW_EFORMAT ? HW_EINVAL : rc);
    } else {
        struct hw_json j;
        hw_json_init(&j, NULL, NULL, /* pretty = */ false);
        put_all(&j, t, sel.program, &leaks,
                limit && *limit ? strtoull(limit, NULL, 10) : DEFAULT_ROWS);
        hw_page_reply_json(req, &j);
    }
    hw_leaks_done(&leaks);
    hw_suppressions_done(&known);
    hw_page_selection_done(&sel);
}
