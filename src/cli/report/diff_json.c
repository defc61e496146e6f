/* diff_json.c - what changed, as JSON */
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "cli/parts/json_page.h"
#include "cli/parts/site_text.h"
#include "cli/report/diff_page.h"

#include "base/banned.h"

enum { A = HW_DIFF_A, B = HW_DIFF_B };

static void json_value(const struct hw_diff_page *pg, struct hw_json *j,
                       const struct hw_diff_value *v)
{
    hw_json_kv_int(j, "a", hw_value_get(&v->a, pg->metric));
    hw_json_kv_int(j, "b", hw_value_get(&v->b, pg->metric));
    hw_json_kv_double(j, "change", hw_diff_change(&pg->diff, v, pg->metric));
    hw_json_kv_double(j, "error", hw_diff_error(&pg->diff, v, pg->metric));
    hw_json_kv_bool(j, "significant", hw_diff_is_significant(&pg->diff, v, pg->metric));
}

static void json_side(const struct hw_diff_page *pg, struct hw_json *j, int side)
{
    const struct hw_open_profile *s = &pg->show[side];
    hw_json_key(j, side == A ? "a" : "b");
    hw_json_begin_object(j);
    hw_json_kv_str(j, "path", pg->path[side]);
    if (s->label) {
        hw_json_kv_str(j, "label", s->label);
    } else {
        hw_json_kv_int(j, "pid", s->p->processes.v[s->upid.v].pid);
        hw_json_kv_int(j, "ts_ns", s->moment->ts_ns);
        hw_json_kv_bool(j, "peak", hw_diff_page_at_peak(s));
    }
    hw_json_kv_uint(j, "interval_bytes", s->view.interval_bytes);
    hw_json_end_object(j);
}

static void json_row(const struct hw_diff_page *pg, struct hw_json *j, const struct hw_diff_row *r)
{
    const struct hw_diff_function *fn = &pg->diff.functions.v[r->function];
    struct hw_bytes name = hw_strings_get(pg->diff.strings, fn->name);
    struct hw_bytes module = hw_strings_get(pg->diff.strings, fn->module);
    hw_json_begin_object(j);
    hw_json_key(j, "function");
    hw_json_strn(j, name.p, name.n);
    hw_json_key(j, "module");
    hw_json_strn(j, module.p, module.n);
    int side = hw_diff_page_side(pg, r);
    if (fn->of[side] != HW_ID_NONE)
        hw_json_put_callers(j, &pg->names[side], fn->of[side]);
    hw_json_kv_str(j, "status", hw_diff_page_status(pg, &r->self));
    json_value(pg, j, &r->self);
    hw_json_key(j, "total");
    hw_json_begin_object(j);
    json_value(pg, j, &r->total);
    hw_json_end_object(j);
    hw_json_end_object(j);
}

int hw_diff_put_json(struct hw_diff_page *pg, bool *incomplete)
{
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "diff", 0);
    hw_json_kv_str(&j, "metric", hw_metric_name(pg->metric));
    hw_json_kv_bool(&j, "same_recording", pg->diff.same_run);
    json_side(pg, &j, A);
    json_side(pg, &j, B);
    hw_json_key(&j, "total");
    hw_json_begin_object(&j);
    json_value(pg, &j, &pg->diff.nodes.v[0].total);
    hw_json_end_object(&j);
    if (pg->has_limit) {
        hw_json_key(&j, "gate");
        hw_json_begin_object(&j);
        hw_json_kv_double(&j, "limit", pg->limit.value);
        hw_json_kv_str(&j, "unit", pg->limit.is_share ? "percent" : hw_metric_name(pg->metric));
        hw_json_kv_bool(&j, "failed", pg->failed);
        hw_json_end_object(&j);
    }
    hw_json_kv_uint(&j, "hidden_rows", pg->n_hidden);
    hw_json_kv_uint(&j, "left_out_rows", pg->order[pg->n_changed]);
    hw_json_key(&j, "rows");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < pg->n_changed; i++)
        json_row(pg, &j, hw_diff_page_row(pg, i));
    hw_json_end_array(&j);
    hw_diff_account_json(pg, &j);
    int rc = hw_json_page_end(&j);
    for (int i = A; rc == 0 && i < HW_DIFF_SIDES; i++)
        if (i == A || pg->show[A].p != pg->show[B].p)
            rc = hw_open_profile_losses(&pg->show[i], stderr, incomplete);
    return rc;
}
