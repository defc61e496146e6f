/*
 * heapwise diff A [B]: what changed
 *
 * With one file both sides are moments of it (the first and the last dump unless --a and --b say
 * otherwise); with two the ends of both, or both peaks where the report would show them because the
 * programs had freed nearly everything by their end. A single trace is read once.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "cli/parts/short_name.h"
#include "cli/parts/site_text.h"
#include "cli/report/findings.h"
#include "cli/report/report.h"
#include "config/command/units.h"
#include "views/findings/diff.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

enum { A, B, N_SIDES };
enum { COL_SIDE = 12, COL_CHANGE = 25 };

struct page {
    const struct hw_cli *cli;
    struct hw_open_profile show[N_SIDES];
    const char *path[N_SIDES]; /* what the sides are called; borrowed */
    struct hw_functions *fns[N_SIDES];
    struct hw_site_names names[N_SIDES];
    struct hw_diff diff;
    struct hw_report_options look;
    enum hw_metric metric;
    uint32_t *order;
    size_t n_hidden, n_changed;
    bool has_limit, failed, has_callers;
    struct hw_limit limit; /* of the metric */
    struct hw_strbuf line;
};

/* ---- opening both sides ---- */

static bool side_pid(const struct page *pg, int side, int64_t *pid, bool *set)
{
    const struct hw_optval *v = &pg->cli->opts.v[HW_OPT_DIFF_PID];
    struct hw_error err = {0};
    uint64_t n = 0;
    *set = v->list.n > 0;
    if (!*set)
        return true;
    const char *text = v->list.v[side < (int)v->list.n ? side : 0];
    if (v->list.n > N_SIDES || hw_parse_uint(text, &n, &err) < 0) {
        hw_cli_error(pg->cli, NULL, "--pid takes one process, or one of A and one of B");
        return false;
    }
    *pid = (int64_t)n;
    return true;
}

static bool same_run(const struct page *pg)
{
    return pg->show[A].p == pg->show[B].p && pg->show[A].upid.v == pg->show[B].upid.v;
}

static bool shows_peak(const struct hw_open_profile *s)
{
    return s->moment == hw_process_view_peak(&s->view) &&
           s->moment != &s->view.moments.v[s->view.moments.n ? s->view.moments.n - 1 : 0];
}

static int open_side(struct page *pg, int side, const char *moment, bool as_report)
{
    const struct hw_opts *o = &pg->cli->opts;
    struct hw_open_profile_want w = {.path = o->args[o->n_args > 1 ? side : 0],
                                     .heap = hw_opt_text(o, HW_OPT_SHOW_HEAP),
                                     .metric = pg->metric,
                                     .moment = moment,
                                     .as_report = as_report};
    if (side == B && o->n_args == 1)
        w.profile = pg->show[A].p;
    if (!side_pid(pg, side, &w.pid, &w.has_pid))
        return hw_cli_usage_exit(pg->cli);
    return hw_open_profile_file_at(&pg->show[side], pg->cli, &w);
}

/* Compared with itself it would say that nothing changed. */
static int only_one_dump(const struct page *pg)
{
    hw_cli_error(pg->cli, "no-data",
                 "'%s' has one dump of that process: nothing to compare it with", pg->path[A]);
    hw_cli_hint("record with --continuous-dump, or name a second trace: heapwise diff A B");
    return HW_EXIT_NO_DATA;
}

static int open_both(struct page *pg)
{
    const struct hw_opts *o = &pg->cli->opts;
    const char *a = hw_opt_text(o, HW_OPT_DIFF_A), *b = hw_opt_text(o, HW_OPT_DIFF_B);
    bool one = o->n_args == 1;
    if (one && o->v[HW_OPT_DIFF_PID].list.n < 2 && !a)
        a = "first";
    int rc = open_side(pg, A, a, /* as_report = */ !one);
    if (rc == 0 && one && o->v[HW_OPT_DIFF_PID].list.n < 2 && !b && pg->show[A].view.n_dumps < 2)
        return only_one_dump(pg);
    if (rc == 0)
        rc = open_side(pg, B, b, /* as_report = */ !one);
    if (rc != 0 || one || a || b || shows_peak(&pg->show[A]) == shows_peak(&pg->show[B]))
        return rc;
    int again = shows_peak(&pg->show[A]) ? B : A; /* peaks are compared with peaks */
    hw_open_profile_done(&pg->show[again]);
    return open_side(pg, again, "peak", /* as_report = */ false);
}

