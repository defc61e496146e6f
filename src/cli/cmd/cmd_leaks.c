/*
 * heapwise leaks TRACE: what grew from dump to dump
 *
 * The gate (--fail-above) considers only rows with the verdict "likely leak": a cache that fills or
 * a queue that grows and shrinks must not fail a pipeline, or the gate is soon switched off.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/limits.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/parts/loss_text.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "cli/parts/short_name.h"
#include "cli/parts/site_text.h"
#include "cli/report/account_trend.h"
#include "cli/report/findings.h"
#include "cli/report/report.h"
#include "config/command/units.h"
#include "export/figures.h"
#include "views/findings/leaks.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

enum {
    MAX_SUPPRESSIONS = 4 << 20,
    COL_RATE = 13,
    COL_GREW = 11,
    COL_LIVE = 18,
    SPARK = 16,
    VERDICT_DUMPS = 4
};

struct page {
    const struct hw_cli *cli;
    struct hw_open_profile show;
    struct hw_functions *fns;
    struct hw_site_names names;
    struct hw_suppressions known;
    struct hw_leaks leaks;
    struct hw_account_growth growth; /* of the whole process, besides its live heap */
    struct hw_report_options look;
    size_t n_rows;
    bool has_limit, failed;
    double limit;
    struct hw_strbuf line;
};

static void fmt_rate(char out[HW_UNIT_MAX], double v)
{
    char buf[HW_UNIT_MAX];
    (void)snprintf(out, HW_UNIT_MAX, "%s%.*s/s", v > 0 ? "+" : "", (int)HW_UNIT_MAX - 6,
                   hw_fmt_bytes(buf, v));
}

static const char *more_dumps(const struct page *pg)
{
    return pg->show.label ? "take a longer time, or a shorter --step"
                          : "record with -c 10s (--continuous-dump)";
}

static void put_head(struct page *pg)
{
    const struct hw_leaks *l = &pg->leaks;
    char buf[HW_UNIT_MAX];
    double error = hw_value_error(&l->total, HW_METRIC_SPACE, l->interval_bytes);
    hw_strbuf_clear(&pg->line);
    hw_open_profile_label(&pg->show, &pg->line);
    if (l->t.n == pg->show.view.n_dumps)
        hw_strbuf_addf(&pg->line, "  %zu dump%s", l->t.n, hw_plural(l->t.n));
    else /* the last dumps of a program that cleans up are not a trend */
        hw_strbuf_addf(&pg->line, "  %zu of %zu dump%s", l->t.n, pg->show.view.n_dumps,
                       hw_plural(pg->show.view.n_dumps));
    if (l->t.n)
        hw_strbuf_addf(&pg->line, " over %s",
                       hw_fmt_duration(buf, (int64_t)(l->t.v[l->t.n - 1] * 1e9)));
    hw_strbuf_addf(&pg->line, "  interval %s\n", hw_fmt_bytes_exact(buf, l->interval_bytes));
    hw_strbuf_addf(&pg->line, "live %s", hw_fmt_bytes(buf, (double)l->total.space));
    if (l->total.space > 0)
        hw_strbuf_adds(&pg->line,
                       hw_fmt_error(buf, (double)l->total.space, error, pg->look.unicode));
    hw_strbuf_addf(&pg->line, "   %s since the first dump",
                   hw_fmt_change(buf, (double)l->total.space - l->total_first, /* bytes = */ true));
    hw_strbuf_addf(&pg->line, "   likely leaks %s\n",
                   hw_fmt_change(buf, hw_leaks_likely(l), /* bytes = */ true));
    fputs(pg->line.p ? pg->line.p : "", stdout);
    if (l->t.n < VERDICT_DUMPS)
        printf("%zu dump%s: four are needed for a verdict; %s\n", l->t.n, hw_plural(l->t.n),
               more_dumps(pg));
}

static void put_site(struct page *pg, const struct hw_leak *r, size_t width)
{
    uint32_t function = pg->leaks.tree.v.v[r->node].function;
    if (function == HW_ID_NONE) {
        hw_strbuf_adds(&pg->line, "[all the rest]");
        return;
    }
    const struct hw_function *fn = hw_functions_get(pg->fns, function);
    struct hw_strbuf label = {0}, module = {0};
    hw_site_where(&pg->names, function, &module);
    size_t room = width > module.n + 4 + 16 ? width - module.n - 4 : 16;
    hw_site_label(&pg->names, fn, &label);
    hw_short_name(&pg->line, label.p ? label.p : "", room);
    hw_site_class(&pg->names, function, &pg->line);
    if (module.n)
        hw_strbuf_addf(&pg->line, "  (%s)", module.p);
    pg->line.failed |= label.failed || module.failed;
    hw_strbuf_done(&label);
    hw_strbuf_done(&module);
    if (r->rest)
        hw_strbuf_adds(&pg->line, ", the rest below it");
}

