/* heapwise convert -t FORMAT IN [OUT]: one moment of one process as one file. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "config/command/units.h"
#include "enrich/lines/demangle.h"
#include "export/export.h"
#include "import/import.h"
#include "open/export_file.h"
#include "open/symbol_options.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"

static const struct hw_exporter *pick(const struct hw_cli *cli, const char *out)
{
    const char *name = hw_opt_text(&cli->opts, HW_OPT_FORMAT);
    const struct hw_exporter *e = name ? hw_exporter_find(name) : hw_exporter_of_file(out);
    if (e)
        return e;
    if (name)
        hw_cli_error(cli, NULL, "unknown format '%s'", name);
    else if (strcmp(out, "-") == 0)
        hw_cli_error(cli, NULL, "which format?");
    else
        hw_cli_error(cli, NULL, "which format? the name '%s' does not say", out);
    fputs("hint: -t", stderr);
    for (const struct hw_exporter *const *x = hw_exporters; *x; x++)
        fprintf(stderr, "%s %s", x == hw_exporters ? "" : ",", (*x)->name);
    fputc('\n', stderr);
    return NULL;
}

/* The end is what a converter is expected to take; a program that tidied up shows little there. */
static void tell_moment(const struct hw_cli *cli, const struct hw_open_profile *s)
{
    bool live = s->metric == HW_METRIC_SPACE || s->metric == HW_METRIC_OBJECTS;
    const struct hw_process_moment *peak = hw_process_view_peak(&s->view);
    if (!live || !peak || peak == s->moment || hw_opt_flag(&cli->opts, HW_OPT_QUIET) ||
        hw_opt_flag(&cli->opts, HW_OPT_PEAK) || !hw_process_view_cleaned_up(&s->view))
        return;
    char end_size[HW_UNIT_MAX], peak_size[HW_UNIT_MAX], when[HW_UNIT_MAX];
    fprintf(stderr,
            "note: this is the end, where %s of the peak's %s (at %s) are live; --peak takes the "
            "peak\n",
            hw_fmt_bytes(end_size, (double)s->moment->total.space),
            hw_fmt_bytes(peak_size, (double)peak->total.space),
            hw_fmt_clock(when, hw_sat_sub(peak->ts_ns, s->view.start_ns)));
}

/* Original names stand in packets of their own in a trace: behind it, not in place of others. */
static void tell_of_maps(const struct hw_cli *cli, const struct hw_exporter *e)
{
    if (e == &hw_export_perfetto &&
        (hw_symbol_options_map_asked() || cli->opts.v[HW_OPT_NAME_MAPS].list.n) &&
        !hw_opt_flag(&cli->opts, HW_OPT_QUIET))
        fputs("note: a Perfetto trace keeps the names as they are; PERFETTO_PROGUARD_MAP=... "
              "heapwise deobfuscate OUT adds the original ones\n",
              stderr);
}

/* What memory-infra lists one by one. */
static int read_rule(const struct hw_cli *cli, struct hw_infra_rule *out)
{
    out->threshold = (int64_t)hw_opt_num(&cli->opts, HW_OPT_INFRA_MIN);
    if (hw_detail_rule_named(hw_opt_text(&cli->opts, HW_OPT_INFRA_RULE), &out->rule))
        return HW_OK;
    hw_cli_error(cli, NULL, "--other takes threshold, fraction, rows or all");
    return HW_EINVAL;
}

/* All processes and dumps of a file. */
static int convert_whole(const struct hw_cli *cli, const struct hw_exporter *e, const char *in_path,
                         const char *out_path)
{
    struct hw_infra_rule rule;
    struct hw_export_input in = {
        .notes = stderr, .other = &rule, .only_types = hw_opt_text(&cli->opts, HW_OPT_ONLY_TYPES)};
    if (read_rule(cli, &rule) < 0)
        return hw_cli_usage_exit(cli);
    struct hw_error err = {0};
    struct hw_profile *p = NULL;
    struct hw_demangler *demangler = NULL;
    int rc = hw_import_file(hw_input_path(in_path), &p, &err);
    if (rc == HW_OK) {
        hw_symbol_options_by_environment(cli, p);
        tell_of_maps(cli, e);
    }
    if (rc == HW_OK && (rc = hw_demangler_new(hw_callsites_strings(p->callsites), &demangler)) < 0)
        (void)hw_fail(&err, rc, 0, "names:");
    if (rc == HW_OK && e->graph) {
        bool has_pid = cli->opts.v[HW_OPT_SHOW_PID].set;
        in.graph =
            hw_heap_graph_pick(p, has_pid ? (int64_t)hw_opt_num(&cli->opts, HW_OPT_SHOW_PID) : -1);
        if (!in.graph)
            rc = hw_fail(&err, HW_ENOTFOUND, 0, "'%s' has no heap graph%s", in_path,
                         has_pid ? " of that process" : "");
    }
    if (rc == HW_OK) {
        struct hw_namer namer = {hw_demangle_shown, demangler};
        in.profile = p;
        in.namer = &namer;
        rc = hw_export_to(e, &in, out_path, &err);
    }
    int status = rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
    if (rc == HW_ENOTFOUND && p && e->graph && !in.graph)
        hw_open_profile_hint_graph(p, cli->opts.v[HW_OPT_SHOW_PID].set);
    hw_demangler_free(demangler);
    hw_profile_free(p);
    return status;
}

