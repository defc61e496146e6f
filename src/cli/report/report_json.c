/* {"version":1,"type":"report",…}: stable; new members may appear, old ones keep their meaning. */
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "cli/parts/loss_text.h"
#include "cli/report/report_data.h"
#include "cli/report/report_end.h"
#include "cli/report/report_managed.h"
#include "export/figures.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

static void put_value(struct hw_json *j, const struct hw_report_data *d, const struct hw_value *v)
{
    for (int m = 0; m < (int)hw_value_metrics(v); m++)
        hw_json_kv_int(j, hw_metric_name((enum hw_metric)m), hw_value_get(v, (enum hw_metric)m));
    hw_json_kv_int(j, "samples", v->samples);
    hw_json_kv_int(j, "alloc_samples", v->alloc_samples);
    if (v->idle)
        hw_json_kv_int(j, "idle", v->idle);
    hw_json_put_errors(j, v, d->view.interval_bytes);
}

static void put_moment(struct hw_json *j, const struct hw_report_data *d, const char *key,
                       const struct hw_process_moment *m)
{
    hw_json_key(j, key);
    hw_json_begin_object(j);
    hw_json_kv_int(j, "ts_ns", m->ts_ns);
    hw_json_kv_int(j, "since_start_ns", hw_sat_sub(m->ts_ns, d->view.start_ns));
    put_value(j, d, &m->total);
    hw_json_end_object(j);
}

static void put_process(struct hw_json *j, const struct hw_report_data *d, hw_upid upid)
{
    hw_json_kv_int(j, "pid", d->p->processes.v[upid.v].pid);
    hw_json_kv_str(j, "name", hw_report_process_name(d, upid));
}

static void put_sites(struct hw_json *j, const struct hw_report_data *d)
{
    const struct hw_strings *strings = hw_callsites_strings(d->p->callsites);
    struct hw_strbuf label = {0};
    hw_json_key(j, "sites");
    hw_json_begin_array(j);
    for (size_t i = 0; i < d->n_rows; i++) {
        const struct hw_site *s = &d->sites.v[i];
        const struct hw_function *fn = hw_functions_get(d->functions, s->function);
        hw_strbuf_clear(&label);
        hw_site_label(&d->names, fn, &label);
        hw_json_begin_object(j);
        hw_json_kv_str(j, "function", label.p);
        hw_json_kv_str(j, "raw_name", hw_strings_cstr(strings, fn->name));
        hw_json_kv_str(j, "module", hw_strings_cstr(strings, fn->module));
        const struct hw_function_at *at = &d->names.places[s->function];
        if (at->file.v)
            hw_json_kv_str(j, "file", hw_strings_cstr(strings, at->file));
        if (at->line)
            hw_json_kv_uint(j, "line", at->line);
        hw_json_put_class(j, &d->names, s->function);
        hw_json_put_callers(j, &d->names, s->function);
        put_value(j, d, &s->now);
        if (d->before)
            hw_json_kv_int(j, "space_delta", hw_sat_sub(s->now.space, s->before_space));
        hw_json_kv_int(j, "peak_space", s->peak.space);
        hw_json_kv_str(j, "trend", hw_trend_name(d->trends[i]));
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_strbuf_done(&label);
}

/* What the list leaves out: sites beyond --top, and those with a zero metric. */
static void put_other_sites(struct hw_json *j, const struct hw_report_data *d)
{
    struct hw_value sum = {0};
    for (size_t i = d->n_rows; i < d->sites.n; i++)
        hw_value_add(&sum, &d->sites.v[i].now);
    hw_json_key(j, "other_sites");
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "count", d->sites.n - d->n_rows);
    for (int m = 0; m < (int)hw_value_metrics(&sum); m++)
        hw_json_kv_int(j, hw_metric_name((enum hw_metric)m), hw_value_get(&sum, (enum hw_metric)m));
    hw_json_end_object(j);
}

