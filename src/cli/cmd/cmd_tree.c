/*
 * heapwise tree TRACE: interactive on a terminal (tree_screen.h), otherwise and with --no-pager
 * printed.
 *
 * One line per function; a single shown child is not indented, so that deep stacks fit a terminal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "cli/parts/short_name.h"
#include "cli/parts/ui.h"
#include "cli/report/report.h"
#include "cli/screen/screen.h"
#include "cli/screen/tree_screen.h"
#include "config/command/units.h"
#include "views/flame/flame.h"
#include "views/flame/places.h"
#include "views/flame/program.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

struct tree {
    const struct hw_cli *cli;
    struct hw_open_profile show;
    struct hw_functions *functions;
    struct hw_function_at *places; /* by function */
    struct hw_shown_program program;
    hw_filters filters;
    struct hw_flame flame, callers; /* callers of a pivot */
    int64_t total, min;             /* of the metric */
    uint32_t max_depth;
    bool color, unicode;
    unsigned width;
    HW_VEC(unsigned char) more; /* by indentation: does the branch continue below? */
};

static int64_t value_of(const struct tree *t, uint32_t node)
{
    return hw_value_get(hw_flame_total(&t->flame, node), t->show.metric);
}

/* Siblings are sorted, so the shown ones come first. */
static bool shown(const struct tree *t, uint32_t node)
{
    return node != HW_ID_NONE && value_of(t, node) >= t->min && value_of(t, node) > 0 &&
           (t->max_depth == 0 || t->flame.v.v[node].depth <= t->max_depth);
}

/* Only one of several siblings gets a branch; a single child's descendants are listed below it. */
static void put_branch(const struct tree *t, size_t indent, bool branch, bool last)
{
    size_t plain = branch ? indent - 1 : indent;
    for (size_t i = 0; i < plain; i++)
        fputs(t->more.v[i] ? (t->unicode ? "\xe2\x94\x82 " : "| ") : "  ", stdout);
    if (branch)
        fputs(t->unicode ? (last ? "\xe2\x94\x94 " : "\xe2\x94\x9c ") : (last ? "` " : "|-"),
              stdout);
}

static int put_line(const struct tree *t, uint32_t node, size_t indent, bool branch, bool last)
{
    const struct hw_flame_node *n = &t->flame.v.v[node];
    const struct hw_function *fn = hw_functions_get(t->functions, n->function);
    bool bytes = hw_metric_is_bytes(t->show.metric);
    char buf[HW_UNIT_MAX];
    double v = (double)value_of(t, node);
    printf("%11s %5.1f%%  ", bytes ? hw_fmt_bytes(buf, v) : hw_fmt_count(buf, v),
           t->total > 0 ? 100 * v / (double)t->total : 0);
    put_branch(t, indent, branch, last);
    struct hw_strbuf label = {0}, line = {0};
    struct hw_strbuf where = {0};
    hw_program_where(&t->program, &where, t->show.p->callsites, fn, &t->places[n->function]);
    size_t left = 20 + 2 * indent + where.n + 4;
    hw_program_label(&t->program, &label, t->show.p->callsites, fn, &t->show.namer);
    hw_short_name(&line, label.p ? label.p : "", t->width > left + 16 ? t->width - left : 16);
    if (where.n && fn->name.v) {
        hw_strbuf_adds(&line, t->color ? "  \033[2m(" : "  (");
        hw_strbuf_add_escaped(&line, where.p, where.n);
        hw_strbuf_adds(&line, t->color ? ")\033[0m" : ")");
    }
    puts(line.p ? line.p : "");
    int rc = label.failed || line.failed || where.failed ? HW_ENOMEM : HW_OK;
    hw_strbuf_done(&label);
    hw_strbuf_done(&line);
    hw_strbuf_done(&where);
    return rc;
}

static bool has_siblings(const struct tree *t, uint32_t node)
{
    uint32_t first = t->flame.v.v[t->flame.v.v[node].parent].first_child;
    return shown(t, t->flame.v.v[first].next_sibling);
}

