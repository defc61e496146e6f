#include "cli/fleet/fleet_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/parts/json_page.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "cli/parts/short_name.h"
#include "config/command/units.h"
#include "views/findings/sites.h"

#include "base/banned.h"

enum { COL_VALUE = 22, COL_SHARE = 8, COL_OTHER = 12, COL_NAME = 28 };

static char *fmt(enum hw_metric m, char out[HW_UNIT_MAX], double v)
{
    return hw_metric_is_bytes(m) ? hw_fmt_bytes(out, v) : hw_fmt_count(out, v);
}

/* "12.1 MiB +-0.4%" */
static void fmt_value(const struct hw_fleet_job *j, double v, double error,
                      char out[2 * HW_UNIT_MAX])
{
    char buf[HW_UNIT_MAX], tail[HW_UNIT_MAX];
    (void)snprintf(out, 2 * HW_UNIT_MAX, "%s%s", fmt(j->metric, buf, v),
                   hw_fmt_error(tail, v, v > 0 ? error : 0, j->look.unicode));
}

static void put_range(const struct hw_fleet_job *j, struct hw_strbuf *line)
{
    hw_fleet_where_show(&j->where, line);
    hw_strbuf_adds(line, "  ");
    hw_fleet_put_time(j->where.since_s, line);
    hw_strbuf_adds(line, " to ");
    hw_fleet_put_time(j->where.until_s, line);
}

static void json_where(const struct hw_fleet_job *j, struct hw_json *out)
{
    struct hw_strbuf text = {0};
    hw_fleet_where_show(&j->where, &text);
    hw_json_kv_str(out, "store", j->store.shown);
    hw_json_kv_str(out, "selection", text.p ? text.p : "");
    hw_json_kv_int(out, "since", j->where.since_s);
    hw_json_kv_int(out, "until", j->where.until_s);
    hw_json_kv_str(out, "metric", hw_metric_name(j->metric));
    hw_strbuf_done(&text);
}

/* ---- top ---- */

struct top {
    struct hw_fleet_job *j;
    const struct hw_fleet_result *a;
    struct hw_open_profile show;
    struct hw_functions *fns;
    hw_sites sites;
    struct hw_value total;
    size_t n_rows;
};

static int find_sites(struct top *t)
{
    struct hw_wrappers wrappers = hw_open_profile_wrappers(t->j->cli);
    int rc = hw_functions_new(t->show.p->callsites, &wrappers, &t->fns);
    if (rc == 0)
        rc = hw_sites_init(&t->sites, t->fns);
    if (rc < 0)
        return rc;
    hw_sites_add(&t->sites, t->fns, &t->show.values, HW_SITES_NOW);
    hw_sites_rank(&t->sites, t->j->metric);
    for (size_t i = 0; i < t->show.values.n; i++)
        hw_value_add(&t->total, &t->show.values.v[i].v);
    size_t top = (size_t)hw_opt_num(&t->j->cli->opts, HW_OPT_TOP);
    t->n_rows = top && top < t->sites.n ? top : t->sites.n;
    return HW_OK;
}

static double value_of(const struct top *t, const struct hw_value *v)
{
    return (double)hw_value_get(v, t->j->metric);
}

static double error_of(const struct top *t, const struct hw_value *v)
{
    return hw_value_error(v, t->j->metric, t->show.view.interval_bytes);
}

/* Bytes next to a count, and vice versa. */
static enum hw_metric beside(enum hw_metric m)
{
    static const enum hw_metric other[HW_METRIC_USUAL] = {
        [HW_METRIC_SPACE] = HW_METRIC_OBJECTS,
        [HW_METRIC_OBJECTS] = HW_METRIC_SPACE,
        [HW_METRIC_ALLOC_SPACE] = HW_METRIC_ALLOC_OBJECTS,
        [HW_METRIC_ALLOC_OBJECTS] = HW_METRIC_ALLOC_SPACE};
    return other[m];
}