/* Dumps of one process are compared forwards in time: only then is A's sample part of B's. */
static bool is_forward(const struct page *pg)
{
    return same_run(pg) && pg->show[A].moment->ts_ns <= pg->show[B].moment->ts_ns &&
           !pg->show[A].moment->at_max && !pg->show[B].moment->at_max;
}

static int make_diff(struct page *pg)
{
    const struct hw_opts *o = &pg->cli->opts;
    struct hw_wrappers wrappers = hw_open_profile_wrappers(pg->cli);
    struct hw_diff_side side[N_SIDES];
    unsigned flags = (hw_opt_flag(o, HW_OPT_ALL_FRAMES) ? HW_DIFF_ALL_FRAMES : 0) |
                     (hw_opt_flag(o, HW_OPT_DIFF_BY_NAME) ? HW_DIFF_BY_NAME : 0) |
                     (is_forward(pg) ? HW_DIFF_SAME_RUN : 0);
    int rc = HW_OK;
    for (int i = A; rc == 0 && i < N_SIDES; i++) {
        const struct hw_open_profile *s = &pg->show[i];
        rc = hw_functions_new(s->p->callsites, &wrappers, &pg->fns[i]);
        if (rc == 0)
            rc = hw_open_profile_site_names(s, pg->fns[i], &pg->names[i]);
        side[i] = (struct hw_diff_side){.p = s->p,
                                        .fns = pg->fns[i],
                                        .namer = &s->namer,
                                        .program = &pg->names[i].program,
                                        .values = &s->values,
                                        .interval_bytes = s->view.interval_bytes};
    }
    if (rc == 0)
        rc = hw_diff_make(&side[A], &side[B], flags, &pg->diff);
    if (rc < 0)
        return rc;
    pg->order = calloc(pg->diff.rows.n + 1, sizeof *pg->order);
    if (!pg->order)
        return HW_ENOMEM;
    hw_diff_rank(&pg->diff, pg->metric, pg->order);
    return HW_OK;
}

/* ---- rows ---- */

static const struct hw_diff_row *row_at(const struct page *pg, size_t i)
{
    return &pg->diff.rows.v[pg->order[i]];
}

static bool row_is_significant(const struct page *pg, const struct hw_diff_row *r)
{
    return hw_diff_is_significant(&pg->diff, &r->self, pg->metric);
}

/* Keeps in pg->order the rows to be shown. */
static void pick_rows(struct page *pg)
{
    bool all = hw_opt_flag(&pg->cli->opts, HW_OPT_DIFF_ALL);
    size_t kept = 0, top = (size_t)hw_opt_num(&pg->cli->opts, HW_OPT_TOP), left = 0;
    for (size_t i = 0; i < pg->diff.rows.n; i++) {
        const struct hw_diff_row *r = row_at(pg, i);
        if (hw_diff_change(&pg->diff, &r->self, pg->metric) == 0)
            continue;
        if (!all && !row_is_significant(pg, r))
            pg->n_hidden++;
        else if (top && kept >= top)
            left++;
        else
            pg->order[kept++] = pg->order[i];
    }
    pg->n_changed = kept;
    pg->order[kept] = (uint32_t)left; /* there is room for one more */
}

static const char *status_of(const struct page *pg, const struct hw_diff_value *v)
{
    int64_t a = hw_value_get(&v->a, pg->metric), b = hw_value_get(&v->b, pg->metric);
    return a == 0 && b != 0 ? "new" : b == 0 && a != 0 ? "gone" : b > a ? "grew" : "shrank";
}

static bool is_bytes(enum hw_metric m)
{
    return m == HW_METRIC_SPACE || m == HW_METRIC_ALLOC_SPACE;
}

static char *fmt(const struct page *pg, char out[HW_UNIT_MAX], double v)
{
    return is_bytes(pg->metric) ? hw_fmt_bytes(out, v) : hw_fmt_count(out, v);
}

/* "+3.2 MiB ±0.4 MiB" */
static void fmt_change(const struct page *pg, const struct hw_diff_value *v,
                       char out[2 * HW_UNIT_MAX + 4])
{
    char change[HW_UNIT_MAX], error[HW_UNIT_MAX];
    double e = hw_diff_error(&pg->diff, v, pg->metric);
    hw_fmt_change(change, hw_diff_change(&pg->diff, v, pg->metric), is_bytes(pg->metric));
    if (e > 0)
        (void)snprintf(out, 2 * HW_UNIT_MAX + 4, "%s %s%s", change,
                       pg->look.unicode ? "\xc2\xb1" : "+-", fmt(pg, error, e));
    else
        (void)snprintf(out, 2 * HW_UNIT_MAX + 4, "%s", change);
}

