/*
 * heapwise diff A [B]: what changed
 *
 * With one file, both sides are moments of it (the first and the last dump unless --a and --b say
 * otherwise); with two, the ends of both, or both peaks where the report would show those because
 * the programs had freed nearly everything by the end. A single trace is read once.
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
#include "cli/report/diff_page.h"
#include "cli/report/findings.h"
#include "cli/report/report.h"
#include "config/command/units.h"
#include "views/findings/diff.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

enum { A = HW_DIFF_A, B = HW_DIFF_B };

/* ---- opening both sides ---- */

static bool side_pid(const struct hw_diff_page *pg, int side, int64_t *pid, bool *set)
{
    const struct hw_optval *v = &pg->cli->opts.v[HW_OPT_DIFF_PID];
    struct hw_error err = {0};
    uint64_t n = 0;
    *set = v->list.n > 0;
    if (!*set)
        return true;
    const char *text = v->list.v[side < (int)v->list.n ? side : 0];
    if (v->list.n > HW_DIFF_SIDES || hw_parse_uint(text, &n, &err) < 0) {
        hw_cli_error(pg->cli, NULL, "--pid takes one process, or one of A and one of B");
        return false;
    }
    *pid = (int64_t)n;
    return true;
}

static bool same_run(const struct hw_diff_page *pg)
{
    return pg->show[A].p == pg->show[B].p && pg->show[A].upid.v == pg->show[B].upid.v;
}

static int open_side(struct hw_diff_page *pg, int side, const char *moment, bool as_report)
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

/* A moment compared with itself would say that nothing changed. */
static int only_one_dump(const struct hw_diff_page *pg)
{
    hw_cli_error(pg->cli, "no-data",
                 "'%s' has one dump of that process: nothing to compare it with", pg->path[A]);
    hw_cli_hint("record with -c 10s, or name a second trace: heapwise diff A B");
    return HW_EXIT_NO_DATA;
}

static int open_both(struct hw_diff_page *pg)
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
    if (rc != 0 || one || a || b ||
        hw_diff_page_at_peak(&pg->show[A]) == hw_diff_page_at_peak(&pg->show[B]))
        return rc;
    int again = hw_diff_page_at_peak(&pg->show[A]) ? B : A; /* peaks are compared with peaks */
    hw_open_profile_done(&pg->show[again]);
    return open_side(pg, again, "peak", /* as_report = */ false);
}

/* Dumps of one process are compared forward in time: only then are A's samples part of B's. */
static bool is_forward(const struct hw_diff_page *pg)
{
    return same_run(pg) && pg->show[A].moment->ts_ns <= pg->show[B].moment->ts_ns &&
           !pg->show[A].moment->at_max && !pg->show[B].moment->at_max;
}