static void put_site(struct top *t, const struct hw_site *s, struct hw_strbuf *line)
{
    const struct hw_callsites *cs = t->show.p->callsites;
    const struct hw_function *fn = hw_functions_get(t->fns, s->function);
    struct hw_bytes module = hw_module_base(cs, fn->module);
    struct hw_strbuf label = {0};
    size_t left = COL_VALUE + COL_SHARE + COL_OTHER + 2 + module.n + 4;
    hw_function_label(&label, cs, fn, &t->show.namer);
    hw_short_name(line, label.p ? label.p : "",
                  t->j->look.width > left + 24 ? t->j->look.width - left : 24);
    if (module.n && fn->name.v) {
        hw_strbuf_adds(line, "  (");
        hw_strbuf_add_escaped(line, module.p, module.n);
        hw_strbuf_addc(line, ')');
    }
    hw_strbuf_done(&label);
}

static int put_top(struct top *t)
{
    const struct hw_fleet_job *j = t->j;
    struct hw_strbuf line = {0};
    char cell[2 * HW_UNIT_MAX], buf[HW_UNIT_MAX];
    double all = value_of(t, &t->total);
    put_range(j, &line);
    hw_strbuf_addc(&line, '\n');
    hw_fleet_put_counts(&t->a->counts, &line);
    hw_strbuf_addf(&line, ", interval %s\n", hw_fmt_bytes_exact(buf, t->a->counts.interval_bytes));
    fmt_value(j, all, error_of(t, &t->total), cell);
    hw_strbuf_addf(&line, "%s a process and dump: %s\n\n", hw_metric_name(j->metric), cell);
    hw_put_cell(&line, hw_metric_name(j->metric), COL_VALUE);
    hw_put_cell(&line, "share", COL_SHARE);
    hw_put_cell(&line, hw_metric_name(beside(j->metric)), COL_OTHER);
    hw_strbuf_adds(&line, "  site\n");
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct hw_site *s = &t->sites.v[i];
        double v = value_of(t, &s->now);
        fmt_value(j, v, error_of(t, &s->now), cell);
        hw_put_cell(&line, cell, COL_VALUE);
        (void)snprintf(cell, sizeof cell, "%.1f%%", all > 0 ? 100 * v / all : 0);
        hw_put_cell(&line, cell, COL_SHARE);
        hw_put_cell(&line,
                    fmt(beside(j->metric), buf, (double)hw_value_get(&s->now, beside(j->metric))),
                    COL_OTHER);
        hw_strbuf_adds(&line, "  ");
        put_site(t, s, &line);
        hw_strbuf_addc(&line, '\n');
    }
    if (t->n_rows < t->sites.n)
        hw_strbuf_addf(&line, "%zu more row%s (--top 0: all)\n", t->sites.n - t->n_rows,
                       hw_plural(t->sites.n - t->n_rows));
    int rc = line.failed ? HW_ENOMEM : HW_OK;
    if (rc == 0)
        fputs(line.p, stdout);
    hw_strbuf_done(&line);
    return rc;
}

static void json_counts(const struct hw_fleet_counts *n, struct hw_json *out)
{
    hw_json_kv_uint(out, "hosts", n->n_hosts);
    hw_json_kv_uint(out, "processes", n->n_processes);
    hw_json_kv_uint(out, "dumps", n->n_dumps);
    hw_json_kv_uint(out, "store_rows", n->n_rows);
    hw_json_kv_uint(out, "first", n->first_s);
    hw_json_kv_uint(out, "last", n->last_s);
    hw_json_kv_uint(out, "interval_bytes", n->interval_bytes);
}