static void put_side(struct page *pg, int side)
{
    const struct hw_open_profile *s = &pg->show[side];
    const struct hw_diff_value *v = &pg->diff.nodes.v[0].total;
    const struct hw_value *total = side == A ? &v->a : &v->b;
    char buf[HW_UNIT_MAX];
    double error = hw_value_error(total, pg->metric, s->view.interval_bytes);
    hw_strbuf_clear(&pg->line);
    hw_strbuf_addf(&pg->line, "%c  ", "AB"[side]);
    hw_strbuf_add_escaped(&pg->line, pg->path[side], strlen(pg->path[side]));
    hw_strbuf_adds(&pg->line, "  ");
    hw_open_profile_label(s, &pg->line);
    if (!s->label)
        hw_strbuf_addf(&pg->line, " at %s%s",
                       hw_fmt_clock(buf, hw_sat_sub(s->moment->ts_ns, s->view.start_ns)),
                       shows_peak(s) ? " (peak)" : "");
    hw_strbuf_addf(&pg->line, "  %s %s", hw_metric_name(pg->metric),
                   fmt(pg, buf, (double)hw_value_get(total, pg->metric)));
    if (error > 0)
        hw_strbuf_addf(&pg->line, " %s%s", pg->look.unicode ? "\xc2\xb1" : "+-",
                       fmt(pg, buf, error));
    puts(pg->line.p ? pg->line.p : "");
}

static void put_total(struct page *pg)
{
    const struct hw_diff_value *v = &pg->diff.nodes.v[0].total;
    char cell[2 * HW_UNIT_MAX + 4];
    double a = (double)hw_value_get(&v->a, pg->metric);
    fmt_change(pg, v, cell);
    printf("   change %s", cell);
    if (a > 0)
        printf(" (%+.1f%%)", 100 * hw_diff_change(&pg->diff, v, pg->metric) / a);
    if (hw_diff_change(&pg->diff, v, pg->metric) != 0 &&
        !hw_diff_is_significant(&pg->diff, v, pg->metric))
        fputs("  within the sampling error", stdout);
    putchar('\n');
}

/* The side whose callers a row names: B, or A where B has nothing of it. */
static int side_of(const struct page *pg, const struct hw_diff_row *r)
{
    const struct hw_diff_function *fn = &pg->diff.functions.v[r->function];
    return fn->of[B] == HW_ID_NONE || hw_value_get(&r->self.b, pg->metric) == 0 ? A : B;
}

static void put_site(struct page *pg, const struct hw_diff_row *r, size_t width)
{
    const struct hw_diff_function *fn = &pg->diff.functions.v[r->function];
    const int side = fn->of[side_of(pg, r)] == HW_ID_NONE ? B : side_of(pg, r);
    const struct hw_site_names *names = &pg->names[side];
    struct hw_strbuf module = {0}, cell = {0};
    hw_site_module(names, hw_functions_get(names->fns, fn->of[side]), &module);
    size_t module_width = module.n ? hw_text_width(module.p) + 4 : 0;
    hw_short_name(&cell, hw_strings_cstr(pg->diff.strings, fn->name),
                  width > module_width + 16 ? width - module_width : 16);
    hw_site_class(names, fn->of[side], &cell);
    size_t used = hw_text_width(cell.p ? cell.p : "") + module_width;
    if (used < width)
        pg->has_callers |= hw_site_callers(names, fn->of[side], width - used, &cell);
    if (module.n)
        hw_strbuf_addf(&cell, "  (%s)", module.p);
    puts(cell.p ? cell.p : "");
    pg->line.failed |= module.failed || cell.failed;
    hw_strbuf_done(&module);
    hw_strbuf_done(&cell);
}

static void put_row(struct page *pg, const struct hw_diff_row *r, size_t width)
{
    char buf[HW_UNIT_MAX], cell[2 * HW_UNIT_MAX + 4];
    const char *status = status_of(pg, &r->self);
    double change = hw_diff_change(&pg->diff, &r->self, pg->metric);
    hw_strbuf_clear(&pg->line);
    hw_put_cell(&pg->line, fmt(pg, buf, (double)hw_value_get(&r->self.a, pg->metric)), COL_SIDE);
    hw_put_cell(&pg->line, fmt(pg, buf, (double)hw_value_get(&r->self.b, pg->metric)), COL_SIDE);
    fmt_change(pg, &r->self, cell);
    hw_put_cell(&pg->line, cell, COL_CHANGE);
    printf("%s  ", pg->line.p ? pg->line.p : "");
    if (pg->look.color)
        fputs(change > 0 ? "\033[33m" : "\033[34m", stdout);
    printf("%-6s", status);
    if (pg->look.color)
        fputs("\033[0m", stdout);
    fputs(row_is_significant(pg, r) ? "  " : " ~", stdout);
    put_site(pg, r, width);
}