static void put_losses(struct hw_json *j, const struct hw_report_data *d)
{
    struct hw_strbuf text = {0};
    hw_json_key(j, "losses");
    hw_json_begin_array(j);
    for (size_t i = 0; i < d->losses.n; i++) {
        const struct hw_loss *l = &d->losses.v[i];
        hw_strbuf_clear(&text);
        hw_loss_text(&text, d->p, l);
        hw_json_begin_object(j);
        hw_json_kv_str(j, "kind", hw_loss_word(d->p, l));
        hw_json_kv_uint(j, "count", l->count);
        hw_json_kv_bool(j, "incomplete", hw_loss_is_incomplete(l));
        hw_json_kv_str(j, "text", text.p);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_strbuf_done(&text);
}

static void put_others(struct hw_json *j, const struct hw_report_data *d)
{
    hw_json_key(j, "other_processes");
    hw_json_begin_array(j);
    for (size_t i = 0; i < d->ranks.n; i++) {
        if (d->ranks.v[i].upid.v == d->upid.v)
            continue;
        hw_json_begin_object(j);
        put_process(j, d, d->ranks.v[i].upid);
        hw_json_kv_int(j, "space", d->ranks.v[i].total.space);
        hw_json_kv_int(j, "alloc_space", d->ranks.v[i].total.alloc_space);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}

static void put_beside(struct hw_json *j, const struct hw_report_data *d)
{
    const struct hw_strings *strings = hw_callsites_strings(d->p->callsites);
    hw_json_key(j, "other_heaps");
    hw_json_begin_array(j);
    for (size_t i = 0; i < d->beside.n; i++) {
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", hw_strings_cstr(strings, d->beside.v[i].name));
        for (int m = 0; m < (int)hw_value_metrics(&d->beside.v[i].now); m++)
            hw_json_kv_int(j, hw_metric_name((enum hw_metric)m),
                           hw_value_get(&d->beside.v[i].now, (enum hw_metric)m));
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
}

static void put_account(struct hw_json *j, const struct hw_report_data *d)
{
    if (!d->has_account)
        return;
    hw_json_key(j, "account");
    hw_json_begin_object(j);
    hw_json_kv_int(j, "at_ns", hw_sat_sub(d->account.ts_ns, d->view.start_ns));
    hw_json_kv_double(j, "rss_bytes", d->account.total.rss);
    for (int p = 0; p < HW_PART_COUNT; p++)
        hw_json_kv_double(j, hw_memory_part_name((enum hw_memory_part)p), d->account.parts[p].rss);
    hw_json_end_object(j);
}

int hw_report_json(const struct hw_report_data *d, FILE *out)
{
    struct hw_json j;
    hw_json_page_begin(&j, out, "report", 0);
    hw_json_key(&j, "process");
    hw_json_begin_object(&j);
    put_process(&j, d, d->upid);
    hw_json_end_object(&j);
    hw_json_kv_uint(&j, "dumps", d->view.n_dumps);
    hw_json_kv_int(&j, "duration_ns", hw_sat_sub(d->now.ts_ns, d->view.start_ns));
    hw_json_kv_uint(&j, "interval_bytes", d->view.interval_bytes);
    hw_json_kv_uint(&j, "samples", d->n_samples);
    hw_json_kv_uint(&j, "lost", d->n_lost);
    hw_json_kv_uint(&j, "others_lost", d->others.n_samples);
    hw_json_kv_uint(&j, "others_incomplete", d->others.upids.n); /* processes */
    hw_json_kv_bool(&j, "incomplete", d->incomplete);
    put_moment(&j, d, "end", &d->now);
    put_moment(&j, d, "peak", &d->peak);
    hw_json_kv_bool(&j, "peak_recorded", d->view.knows_peak); /* else: the largest dump */
    hw_json_kv_str(&j, "sites_at", d->shows_peak ? "peak" : "end");
    hw_json_kv_str(&j, "metric", hw_metric_name(d->o->metric));
    if (d->has_rss) {
        hw_json_kv_double(&j, "rss_bytes", d->rss);
        hw_json_kv_int(&j, "rss_at_ns", hw_sat_sub(d->rss_ns, d->view.start_ns));
    }
    if (d->has_minfo) {
        hw_json_kv_double(&j, "malloc_info_in_use_bytes", d->minfo_in_use);
        hw_json_kv_double(&j, "malloc_info_free_bytes", d->minfo_free);
        hw_json_kv_int(&j, "malloc_info_at_ns", hw_sat_sub(d->minfo_ns, d->view.start_ns));
    }
    put_account(&j, d);
    hw_report_end_json(d, &j);
    put_sites(&j, d);
    put_other_sites(&j, d);
    put_losses(&j, d);
    put_beside(&j, d);
    int rc = hw_report_managed_json(d, &j);
    put_others(&j, d);
    int written = hw_json_page_end(&j);
    return rc < 0 ? rc : written;
}