static int put_top_json(struct top *t)
{
    const struct hw_callsites *cs = t->show.p->callsites;
    struct hw_json out;
    struct hw_strbuf text = {0};
    hw_json_page_begin(&out, stdout, "fleet-top", 0);
    json_where(t->j, &out);
    json_counts(&t->a->counts, &out);
    hw_json_kv_uint(&out, "stacks", t->a->n_stacks);
    hw_json_kv_uint(&out, "stacks_unknown", t->a->n_unknown);
    hw_json_kv_uint(&out, "stacks_left_out", t->a->n_left_out);
    hw_json_kv_double(&out, "total", value_of(t, &t->total));
    hw_json_kv_double(&out, "error", error_of(t, &t->total));
    hw_json_key(&out, "rows");
    hw_json_begin_array(&out);
    for (size_t i = 0; i < t->n_rows; i++) {
        const struct hw_site *s = &t->sites.v[i];
        const struct hw_function *fn = hw_functions_get(t->fns, s->function);
        hw_json_begin_object(&out);
        hw_strbuf_clear(&text);
        hw_function_label(&text, cs, fn, &t->show.namer);
        hw_json_key(&out, "function");
        hw_json_strn(&out, text.p, text.n);
        hw_strbuf_clear(&text);
        hw_function_module(&text, cs, fn);
        hw_json_key(&out, "module");
        hw_json_strn(&out, text.p, text.n);
        hw_json_kv_double(&out, "value", value_of(t, &s->now));
        hw_json_kv_double(&out, "error", error_of(t, &s->now));
        hw_json_kv_int(&out, hw_metric_name(beside(t->j->metric)),
                       hw_value_get(&s->now, beside(t->j->metric)));
        hw_json_end_object(&out);
    }
    hw_json_end_array(&out);
    hw_strbuf_done(&text);
    return hw_json_page_end(&out);
}

int hw_fleet_top(struct hw_fleet_job *j)
{
    struct hw_fleet_result a = {0};
    struct hw_error err = {0};
    if (hw_fleet_get(&j->source, &j->where, j->metric, &a, &err) < 0)
        return hw_fleet_fail(j, &err);
    struct top t = {.j = j, .a = &a};
    struct hw_open_profile_want want = {.path = "store", .profile = a.p, .metric = j->metric};
    hw_fleet_say_losses(&a);
    int rc = hw_open_profile_file_at(&t.show, j->cli, &want);
    if (rc == 0) {
        hw_pager_begin(j->cli);
        rc = find_sites(&t);
        if (rc == 0)
            rc = hw_opt_flag(&j->cli->opts, HW_OPT_JSON) ? put_top_json(&t) : put_top(&t);
        rc = hw_cli_written(j->cli, rc);
        hw_vec_done(&t.sites);
        hw_functions_free(t.fns);
        hw_open_profile_done(&t.show);
    }
    hw_fleet_result_done(&a);
    return rc;
}

/* ---- hosts ---- */

static void put_host(const struct hw_fleet_job *j, const struct hw_fleet_hosts *h,
                     const struct hw_fleet_host *host, struct hw_strbuf *line)
{
    char cell[2 * HW_UNIT_MAX], buf[HW_UNIT_MAX];
    hw_strbuf_adds(line, host->deviates ? "deviates" : "        ");
    fmt_value(j, host->mean, host->error, cell);
    hw_put_cell(line, cell, COL_VALUE);
    hw_put_cell(line, hw_fmt_change(buf, host->mean - h->median, hw_metric_is_bytes(j->metric)),
                14);
    if (h->spread > 0)
        (void)snprintf(cell, sizeof cell, "%+.1f", host->score);
    else
        (void)snprintf(cell, sizeof cell, "-");
    hw_put_cell(line, cell, COL_SHARE);
    hw_put_cell(line, hw_fmt_count(buf, (double)host->n_processes), COL_OTHER);
    hw_put_cell(line, hw_fmt_count(buf, (double)host->n_dumps), COL_SHARE);
    hw_strbuf_adds(line, "  ");
    hw_strbuf_add_escaped(line, host->name, strlen(host->name));
    hw_strbuf_addc(line, '\n');
}