static void put_gate(const struct page *pg)
{
    char buf[HW_UNIT_MAX], limit[HW_UNIT_MAX];
    if (!pg->has_limit)
        return;
    if (pg->limit.is_share)
        (void)snprintf(limit, sizeof limit, "%g%% of A", pg->limit.value);
    else
        (void)fmt(pg, limit, pg->limit.value);
    double change = hw_diff_change(&pg->diff, &pg->diff.nodes.v[0].total, pg->metric);
    printf("%s: %s changed by %s, the limit is %s\n", pg->failed ? "FAILED" : "passed",
           hw_metric_name(pg->metric), hw_fmt_change(buf, change, is_bytes(pg->metric)), limit);
}

static int put_text(struct page *pg, bool *incomplete)
{
    size_t left = 2 * COL_SIDE + COL_CHANGE + 10;
    size_t width = pg->look.width > left + 24 ? pg->look.width - left : 24;
    put_side(pg, A);
    put_side(pg, B);
    put_total(pg);
    putchar('\n');
    if (pg->n_changed)
        printf("%*s%*s%*s          SITE\n", COL_SIDE, "A", COL_SIDE, "B", COL_CHANGE, "CHANGE");
    for (size_t i = 0; i < pg->n_changed; i++)
        put_row(pg, row_at(pg, i), width);
    if (pg->has_callers)
        fputs(HW_SITE_LEGEND, stdout);
    if (pg->order[pg->n_changed])
        printf("%u more row%s (--top 0: all)\n", pg->order[pg->n_changed],
               hw_plural(pg->order[pg->n_changed]));
    if (pg->n_hidden)
        printf("%zu row%s within the sampling error (--all shows %s)\n", pg->n_hidden,
               hw_plural(pg->n_hidden), pg->n_hidden == 1 ? "it" : "them");
    if (pg->n_changed == 0 && pg->n_hidden == 0)
        puts("no difference");
    if (pg->has_limit)
        putchar('\n');
    put_gate(pg);
    int rc = hw_open_profile_losses(&pg->show[A], stdout, incomplete);
    if (rc == 0 && pg->show[A].p != pg->show[B].p)
        rc = hw_open_profile_losses(&pg->show[B], stdout, incomplete);
    return rc;
}

/* ---- JSON ---- */

static void json_value(const struct page *pg, struct hw_json *j, const struct hw_diff_value *v)
{
    hw_json_kv_int(j, "a", hw_value_get(&v->a, pg->metric));
    hw_json_kv_int(j, "b", hw_value_get(&v->b, pg->metric));
    hw_json_kv_double(j, "change", hw_diff_change(&pg->diff, v, pg->metric));
    hw_json_kv_double(j, "error", hw_diff_error(&pg->diff, v, pg->metric));
    hw_json_kv_bool(j, "significant", hw_diff_is_significant(&pg->diff, v, pg->metric));
}

static void json_side(const struct page *pg, struct hw_json *j, int side)
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
        hw_json_kv_bool(j, "peak", shows_peak(s));
    }
    hw_json_kv_uint(j, "interval_bytes", s->view.interval_bytes);
    hw_json_end_object(j);
}

static void json_row(const struct page *pg, struct hw_json *j, const struct hw_diff_row *r)
{
    const struct hw_diff_function *fn = &pg->diff.functions.v[r->function];
    struct hw_bytes name = hw_strings_get(pg->diff.strings, fn->name);
    struct hw_bytes module = hw_strings_get(pg->diff.strings, fn->module);
    hw_json_begin_object(j);
    hw_json_key(j, "function");
    hw_json_strn(j, name.p, name.n);
    hw_json_key(j, "module");
    hw_json_strn(j, module.p, module.n);
    int side = side_of(pg, r);
    if (fn->of[side] != HW_ID_NONE)
        hw_json_put_callers(j, &pg->names[side], fn->of[side]);
    hw_json_kv_str(j, "status", status_of(pg, &r->self));
    json_value(pg, j, &r->self);
    hw_json_key(j, "total");
    hw_json_begin_object(j);
    json_value(pg, j, &r->total);
    hw_json_end_object(j);
    hw_json_end_object(j);
}