/* The next function up the stack; of an interpreter's own only what is in no managed function's
 * stack. */
static uint32_t next_caller(const struct page *pg, uint32_t node, bool in_managed)
{
    const struct hw_flame *t = &pg->leaks.tree;
    do
        node = t->v.v[node].parent;
    while (in_managed && node != 0 && node != HW_ID_NONE &&
           hw_functions_get(pg->fns, t->v.v[node].function)->language == HW_FUNCTION_RUNTIME);
    return node;
}

static bool is_in_managed(const struct page *pg, uint32_t node)
{
    const struct hw_flame *t = &pg->leaks.tree;
    for (; node != 0; node = t->v.v[node].parent)
        if (hw_functions_get(pg->fns, t->v.v[node].function)->language == HW_FUNCTION_MANAGED)
            return true;
    return false;
}

/* "called by serve < main": the callers, nearest first, as many as fit. */
static void put_callers(struct page *pg, const struct hw_leak *r)
{
    const struct hw_flame *t = &pg->leaks.tree;
    bool in_managed = is_in_managed(pg, r->node);
    uint32_t node =
        t->v.v[r->node].function == HW_ID_NONE ? 0 : next_caller(pg, r->node, in_managed);
    struct hw_strbuf label = {0};
    if (node == 0 || node == HW_ID_NONE)
        return;
    hw_strbuf_clear(&pg->line);
    hw_strbuf_adds(&pg->line, "        called by ");
    for (bool first = true; node != 0; node = next_caller(pg, node, in_managed), first = false) {
        hw_strbuf_clear(&label);
        hw_site_label(&pg->names, hw_functions_get(pg->fns, t->v.v[node].function), &label);
        struct hw_strbuf shown = {0};
        hw_short_name(&shown, label.p ? label.p : "", 40);
        if (!first && hw_text_width(pg->line.p) + shown.n + 9 > pg->look.width) {
            hw_strbuf_adds(&pg->line, " < ...");
            hw_strbuf_done(&shown);
            break;
        }
        hw_strbuf_addf(&pg->line, "%s%s", first ? "" : " < ", shown.p ? shown.p : "");
        hw_strbuf_done(&shown);
    }
    hw_strbuf_done(&label);
    puts(pg->line.p ? pg->line.p : "");
}

/* The rule that fired, in words. */
static void put_reason(struct page *pg, const struct hw_leak *r)
{
    const struct hw_trend_result *t = &r->trend;
    char low[HW_UNIT_MAX], high[HW_UNIT_MAX], p[16];
    if (r->verdict != HW_LEAK_LIKELY && r->verdict != HW_LEAK_GROWING)
        return;
    fmt_rate(low, t->slope_low);
    fmt_rate(high, t->slope_high);
    (void)snprintf(p, sizeof p, t->p < 0.001 ? "< 0.001" : "= %.3f", t->p);
    printf("        rose in %zu of %zu intervals (tau %.2f, p %s), between %s and %s, "
           "%.1f%% freed",
           r->n_rises, pg->leaks.t.n - 1, t->tau, p, low, high, 100 * r->freed_ratio);
    if (r->survival >= 0)
        printf(", %s%.0f%% of the old lives",
               r->survival_most > r->survival + 0.005 ? "at least " : "", 100 * r->survival);
    if (r->now.samples < 10)
        printf(", only %lld sample%s", (long long)r->now.samples,
               hw_plural((uint64_t)r->now.samples));
    putchar('\n');
}

static void paint(const struct page *pg, enum hw_leak_verdict v, bool on)
{
    if (!pg->look.color)
        return;
    const char *code = v == HW_LEAK_LIKELY ? "31" : v == HW_LEAK_GROWING ? "33" : "2";
    printf("\033[%sm", on ? code : "0");
}