static int put_hosts(const struct hw_fleet_job *j, const struct hw_fleet_hosts *h, size_t n)
{
    struct hw_strbuf line = {0};
    char buf[HW_UNIT_MAX], spread[HW_UNIT_MAX];
    size_t n_deviate = 0;
    while (n_deviate < h->v.n && h->v.v[n_deviate].deviates)
        n_deviate++;
    put_range(j, &line);
    hw_strbuf_addf(&line,
                   "\n%zu host%s%s, median %s %s a process and dump, spread %s; %zu deviate%s\n\n",
                   h->v.n, hw_plural(h->v.n), h->cut ? " (there are more)" : "",
                   fmt(j->metric, buf, h->median), hw_metric_name(j->metric),
                   fmt(j->metric, spread, h->spread), n_deviate, n_deviate == 1 ? "s" : "");
    hw_strbuf_adds(&line, "        ");
    hw_put_cell(&line, hw_metric_name(j->metric), COL_VALUE);
    hw_put_cell(&line, "off", 14);
    hw_put_cell(&line, "spreads", COL_SHARE);
    hw_put_cell(&line, "processes", COL_OTHER);
    hw_put_cell(&line, "dumps", COL_SHARE);
    hw_strbuf_adds(&line, "  host\n");
    for (size_t i = 0; i < n; i++)
        put_host(j, h, &h->v.v[i], &line);
    if (n < h->v.n)
        hw_strbuf_addf(&line, "%zu more row%s (--top 0: all)\n", h->v.n - n, hw_plural(h->v.n - n));
    if (n_deviate) {
        const char *name = h->v.v[0].name;
        hw_strbuf_adds(&line, "what it holds more of: heapwise fleet diff --a 'host!=");
        hw_strbuf_add_escaped(&line, name, strlen(name));
        hw_strbuf_adds(&line, "' --b 'host=");
        hw_strbuf_add_escaped(&line, name, strlen(name));
        hw_strbuf_adds(&line, "'\n");
    }
    int rc = line.failed ? HW_ENOMEM : HW_OK;
    if (rc == 0)
        fputs(line.p, stdout);
    hw_strbuf_done(&line);
    return rc;
}

static int put_hosts_json(const struct hw_fleet_job *j, const struct hw_fleet_hosts *h, size_t n)
{
    struct hw_json out;
    hw_json_page_begin(&out, stdout, "fleet-hosts", 0);
    json_where(j, &out);
    hw_json_kv_uint(&out, "hosts", h->v.n);
    hw_json_kv_bool(&out, "cut", h->cut);
    hw_json_kv_double(&out, "median", h->median);
    hw_json_kv_double(&out, "spread", h->spread);
    hw_json_key(&out, "rows");
    hw_json_begin_array(&out);
    for (size_t i = 0; i < n; i++) {
        const struct hw_fleet_host *host = &h->v.v[i];
        hw_json_begin_object(&out);
        hw_json_kv_str(&out, "host", host->name);
        hw_json_kv_bool(&out, "deviates", host->deviates);
        hw_json_kv_double(&out, "value", host->mean);
        hw_json_kv_double(&out, "error", host->error);
        hw_json_kv_double(&out, "score", host->score);
        hw_json_kv_uint(&out, "processes", host->n_processes);
        hw_json_kv_uint(&out, "dumps", host->n_dumps);
        hw_json_end_object(&out);
    }
    hw_json_end_array(&out);
    return hw_json_page_end(&out);
}

int hw_fleet_hosts(struct hw_fleet_job *j)
{
    struct hw_fleet_hosts h;
    struct hw_error err = {0};
    int rc = hw_fleet_get_hosts(&j->source, &j->where, j->metric, &h, &err);
    if (rc == 0 && h.v.n == 0)
        rc = hw_fail(&err, HW_ENOTFOUND, 0, "store '%s' has no such samples in this time",
                     j->store.shown);
    if (rc < 0)
        return hw_fleet_fail(j, &err);
    size_t top = (size_t)hw_opt_num(&j->cli->opts, HW_OPT_TOP);
    size_t n = top && top < h.v.n ? top : h.v.n;
    hw_pager_begin(j->cli);
    rc = hw_opt_flag(&j->cli->opts, HW_OPT_JSON) ? put_hosts_json(j, &h, n) : put_hosts(j, &h, n);
    hw_fleet_hosts_done(&h);
    return hw_cli_written(j->cli, rc);
}