/*
 * Without recursion: stacks may be thousands of frames deep. indent_of has each open node's indent.
 */
static int put_nodes(struct tree *t)
{
    HW_VEC(uint32_t) indent_of = {0};
    uint32_t at = t->flame.v.v[0].first_child;
    uint32_t indent = 0;
    int rc = HW_OK;
    while (at != 0 && shown(t, at)) {
        const struct hw_flame_node *n = &t->flame.v.v[at];
        bool branch = has_siblings(t, at), last = !shown(t, n->next_sibling);
        uint32_t above = indent_of.n ? indent_of.v[indent_of.n - 1] : 0;
        indent = above + branch;
        if (hw_vec_reserve(&t->more, (size_t)indent + 1) < 0 || hw_vec_push(&indent_of, indent) < 0)
            rc = HW_ENOMEM;
        if (rc == 0)
            rc = put_line(t, at, indent, branch, last);
        if (rc < 0)
            break;
        if (branch)
            t->more.v[indent - 1] = !last;
        if (shown(t, n->first_child)) {
            at = n->first_child;
            continue;
        }
        while (at != 0 && !shown(t, t->flame.v.v[at].next_sibling)) {
            at = t->flame.v.v[at].parent;
            indent_of.n -= indent_of.n > 0;
        }
        if (at != 0) {
            indent_of.n--;
            at = t->flame.v.v[at].next_sibling;
        }
    }
    hw_vec_done(&indent_of);
    return rc;
}

static void put_head(const struct tree *t)
{
    const struct hw_open_profile *s = &t->show;
    char buf[HW_UNIT_MAX];
    const struct hw_process *proc = &s->p->processes.v[s->upid.v];
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(s->p->callsites), proc->name);
    struct hw_strbuf line = {0};
    hw_strbuf_add_escaped(&line, name.p, name.n);
    hw_strbuf_addf(&line, " (%lld)  %s at %s%s%s", (long long)proc->pid, hw_metric_name(s->metric),
                   hw_fmt_clock(buf, hw_sat_sub(s->moment->ts_ns, s->view.start_ns)),
                   s->moment->at_max || hw_opt_flag(&t->cli->opts, HW_OPT_PEAK) ? " (peak)" : "",
                   hw_opt_flag(&t->cli->opts, HW_OPT_INVERT) ? "  inverted" : "");
    puts(line.p ? line.p : "");
    hw_strbuf_done(&line);
}

static void json_place(const struct tree *t, struct hw_json *j, uint32_t function)
{
    const struct hw_function_at *at = &t->places[function];
    if (at->file.v)
        hw_json_kv_str(j, "file",
                       hw_strings_cstr(hw_callsites_strings(t->show.p->callsites), at->file));
    if (at->line)
        hw_json_kv_uint(j, "line", at->line);
}

/* Nodes in walk order, each with its parent's index: trees are too deep for nested JSON. */
static void json_nodes(const struct tree *t, struct hw_json *j, const char *key,
                       const struct hw_flame *f)
{
    struct hw_strbuf label = {0};
    hw_json_key(j, key);
    hw_json_begin_array(j);
    for (uint32_t i = 1; i < f->v.n; i++) {
        const struct hw_flame_node *n = &f->v.v[i];
        const struct hw_function *fn = hw_functions_get(t->functions, n->function);
        struct hw_bytes module =
            hw_program_module_shown(&t->program, t->show.p->callsites, fn->module);
        hw_strbuf_clear(&label);
        hw_program_label(&t->program, &label, t->show.p->callsites, fn, &t->show.namer);
        hw_json_begin_object(j);
        hw_json_kv_uint(j, "id", i);
        hw_json_kv_uint(j, "parent", n->parent);
        hw_json_kv_str(j, "function", label.p);
        hw_json_key(j, "module");
        hw_json_strn(j, module.p, module.n);
        json_place(t, j, n->function);
        for (int m = 0; m < (int)hw_value_metrics(hw_flame_total(f, 0)); m++)
            hw_json_kv_int(j, hw_metric_name((enum hw_metric)m),
                           hw_value_get(hw_flame_total(f, i), (enum hw_metric)m));
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_strbuf_done(&label);
}

static int put_json(const struct tree *t)
{
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "tree", HW_PAGE_DENSE);
    hw_json_kv_int(&j, "pid", t->show.p->processes.v[t->show.upid.v].pid);
    hw_json_kv_int(&j, "ts_ns", t->show.moment->ts_ns);
    hw_json_kv_bool(&j, "inverted", hw_opt_flag(&t->cli->opts, HW_OPT_INVERT));
    json_nodes(t, &j, "nodes", &t->flame);
    if (hw_filters_have_pivot(&t->filters))
        json_nodes(t, &j, "callers", &t->callers);
    int rc = hw_json_page_end(&j);
    return rc;
}
/* The share that the filters kept. */
static void put_kept(const struct tree *t, int64_t all)
{
    char kept[HW_UNIT_MAX], whole[HW_UNIT_MAX];
    bool bytes = hw_metric_is_bytes(t->show.metric);
    printf("filters keep %s of %s (%.1f%%)\n",
           bytes ? hw_fmt_bytes(kept, (double)t->total) : hw_fmt_count(kept, (double)t->total),
           bytes ? hw_fmt_bytes(whole, (double)all) : hw_fmt_count(whole, (double)all),
           all > 0 ? 100 * (double)t->total / (double)all : 0);
}