static void put_row(struct page *pg, size_t i)
{
    const struct hw_leaks *l = &pg->leaks;
    const struct hw_leak *r = &l->v.v[i];
    char buf[HW_UNIT_MAX], cell[2 * HW_UNIT_MAX], tail[HW_UNIT_MAX];
    double error = hw_value_error(&r->now, HW_METRIC_SPACE, l->interval_bytes);
    unsigned left = 17 + COL_RATE + COL_GREW + COL_LIVE + 3 + (pg->look.unicode ? SPARK + 2 : 0);
    paint(pg, r->verdict, true);
    printf("%-15s", hw_leak_verdict_name(r->verdict));
    paint(pg, r->verdict, false);
    hw_strbuf_clear(&pg->line);
    fmt_rate(cell, r->trend.slope);
    hw_put_cell(&pg->line, cell, COL_RATE);
    hw_put_cell(&pg->line, hw_fmt_change(buf, r->grown, /* bytes = */ true), COL_GREW);
    double space = (double)r->now.space;
    (void)snprintf(cell, sizeof cell, "%s%s", hw_fmt_bytes(buf, space),
                   hw_fmt_error(tail, space, space > 0 ? error : 0, pg->look.unicode));
    hw_put_cell(&pg->line, cell, COL_LIVE);
    hw_strbuf_adds(&pg->line, "  ");
    if (pg->look.unicode) {
        hw_put_spark(&pg->line, l->history + i * l->t.n, l->t.n, SPARK);
        for (size_t k = l->t.n; k < SPARK; k++)
            hw_strbuf_addc(&pg->line, ' ');
        hw_strbuf_adds(&pg->line, "  ");
    }
    put_site(pg, r, pg->look.width > left + 24 ? pg->look.width - left : 24);
    puts(pg->line.p ? pg->line.p : "");
    if (r->verdict <= HW_LEAK_GROWING) {
        put_callers(pg, r);
        put_reason(pg, r);
    }
}

static void put_gate(const struct page *pg, FILE *out)
{
    char buf[HW_UNIT_MAX], limit[HW_UNIT_MAX];
    if (!pg->has_limit)
        return;
    fprintf(out, "%s: likely leaks grew by %s, the limit is %s\n", pg->failed ? "FAILED" : "passed",
            hw_fmt_bytes(buf, hw_leaks_likely(&pg->leaks)), hw_fmt_bytes(limit, pg->limit));
}

static int put_text(struct page *pg, bool *incomplete)
{
    const struct hw_leaks *l = &pg->leaks;
    char buf[HW_UNIT_MAX];
    put_head(pg);
    putchar('\n');
    if (pg->n_rows)
        printf("%-15s%*s%*s%*s%s  SITE\n", "VERDICT", COL_RATE, "RATE", COL_GREW, "GREW", COL_LIVE,
               "LIVE", pg->look.unicode ? "  TREND           " : "");
    for (size_t i = 0; i < pg->n_rows; i++)
        put_row(pg, i);
    if (pg->n_rows < l->v.n)
        printf("%zu more row%s (--top 0: all)\n", l->v.n - pg->n_rows,
               hw_plural(l->v.n - pg->n_rows));
    if (l->n_suppressed)
        printf("%zu row%s suppressed, %s live\n", l->n_suppressed, hw_plural(l->n_suppressed),
               hw_fmt_bytes(buf, (double)l->suppressed_space));
    hw_account_growth_put(&pg->growth);
    if (pg->n_rows &&
        hw_series_has(&pg->show.list, pg->show.p, pg->show.view.upid, HW_PYTHON_HEAP)) {
        fputs("\nnote: ", stdout);
        hw_print_folded(stdout, HW_FREE_LISTS_TEXT, 6, 6, pg->look.width);
    }
    if (pg->has_limit)
        putchar('\n');
    put_gate(pg, stdout);
    return hw_open_profile_losses(&pg->show, stdout, incomplete);
}

/* ---- JSON ---- */

static void json_path(struct page *pg, struct hw_json *j, const struct hw_leak *r)
{
    const struct hw_flame *t = &pg->leaks.tree;
    HW_VEC(uint32_t) nodes = {0};
    hw_json_key(j, "path");
    hw_json_begin_array(j);
    for (uint32_t node = r->node; node != 0; node = t->v.v[node].parent)
        if (hw_vec_push(&nodes, node) < 0)
            pg->line.failed = true;
    for (size_t i = nodes.n; i-- > 0;) {
        hw_strbuf_clear(&pg->line);
        hw_site_label(&pg->names, hw_functions_get(pg->fns, t->v.v[nodes.v[i]].function),
                      &pg->line);
        hw_json_strn(j, pg->line.p, pg->line.n);
    }
    hw_json_end_array(j);
    hw_vec_done(&nodes);
}