static int put_json(struct page *pg, bool *incomplete)
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
        json_row(pg, &j, row_at(pg, i));
    hw_json_end_array(&j);
    int rc = hw_json_page_end(&j);
    for (int i = A; rc == 0 && i < N_SIDES; i++)
        if (i == A || pg->show[A].p != pg->show[B].p)
            rc = hw_open_profile_losses(&pg->show[i], stderr, incomplete);
    return rc;
}

/* ---- the command ---- */

static bool read_limit(struct page *pg)
{
    const char *text = hw_opt_text(&pg->cli->opts, HW_OPT_FAIL_ABOVE);
    struct hw_error err = {0};
    if (!text)
        return true;
    pg->has_limit = true;
    if (hw_parse_limit(text, is_bytes(pg->metric), &pg->limit, &err) == 0)
        return true;
    hw_cli_error(pg->cli, NULL, "--fail-above: %s", err.text);
    hw_cli_hint("a size (512K), for objects a number, or a share of A (5%%)");
    return false;
}

/* What may be nothing but sampling must not fail a build. */
static void judge(struct page *pg)
{
    const struct hw_diff_value *v = &pg->diff.nodes.v[0].total;
    double a = (double)hw_value_get(&v->a, pg->metric);
    double limit = pg->limit.is_share ? a * pg->limit.value / 100 : pg->limit.value;
    pg->failed = pg->has_limit && hw_diff_change(&pg->diff, v, pg->metric) > limit &&
                 hw_diff_is_significant(&pg->diff, v, pg->metric);
}

static int answer(struct page *pg)
{
    bool incomplete = false;
    int rc = make_diff(pg);
    if (rc == 0) {
        judge(pg);
        pick_rows(pg);
        rc = hw_opt_flag(&pg->cli->opts, HW_OPT_JSON) ? put_json(pg, &incomplete)
                                                      : put_text(pg, &incomplete);
    }
    if (rc == 0 && pg->line.failed)
        rc = HW_ENOMEM;
    int status = hw_cli_written(pg->cli, rc);
    if (status != HW_EXIT_OK)
        return status;
    if (pg->failed)
        return HW_EXIT_GATE;
    return incomplete ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}

static int begin(struct hw_cli *cli, struct page *pg)
{
    *pg = (struct page){.cli = cli, .look = hw_report_defaults(cli, STDOUT_FILENO)};
    return hw_open_profile_metric(cli, &pg->metric) && read_limit(pg) ? HW_EXIT_OK
                                                                      : hw_cli_usage_exit(cli);
}

/* rc: of opening the sides. */
static int end(struct hw_cli *cli, struct page *pg, int rc)
{
    if (rc == 0) {
        hw_pager_begin(cli);
        rc = answer(pg);
    }
    hw_diff_done(&pg->diff);
    free(pg->order);
    hw_strbuf_done(&pg->line);
    for (int i = N_SIDES; i-- > A;) {
        hw_site_names_done(&pg->names[i]);
        hw_functions_free(pg->fns[i]);
        hw_open_profile_done(&pg->show[i]); /* B first: it may look into A's profile */
    }
    return rc;
}

int hw_diff_of(struct hw_cli *cli, const struct hw_open_profile_want want[2])
{
    struct page pg;
    int rc = begin(cli, &pg);
    if (rc != 0)
        return rc;
    for (int i = A; rc == 0 && i < N_SIDES; i++) {
        struct hw_open_profile_want w = want[i];
        w.metric = pg.metric;
        pg.path[i] = w.path;
        rc = hw_open_profile_file_at(&pg.show[i], cli, &w);
    }
    return end(cli, &pg, rc);
}

int hw_cmd_diff(struct hw_cli *cli)
{
    struct page pg;
    if (cli->opts.n_args < 1 || cli->opts.n_args > 2) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "more than two files" : "which files?");
        hw_cli_hint(
            "heapwise diff A B, or two dumps of one trace: heapwise diff --a 1 --b 5 TRACE");
        return hw_cli_usage_exit(cli);
    }
    int rc = begin(cli, &pg);
    if (rc != 0)
        return rc;
    pg.path[A] = cli->opts.args[0];
    pg.path[B] = cli->opts.args[cli->opts.n_args - 1];
    return end(cli, &pg, open_both(&pg));
}