static int put_text(struct tree *t)
{
    const struct hw_opts *o = &t->cli->opts;
    int64_t all = 0;
    for (size_t i = 0; i < t->show.values.n; i++)
        all = hw_sat_add(all, hw_value_get(&t->show.values.v[i].v, t->show.metric));
    t->total = value_of(t, 0);
    t->min = (int64_t)((double)t->total * (double)hw_opt_num(o, HW_OPT_MIN_PERCENT) / 100);
    t->max_depth = (uint32_t)hw_opt_num(o, HW_OPT_MAX_DEPTH);
    put_head(t);
    if (t->filters.n)
        put_kept(t, all);
    if (t->filters.n && t->total == all && all > 0 && !hw_filters_have_pivot(&t->filters))
        puts("they hide nothing: SS, HS, SF and HF look at functions, M and HM at modules "
             "(heapwise help filters)");
    if (all <= 0)
        puts("nothing is live here; --peak shows the peak");
    else if (t->total <= 0)
        puts("the filters leave nothing");
    int rc = put_nodes(t);
    if (rc < 0 || !hw_filters_have_pivot(&t->filters))
        return rc;
    struct hw_flame callees = t->flame;
    t->flame = t->callers;
    puts("called by");
    rc = put_nodes(t);
    t->flame = callees;
    return rc;
}

static unsigned flags_of(const struct hw_opts *o)
{
    return (hw_opt_flag(o, HW_OPT_INVERT) ? HW_FLAME_INVERTED : 0) |
           (hw_opt_flag(o, HW_OPT_ALL_FRAMES) ? 0 : HW_FLAME_SITES);
}

static int build_trees(struct tree *t, unsigned flags)
{
    struct hw_filter_matches matches = {0};
    struct hw_flame_input q = {
        .cs = t->show.p->callsites,
        .fns = t->functions,
        .values = &t->show.values,
        .flags = flags,
    };
    int rc =
        hw_filter_match(&t->filters, q.cs, t->functions, &t->show.namer, &t->program, &matches);
    if (rc < 0)
        return rc;
    q.filters = &matches;
    if (hw_filters_have_pivot(&t->filters)) {
        rc = hw_flame_pivot(&q, &t->flame, &t->callers);
        if (rc == 0)
            rc = hw_flame_sort(&t->callers, t->show.metric);
    } else {
        rc = hw_flame_build_with(&q, &t->flame);
    }
    hw_filter_matches_done(&matches);
    return rc == 0 ? hw_flame_sort(&t->flame, t->show.metric) : rc;
}

/* ---- the whole terminal ---- */

static int build_for_screen(void *ctx, unsigned flags, struct hw_flame *out)
{
    struct tree *t = ctx;
    int rc = build_trees(t, flags);
    *out = t->flame;
    t->flame = (struct hw_flame){0};
    return rc;
}