static void json_row(struct page *pg, struct hw_json *j, size_t i)
{
    const struct hw_leaks *l = &pg->leaks;
    const struct hw_leak *r = &l->v.v[i];
    uint32_t function = l->tree.v.v[r->node].function;
    hw_json_begin_object(j);
    hw_json_kv_str(j, "verdict", hw_leak_verdict_name(r->verdict));
    hw_strbuf_clear(&pg->line);
    if (function != HW_ID_NONE)
        hw_site_label(&pg->names, hw_functions_get(pg->fns, function), &pg->line);
    hw_json_key(j, "function");
    hw_json_strn(j, pg->line.p, pg->line.n);
    hw_json_kv_bool(j, "rest", r->rest);
    json_path(pg, j, r);
    hw_json_kv_double(j, "slope_bytes_per_s", r->trend.slope);
    hw_json_kv_double(j, "slope_low", r->trend.slope_low);
    hw_json_kv_double(j, "slope_high", r->trend.slope_high);
    double step = l->t.n > 1 ? l->t.v[l->t.n - 1] / (double)(l->t.n - 1) : 0;
    hw_json_kv_double(j, "slope_bytes_per_interval", r->trend.slope * step);
    hw_json_kv_double(j, "tau", r->trend.tau);
    hw_json_kv_double(j, "p", r->trend.p);
    hw_json_kv_double(j, "grown", r->grown);
    hw_json_kv_double(j, "freed_ratio", r->freed_ratio);
    if (r->survival >= 0) {
        hw_json_kv_double(j, "survival_least", r->survival);
        hw_json_kv_double(j, "survival_most", r->survival_most);
    }
    for (int m = 0; m < (int)hw_value_metrics(&r->now); m++)
        hw_json_kv_int(j, hw_metric_name((enum hw_metric)m),
                       hw_value_get(&r->now, (enum hw_metric)m));
    hw_json_put_errors(j, &r->now, l->interval_bytes);
    hw_json_kv_int(j, "samples", r->now.samples);
    hw_json_kv_doubles(j, "history", &l->history[i * l->t.n], l->t.n);
    hw_json_end_object(j);
}

static int put_json(struct page *pg, bool *incomplete)
{
    const struct hw_leaks *l = &pg->leaks;
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "leaks", 0);
    if (pg->show.label)
        hw_json_kv_str(&j, "label", pg->show.label);
    else
        hw_json_kv_int(&j, "pid", pg->show.p->processes.v[pg->show.upid.v].pid);
    hw_json_kv_uint(&j, "interval_bytes", l->interval_bytes);
    hw_json_kv_int(&j, "space", l->total.space);
    hw_json_kv_double(&j, "grown", (double)l->total.space - l->total_first);
    hw_json_kv_double(&j, "likely_leaks_grown", hw_leaks_likely(l));
    hw_json_kv_uint(&j, "suppressed_rows", l->n_suppressed);
    hw_json_kv_int(&j, "suppressed_space", l->suppressed_space);
    if (pg->has_limit) {
        hw_json_key(&j, "gate");
        hw_json_begin_object(&j);
        hw_json_kv_double(&j, "limit", pg->limit);
        hw_json_kv_bool(&j, "failed", pg->failed);
        hw_json_end_object(&j);
    }
    hw_json_key(&j, "seconds");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < l->t.n; i++)
        hw_json_double(&j, l->t.v[i]);
    hw_json_end_array(&j);
    hw_json_key(&j, "rows");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < pg->n_rows; i++)
        json_row(pg, &j, i);
    hw_json_end_array(&j);
    hw_account_growth_json(&pg->growth, &j);
    int rc = hw_json_page_end(&j);
    int losses = hw_open_profile_losses(&pg->show, stderr, incomplete);
    return rc < 0 ? rc : losses;
}

/* ---- the command ---- */

static int read_known(struct page *pg, struct hw_error *err)
{
    const struct hw_optval *files = &pg->cli->opts.v[HW_OPT_SUPPRESSIONS];
    struct hw_strbuf text = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < files->list.n; i++) {
        char *part;
        size_t n;
        rc = hw_file_read(AT_FDCWD, files->list.v[i], MAX_SUPPRESSIONS, &part, &n, err);
        if (rc < 0)
            break;
        hw_strbuf_add(&text, part, n);
        hw_strbuf_addc(&text, '\n');
        free(part);
    }
    if (rc == 0)
        rc = text.failed ? HW_ENOMEM
                         : hw_suppressions_read(hw_bytes_of(text.p, text.n), &pg->known, err);
    hw_strbuf_done(&text);
    return rc;
}