static int convert(const struct hw_cli *cli, const struct hw_exporter *e, const hw_filters *filters,
                   const char *in_path, const char *out_path)
{
    struct hw_open_profile s;
    int rc = hw_open_profile_file(&s, cli, in_path, /* as_report = */ false);
    if (rc != 0)
        return rc;
    tell_moment(cli, &s);
    struct hw_export_input in = {.profile = s.p,
                                 .values = &s.values,
                                 .upid = s.upid,
                                 .ts_ns = s.moment->ts_ns,
                                 .interval_bytes = s.view.interval_bytes,
                                 .namer = &s.namer,
                                 .metric = s.metric,
                                 .filters = filters,
                                 .raw_counts = hw_opt_flag(&cli->opts, HW_OPT_RAW_COUNTS),
                                 .new_names = hw_opt_flag(&cli->opts, HW_OPT_NEW_NAMES)};
    size_t n_heaps = 0;
    for (size_t i = 0; i < s.list.v.n; i++) {
        if (s.list.v.v[i].upid.v != s.upid.v || s.list.v.v[i].kind != s.view.kind)
            continue;
        in.heap_name = s.list.v.v[i].heap_name;
        n_heaps++;
    }
    if (n_heaps > 1)
        in.heap_name = (hw_str_id){0};
    struct hw_error err = {0};
    hw_values at_peak = {0};
    const struct hw_process_moment *peak = hw_process_view_peak(&s.view);
    if (peak && peak->ts_ns < s.moment->ts_ns && peak->total.space > s.moment->total.space) {
        rc = hw_process_values(s.p, &s.list, s.upid, peak->ts_ns, peak->at_max, &at_peak);
        in.peak = &at_peak;
        in.peak_ts_ns = peak->ts_ns;
    }
    rc = rc < 0 ? hw_fail(&err, rc, 0, "'%s':", in_path) : hw_export_to(e, &in, out_path, &err);
    hw_vec_done(&at_peak);
    hw_open_profile_done(&s);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}

int hw_cmd_convert(struct hw_cli *cli)
{
    if (cli->opts.n_args < 1 || cli->opts.n_args > 2) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "too many arguments" : "which file?");
        hw_cli_hint("heapwise convert -t FORMAT IN [OUT]");
        return hw_cli_usage_exit(cli);
    }
    const char *out = cli->opts.n_args == 2 ? cli->opts.args[1] : "-";
    const struct hw_exporter *e = pick(cli, out);
    if (!e)
        return hw_cli_usage_exit(cli);
    if (e->binary && strcmp(out, "-") == 0 && isatty(STDOUT_FILENO)) {
        hw_cli_error(cli, NULL, "%s is binary and standard output is a terminal", e->name);
        hw_cli_hint("name an output file");
        return hw_cli_usage_exit(cli);
    }
    hw_filters filters = {0};
    int rc = hw_open_profile_filters(cli, &filters);
    if (rc == 0 && filters.n && (!e->merged || hw_filters_have_pivot(&filters))) {
        hw_cli_error(cli, NULL,
                     e->merged
                         ? "a pivot (P:) gives two graphs, and a file holds one; SFF: begins the "
                           "stacks at a frame"
                         : "%s always holds whole stacks; --filter works with the other formats",
                     e->name);
        rc = hw_cli_usage_exit(cli);
    }
    if (rc == 0 && e->whole)
        rc = convert_whole(cli, e, cli->opts.args[0], out);
    else if (rc == 0)
        rc = convert(cli, e, &filters, cli->opts.args[0], out);
    hw_filters_done(&filters);
    return rc;
}
