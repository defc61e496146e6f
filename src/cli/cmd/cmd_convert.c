/*
 * heapwise convert -t FORMAT IN [OUT]: one moment of one process as a file; -t page: a whole trace.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "config/command/units.h"
#include "enrich/lines/demangle.h"
#include "export/export.h"
#include "import/import.h"
#include "open/export_file.h"
#include "open/symbol_options.h"
#include "open/whole_file.h"
#include "server/api/saved/saved_page.h"
#include "server/pages.h"
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
    fputs("hint: -t page,", stderr);
    for (const struct hw_exporter *const *x = hw_exporters; *x; x++)
        fprintf(stderr, "%s %s", x == hw_exporters ? "" : ",", (*x)->name);
    fputc('\n', stderr);
    return NULL;
}

/* Converters are expected to take the end; a program that has cleaned up shows little there. */
static void tell_moment(const struct hw_cli *cli, const struct hw_open_profile *s)
{
    bool live = hw_metric_is_live(s->metric);
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

/* In a trace, original names are extra packets: appended, not replacing others. */
static void tell_of_maps(const struct hw_cli *cli, const struct hw_exporter *e)
{
    if (e == &hw_export_perfetto &&
        (hw_symbol_options_map_asked() || cli->opts.v[HW_OPT_NAME_MAPS].list.n) &&
        !hw_opt_flag(&cli->opts, HW_OPT_QUIET))
        fputs("note: a Perfetto trace keeps the names as they are; PERFETTO_PROGUARD_MAP=... "
              "heapwise deobfuscate OUT adds the original ones\n",
              stderr);
}

/* The rows that memory-infra lists. */
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

/* ---- the page of a whole trace ---- */

static void add_names(void *ctx, struct hw_profile *p, const char *more_dirs, bool away,
                      struct hw_pb *out)
{
    (void)more_dirs;
    (void)away; /* the user's own trace */
    (void)out;
    hw_symbol_options_by_environment(ctx, p);
}

static int write_page(const struct hw_strbuf *page, const char *out_path, struct hw_error *err)
{
    struct hw_whole_file file;
    if (strcmp(out_path, "-") == 0)
        return hw_fd_write_all(STDOUT_FILENO, page->p, page->n) < 0
                   ? hw_fail_sys(err, "cannot write '-'")
                   : HW_OK;
    int rc = hw_whole_file_open(out_path, 0666, &file, err);
    if (rc < 0)
        return rc;
    if (hw_fd_write_all(file.fd, page->p, page->n) < 0)
        rc = hw_fail_sys(err, "cannot write '%s'", out_path);
    return hw_whole_file_close(&file, rc, err);
}

static int convert_to_page(struct hw_cli *cli, const char *in_path, const char *out_path)
{
    struct hw_pages_options o = {.add_names = add_names, .ctx = cli, .own = true};
    struct hw_strbuf page = {0};
    struct hw_error err = {0};
    struct hw_pages *pages = NULL;
    size_t n_left_out = 0;
    unsigned id = 0;
    int rc = access(hw_input_path(in_path), R_OK) < 0
                 ? hw_fail_sys(&err, "cannot open '%s'", in_path)
                 : hw_pages_new(&o, &pages, &err);
    if (rc == HW_OK)
        rc = hw_pages_open(pages, hw_input_path(in_path), &id, &err);
    if (rc == HW_OK)
        rc = hw_saved_page_make(pages, id, HW_SAVED_PAGE_BYTES, &page, &n_left_out, &err);
    if (rc == HW_OK)
        rc = write_page(&page, out_path, &err);
    if (rc == HW_OK && n_left_out && !hw_opt_flag(&cli->opts, HW_OPT_QUIET))
        fprintf(stderr, "note: %zu of its tables and graphs found no room in the file\n",
                n_left_out);
    hw_strbuf_done(&page);
    (void)hw_pages_free(pages); /* its reader is closed */
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}

/* It holds every process and moment: no selection. */
static int check_page(const struct hw_cli *cli)
{
    static const struct {
        enum hw_option_id id;
        const char *name;
    } its[] = {{HW_OPT_SHOW_PID, "pid"},
               {HW_OPT_METRIC, "metric"},
               {HW_OPT_SHOW_HEAP, "heap"},
               {HW_OPT_FILTER, "filter"},
               {HW_OPT_PEAK, "peak"}};
    for (size_t i = 0; i < HW_ARRAY_LEN(its); i++) {
        const struct hw_optval *v = &cli->opts.v[its[i].id];
        if (!v->set || !v->origin || strcmp(v->origin, "command line") != 0)
            continue;
        hw_cli_error(cli, NULL,
                     "a page holds all processes, moments and metrics: --%s has no meaning",
                     its[i].name);
        return hw_cli_usage_exit(cli);
    }
    return HW_EXIT_OK;
}

int hw_cmd_convert(struct hw_cli *cli)
{
    if (cli->opts.n_args < 1 || cli->opts.n_args > 2) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "too many arguments" : "which file?");
        hw_cli_hint("heapwise convert -t FORMAT IN [OUT]");
        return hw_cli_usage_exit(cli);
    }
    const char *out = cli->opts.n_args == 2 ? cli->opts.args[1] : "-";
    const char *format = hw_opt_text(&cli->opts, HW_OPT_FORMAT);
    if (format && strcmp(format, "page") == 0) {
        int bad = check_page(cli);
        return bad ? bad : convert_to_page(cli, cli->opts.args[0], out);
    }
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