static int find(struct page *pg)
{
    struct hw_wrappers wrappers = hw_open_profile_wrappers(pg->cli);
    int rc = hw_functions_new(pg->show.p->callsites, &wrappers, &pg->fns);
    if (rc == 0)
        rc = hw_open_profile_site_names(&pg->show, pg->fns, &pg->names);
    if (rc < 0)
        return rc;
    struct hw_leaks_query q = {.p = pg->show.p,
                               .list = &pg->show.list,
                               .view = &pg->show.view,
                               .fns = pg->fns,
                               .namer = &pg->show.namer,
                               .suppressions = &pg->known};
    rc = hw_leaks_find(&q, &pg->leaks);
    bool is_whole = !pg->show.label && !hw_opt_text(&pg->cli->opts, HW_OPT_SHOW_HEAP);
    if (rc == HW_OK && is_whole)
        rc = hw_account_growth_find(&pg->show, &pg->growth);
    size_t top = (size_t)hw_opt_num(&pg->cli->opts, HW_OPT_TOP);
    pg->n_rows = top && top < pg->leaks.v.n ? top : pg->leaks.v.n;
    pg->failed = pg->has_limit && hw_leaks_likely(&pg->leaks) > pg->limit;
    return rc;
}

static int answer(struct page *pg)
{
    bool json = hw_opt_flag(&pg->cli->opts, HW_OPT_JSON), incomplete = false;
    int rc = find(pg);
    if (rc == 0)
        rc = json ? put_json(pg, &incomplete) : put_text(pg, &incomplete);
    if (rc == 0 && pg->line.failed)
        rc = HW_ENOMEM;
    int status = hw_cli_written(pg->cli, rc);
    if (status != HW_EXIT_OK)
        return status;
    if (pg->failed)
        return HW_EXIT_GATE;
    if (pg->has_limit && pg->leaks.t.n < VERDICT_DUMPS) { /* nothing was judged: not a pass */
        hw_cli_error(pg->cli, "no-data", "--fail-above: %zu dump%s, a verdict needs four",
                     pg->leaks.t.n, hw_plural(pg->leaks.t.n));
        hw_cli_hint("%s", more_dumps(pg));
        return HW_EXIT_NO_DATA;
    }
    return incomplete ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}

static int begin(struct hw_cli *cli, struct page *pg)
{
    const char *limit = hw_opt_text(&cli->opts, HW_OPT_FAIL_ABOVE);
    struct hw_error err = {0};
    uint64_t bytes = 0;
    *pg = (struct page){.cli = cli, .look = hw_report_defaults(cli, STDOUT_FILENO)};
    if (limit && hw_parse_size(limit, &bytes, &err) < 0) {
        hw_cli_error(cli, NULL, "--fail-above: %s", err.text);
        return hw_cli_usage_exit(cli);
    }
    pg->has_limit = limit != NULL;
    pg->limit = (double)bytes;
    int rc = read_known(pg, &err);
    if (rc < 0) {
        hw_suppressions_done(&pg->known);
        return hw_cli_fail(cli, &err);
    }
    return HW_EXIT_OK;
}

/* rc: of opening the profile. */
static int end(struct hw_cli *cli, struct page *pg, int rc)
{
    if (rc == 0) {
        hw_pager_begin(cli);
        rc = answer(pg);
    }
    hw_account_growth_done(&pg->growth);
    hw_leaks_done(&pg->leaks);
    hw_site_names_done(&pg->names);
    hw_functions_free(pg->fns);
    hw_suppressions_done(&pg->known);
    hw_strbuf_done(&pg->line);
    hw_open_profile_done(&pg->show);
    return rc;
}

int hw_leaks_of(struct hw_cli *cli, const struct hw_open_profile_want *want)
{
    struct page pg;
    int rc = begin(cli, &pg);
    return rc != 0 ? rc : end(cli, &pg, hw_open_profile_file_at(&pg.show, cli, want));
}

int hw_cmd_leaks(struct hw_cli *cli)
{
    struct page pg;
    if (cli->opts.n_args != 1) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "more than one trace" : "which trace?");
        hw_cli_hint("heapwise leaks TRACE");
        return hw_cli_usage_exit(cli);
    }
    int rc = begin(cli, &pg);
    if (rc != 0)
        return rc;
    rc = hw_open_profile_file(&pg.show, cli, cli->opts.args[0], /* as_report = */ false);
    return end(cli, &pg, rc);
}