/* 1 = the user wants the browser. */
static int show_tree(struct tree *t, struct hw_error *err)
{
    struct hw_strbuf title = {0};
    hw_open_profile_label(&t->show, &title);
    struct hw_tree_screen s = {.cli = t->cli,
                               .title = title.p ? title.p : "",
                               .functions = t->functions,
                               .places = t->places,
                               .program = t->program,
                               .callsites = t->show.p->callsites,
                               .namer = &t->show.namer,
                               .metric = t->show.metric,
                               .flags = flags_of(&t->cli->opts),
                               .build = build_for_screen,
                               .ctx = t};
    int rc = hw_tree_screen_run(&s, err);
    hw_strbuf_done(&title);
    return rc;
}

/* A pivot is two trees, which are better printed. */
static bool wants_screen(const struct tree *t)
{
    return hw_screen_possible(t->cli) && !hw_opt_flag(&t->cli->opts, HW_OPT_NO_PAGER) &&
           !hw_filters_have_pivot(&t->filters);
}

static int print_tree(struct tree *t)
{
    int rc = build_trees(t, flags_of(&t->cli->opts));
    if (rc < 0)
        return rc;
    return hw_opt_flag(&t->cli->opts, HW_OPT_JSON) ? put_json(t) : put_text(t);
}

static int read_filters(struct tree *t)
{
    int rc = hw_open_profile_filters(t->cli, &t->filters);
    if (rc == 0 && hw_filters_have_pivot(&t->filters) &&
        hw_opt_flag(&t->cli->opts, HW_OPT_INVERT)) {
        hw_cli_error(t->cli, NULL,
                     "a pivot (P:) already shows callers and callees; leave --invert out");
        return hw_cli_usage_exit(t->cli);
    }
    return rc;
}

int hw_cmd_tree(struct hw_cli *cli)
{
    if (cli->opts.n_args != 1) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "more than one trace" : "which trace?");
        hw_cli_hint("heapwise tree TRACE");
        return hw_cli_usage_exit(cli);
    }
    struct hw_report_options r = hw_report_defaults(cli, STDOUT_FILENO);
    struct tree t = {.cli = cli, .color = r.color, .unicode = r.unicode, .width = r.width};
    int rc = read_filters(&t);
    if (rc == 0)
        rc = hw_open_profile_file(&t.show, cli, cli->opts.args[0], /* as_report = */ true);
    if (rc != 0) {
        hw_filters_done(&t.filters);
        return rc;
    }
    struct hw_wrappers wrappers = hw_open_profile_wrappers(cli);
    struct hw_error err = {0};
    bool screen = wants_screen(&t), browser = false;
    rc = hw_functions_new(t.show.p->callsites, &wrappers, &t.functions);
    if (rc == 0)
        rc = hw_places_find(t.show.p->callsites, t.functions, &t.show.values, t.show.metric,
                            &t.places);
    t.program = hw_program_find(t.show.p->callsites, &t.show.values,
                                hw_process_name(t.show.p, t.show.upid));
    if (rc == 0 && screen) {
        rc = show_tree(&t, &err);
        browser = rc == 1;
    } else if (rc == 0) {
        hw_pager_begin(cli);
        rc = print_tree(&t);
    }
    bool is_json = hw_opt_flag(&cli->opts, HW_OPT_JSON), incomplete = false;
    if (rc == 0 && !browser)
        rc = hw_open_profile_losses(&t.show, is_json ? stderr : stdout, &incomplete);
    hw_functions_free(t.functions);
    free(t.places);
    hw_flame_done(&t.flame);
    hw_flame_done(&t.callers);
    hw_filters_done(&t.filters);
    hw_vec_done(&t.more);
    hw_open_profile_done(&t.show);
    int status = hw_cli_written(cli, rc);
    if (status == HW_EXIT_OK && browser)
        return hw_ui_show(cli, cli->opts.args[0]);
    return status == HW_EXIT_OK && incomplete ? HW_EXIT_INCOMPLETE : status;
}