static int make_diff(struct hw_diff_page *pg)
{
    const struct hw_opts *o = &pg->cli->opts;
    struct hw_wrappers wrappers = hw_open_profile_wrappers(pg->cli);
    struct hw_diff_side side[HW_DIFF_SIDES];
    unsigned flags = (hw_opt_flag(o, HW_OPT_ALL_FRAMES) ? HW_DIFF_ALL_FRAMES : 0) |
                     (hw_opt_flag(o, HW_OPT_DIFF_BY_NAME) ? HW_DIFF_BY_NAME : 0) |
                     (is_forward(pg) ? HW_DIFF_SAME_RUN : 0);
    int rc = HW_OK;
    for (int i = A; rc == 0 && i < HW_DIFF_SIDES; i++) {
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

/* Puts the rows to show into pg->order. */
static void pick_rows(struct hw_diff_page *pg)
{
    bool all = hw_opt_flag(&pg->cli->opts, HW_OPT_DIFF_ALL);
    size_t kept = 0, top = (size_t)hw_opt_num(&pg->cli->opts, HW_OPT_TOP), left = 0;
    for (size_t i = 0; i < pg->diff.rows.n; i++) {
        const struct hw_diff_row *r = hw_diff_page_row(pg, i);
        if (hw_diff_change(&pg->diff, &r->self, pg->metric) == 0)
            continue;
        if (!all && !hw_diff_page_is_sure(pg, r) &&
            !hw_diff_is_open(&pg->diff, &r->self, pg->metric))
            pg->n_hidden++;
        else if (top && kept >= top)
            left++;
        else
            pg->order[kept++] = pg->order[i];
    }
    pg->n_changed = kept;
    pg->order[kept] = (uint32_t)left; /* has room for one more */
}

/* ---- the command ---- */

static bool read_limit(struct hw_diff_page *pg)
{
    const char *text = hw_opt_text(&pg->cli->opts, HW_OPT_FAIL_ABOVE);
    struct hw_error err = {0};
    if (!text)
        return true;
    pg->has_limit = true;
    if (hw_parse_limit(text, hw_metric_is_bytes(pg->metric), &pg->limit, &err) == 0)
        return true;
    hw_cli_error(pg->cli, NULL, "--fail-above: %s", err.text);
    hw_cli_hint("a size (512K), for objects a number, or a share of A (5%%)");
    return false;
}

/* What may be mere sampling noise must not fail a build; an unknown error must not let it pass. */
static void check_gate(struct hw_diff_page *pg)
{
    const struct hw_diff_value *v = &pg->diff.nodes.v[0].total;
    double a = (double)hw_value_get(&v->a, pg->metric);
    double limit = pg->limit.is_share ? a * pg->limit.value / 100 : pg->limit.value;
    pg->failed = pg->has_limit && hw_diff_change(&pg->diff, v, pg->metric) > limit &&
                 (hw_diff_is_significant(&pg->diff, v, pg->metric) ||
                  hw_diff_is_open(&pg->diff, v, pg->metric));
}

static int answer(struct hw_diff_page *pg)
{
    bool incomplete = false;
    int rc = make_diff(pg);
    if (rc == 0) {
        check_gate(pg);
        rc = hw_diff_account_find(pg);
    }
    if (rc == 0) {
        pick_rows(pg);
        rc = pg->put(pg, &incomplete);
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

static const struct {
    const char *name;
    int (*put)(struct hw_diff_page *pg, bool *incomplete);
} forms[] = {{"text", hw_diff_put_text},
             {"json", hw_diff_put_json},
             {"markdown", hw_diff_put_markdown},
             {"junit", hw_diff_put_junit},
             {"sarif", hw_diff_put_sarif}};

static bool read_form(struct hw_diff_page *pg)
{
    const struct hw_opts *o = &pg->cli->opts;
    const char *name = hw_opt_text(o, HW_OPT_DIFF_FORMAT);
    if (!name)
        name = hw_opt_flag(o, HW_OPT_JSON) ? "json" : "text";
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(name, forms[i].name) == 0)
            pg->put = forms[i].put;
    if (pg->put)
        return true;
    hw_cli_error(pg->cli, NULL, "--format: '%s' is not text, json, markdown, junit or sarif", name);
    return false;
}

static int begin(struct hw_cli *cli, struct hw_diff_page *pg)
{
    *pg = (struct hw_diff_page){.cli = cli, .look = hw_report_defaults(cli, STDOUT_FILENO)};
    return hw_open_profile_metric(cli, &pg->metric) && read_limit(pg) && read_form(pg)
               ? HW_EXIT_OK
               : hw_cli_usage_exit(cli);
}

/* rc: of opening the sides. */
static int end(struct hw_cli *cli, struct hw_diff_page *pg, int rc)
{
    if (rc == 0) {
        hw_pager_begin(cli);
        rc = answer(pg);
    }
    hw_diff_account_done(&pg->account);
    hw_diff_done(&pg->diff);
    free(pg->order);
    hw_strbuf_done(&pg->line);
    for (int i = HW_DIFF_SIDES; i-- > A;) {
        hw_site_names_done(&pg->names[i]);
        hw_functions_free(pg->fns[i]);
        hw_open_profile_done(&pg->show[i]); /* B first: it may point into A's profile */
    }
    return rc;
}

int hw_diff_of(struct hw_cli *cli, const struct hw_open_profile_want want[2])
{
    struct hw_diff_page pg;
    int rc = begin(cli, &pg);
    if (rc != 0)
        return rc;
    for (int i = A; rc == 0 && i < HW_DIFF_SIDES; i++) {
        struct hw_open_profile_want w = want[i];
        w.metric = pg.metric;
        pg.path[i] = w.path;
        rc = hw_open_profile_file_at(&pg.show[i], cli, &w);
    }
    return end(cli, &pg, rc);
}

int hw_cmd_diff(struct hw_cli *cli)
{
    struct hw_diff_page pg;
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