/* ---- labels ---- */

static int put_words(const struct hw_fleet_job *j, const struct hw_fleet_words *w,
                     const char *label)
{
    struct hw_strbuf line = {0};
    char buf[HW_UNIT_MAX];
    if (hw_opt_flag(&j->cli->opts, HW_OPT_JSON)) {
        struct hw_json out;
        hw_json_page_begin(&out, stdout, "fleet-labels", 0);
        json_where(j, &out);
        if (label)
            hw_json_kv_str(&out, "label", label);
        hw_json_kv_bool(&out, "cut", w->cut);
        hw_json_key(&out, label ? "values" : "labels");
        hw_json_begin_array(&out);
        for (size_t i = 0; i < w->v.n; i++) {
            hw_json_begin_object(&out);
            hw_json_kv_str(&out, label ? "value" : "label", w->v.v[i].text);
            hw_json_kv_uint(&out, "rows", w->v.v[i].n_rows);
            if (label)
                hw_json_kv_uint(&out, "last", w->v.v[i].last_s);
            hw_json_end_object(&out);
        }
        hw_json_end_array(&out);
        return hw_json_page_end(&out);
    }
    for (size_t i = 0; i < w->v.n; i++) {
        const struct hw_fleet_word *word = &w->v.v[i];
        if (label) {
            hw_put_cell(&line, hw_fmt_count(buf, (double)word->n_rows), COL_OTHER);
            hw_strbuf_adds(&line, " rows  last ");
            hw_fleet_put_time(word->last_s, &line);
            hw_strbuf_adds(&line, "  ");
        }
        hw_strbuf_add_escaped(&line, word->text, strlen(word->text));
        hw_strbuf_addc(&line, '\n');
    }
    if (w->cut)
        hw_strbuf_addf(&line, "and more: a condition (--label) takes fewer\n");
    int rc = line.failed ? HW_ENOMEM : HW_OK;
    if (rc == 0 && line.n)
        fputs(line.p, stdout);
    hw_strbuf_done(&line);
    return rc;
}

/* The columns that every row has, then the others. */
static int add_columns(struct hw_fleet_words *w)
{
    struct hw_fleet_words all = {.cut = w->cut};
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && hw_fleet_label(i); i++) {
        struct hw_fleet_word word = {.text = strdup(hw_fleet_label(i))};
        rc = word.text && hw_vec_push(&all.v, word) == 0 ? HW_OK : HW_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < w->v.n; i++) {
        rc = hw_vec_push(&all.v, w->v.v[i]) == 0 ? HW_OK : HW_ENOMEM;
        if (rc == 0)
            w->v.v[i].text = NULL;
    }
    hw_fleet_words_done(w);
    *w = all;
    return rc;
}

int hw_fleet_labels(struct hw_fleet_job *j)
{
    const struct hw_opts *o = &j->cli->opts;
    const char *label = o->n_args > 1 ? o->args[1] : NULL;
    struct hw_fleet_words w;
    struct hw_error err = {0};
    int rc = label ? hw_fleet_get_label_values(&j->source, &j->where, label, &w, &err)
                   : hw_fleet_get_labels(&j->source, &j->where, &w, &err);
    if (rc < 0)
        return hw_fleet_fail(j, &err);
    if (!label)
        rc = add_columns(&w);
    if (rc == 0) {
        hw_pager_begin(j->cli);
        rc = put_words(j, &w, label);
    }
    hw_fleet_words_done(&w);
    return hw_cli_written(j->cli, rc);
}
