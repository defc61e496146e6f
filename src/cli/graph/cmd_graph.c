/*
 * heapwise graph TRACE: a managed heap, by class, by dominator, by path, against another, over time
 *
 * Every form is a table: figures right-aligned, names left, the largest rows first. With --json the
 * same rows are objects: {"version": 1, "type": "heap_graph", "form": ..., "rows": [...]}. Both are
 * built in memory, so that an error prints no partial answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/text/json_out.h"
#include "cli/cli.h"
#include "cli/graph/graph_duplicates.h"
#include "cli/graph/graph_native.h"
#include "cli/graph/graph_page.h"
#include "cli/parts/held_output.h"
#include "cli/parts/json_page.h"
#include "cli/parts/open_profile.h"
#include "config/command/units.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"
#include "views/contents/heap_where.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"

#include "base/banned.h"

static void json_head(const struct hw_graph_page *pg, const struct hw_class_sum *s)
{
    const struct hw_process *process = &pg->p->processes.v[pg->g->upid.v];
    hw_json_kv_int(pg->json, "pid", process->pid);
    hw_graph_json_name(pg, "process",
                       hw_strings_get(hw_callsites_strings(pg->p->callsites), process->name));
    hw_json_kv_int(pg->json, "ts_ns", pg->g->ts_ns);
    hw_json_kv_bool(pg->json, "truncated", pg->g->truncated);
    hw_graph_json_sum(pg, "reachable", &s->reachable);
    hw_graph_json_sum(pg, "all", &s->all);
}

/* Was the graph made by walking from a JVM's roots, rather than over everything in its heap? */
static bool is_walk(const struct hw_graph_page *pg)
{
    const struct hw_strings *strings = hw_callsites_strings(pg->p->callsites);
    char name[80];
    (void)snprintf(name, sizeof name, "trace_attribute.java_heap_graph.%lld.way",
                   (long long)pg->p->processes.v[pg->g->upid.v].pid);
    for (size_t i = 0; i < pg->p->metadata.n; i++)
        if (hw_bytes_equal(hw_strings_get(strings, pg->p->metadata.v[i].name), hw_bytes_str(name)))
            return !hw_bytes_equal(hw_strings_get(strings, pg->p->metadata.v[i].text),
                                   hw_bytes_str("the JVM's own heap dump"));
    return false;
}

static void put_head(const struct hw_graph_page *pg)
{
    const struct hw_process *process = &pg->p->processes.v[pg->g->upid.v];
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(pg->p->callsites), process->name);
    struct hw_class_sum s = hw_heap_graph_sum(pg->g);
    if (pg->json) {
        json_head(pg, &s);
        return;
    }
    struct hw_strbuf text = {0};
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
    hw_strbuf_add_escaped(&text, name.p, name.n);
    printf("%s (%lld)  reachable %s in %s objects", text.n ? text.p : "[unknown]",
           (long long)process->pid, hw_fmt_bytes(a, (double)s.reachable.size),
           hw_fmt_count(b, (double)s.reachable.count));
    if (s.reachable.native)
        printf(", %s outside of the heap", hw_fmt_bytes(a, (double)s.reachable.native));
    printf("; unreachable %s%s%s\n", hw_fmt_bytes(a, (double)(s.all.size - s.reachable.size)),
           is_walk(pg) ? " (garbage of a running JVM is not recorded)" : "",
           pg->g->truncated ? "; a part of the graph is missing" : "");
    hw_strbuf_done(&text);
}

/* ---- classes ---- */

/* Classes of one name, of a loader each, share a row: a hundred plug-ins are no hundred rows. */
struct class_row {
    uint32_t class; /* the first of them */
    uint32_t n;
    int64_t key;
};

static int by_key(const void *pa, const void *pb)
{
    const struct class_row *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return (a->class > b->class) - (a->class < b->class);
}

static void put_class(const struct hw_graph_page *pg, uint32_t class, uint32_t n,
                      const struct hw_class_sum *s)
{
    int64_t retained = s->dominated.size + s->dominated.native;
    if (pg->json) {
        hw_json_begin_object(pg->json);
        hw_graph_json_name(pg, "class", hw_graph_name_of(pg, class));
        hw_json_kv_int(pg->json, "retained", retained);
        hw_json_kv_int(pg->json, "size", s->reachable.size);
        hw_json_kv_int(pg->json, "native", s->reachable.native);
        hw_json_kv_int(pg->json, "objects", s->reachable.count);
        if (n > 1)
            hw_json_kv_uint(pg->json, "classes", n);
        hw_json_end_object(pg->json);
        return;
    }
    hw_graph_put_bytes(retained);
    hw_graph_put_bytes(s->reachable.size);
    hw_graph_put_bytes(s->reachable.native);
    hw_graph_put_count(s->reachable.count);
    struct hw_strbuf name = {0};
    struct hw_bytes text = hw_graph_name_of(pg, class);
    hw_strbuf_add(&name, text.p, text.n);
    if (n > 1)
        hw_strbuf_addf(&name, "  (%u classes of this name)", n);
    hw_graph_put_name(hw_bytes_of(name.p, name.n));
    hw_strbuf_done(&name);
}

static void add_total(struct hw_heap_sum *to, const struct hw_heap_sum *t)
{
    to->count += t->count;
    to->size += t->size;
    to->native += t->native;
}

/* One row a name, with the sums of all its classes in those of its first. */
static int group_by_name(const struct hw_heap_graph *g, struct hw_class_sum *sums,
                         struct class_row *rows, size_t *n)
{
    struct hw_map64 by_name = {0};
    int rc = HW_OK;
    for (uint32_t c = 0; rc == HW_OK && c < g->n_classes; c++) {
        uint64_t *row;
        bool fresh;
        if (!sums[c].reachable.count)
            continue;
        rc = hw_map64_at(&by_name, hw_class_shown_name(&g->classes[c]).v, &row, &fresh);
        if (rc < 0)
            break;
        if (fresh) {
            *row = *n;
            rows[(*n)++] = (struct class_row){.class = c, .n = 1};
            continue;
        }
        struct class_row *to = &rows[*row];
        to->n++;
        add_total(&sums[to->class].reachable, &sums[c].reachable);
        add_total(&sums[to->class].dominated, &sums[c].dominated);
    }
    hw_map64_done(&by_name);
    return rc;
}

/* Classes with reachable objects: self size, and next to it what they keep alive. */
static int show_classes(const struct hw_graph_page *pg, bool by_dominated)
{
    const struct hw_heap_graph *g = pg->g;
    struct hw_dominators d = {0};
    hw_autofree struct hw_class_sum *sums = calloc((size_t)g->n_classes + 1, sizeof *sums);
    hw_autofree struct class_row *rows = calloc((size_t)g->n_classes + 1, sizeof *rows);
    int rc = sums && rows ? hw_dominators_build(g, &d) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_heap_class_sums(g, &d, sums);
    hw_dominators_done(&d);
    if (rc < 0)
        return rc;
    size_t n = 0;
    rc = group_by_name(g, sums, rows, &n);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n; i++) {
        const struct hw_class_sum *s = &sums[rows[i].class];
        rows[i].key = by_dominated ? s->dominated.size + s->dominated.native
                                   : s->reachable.size + s->reachable.native;
    }
    if (n)
        qsort(rows, n, sizeof *rows, by_key);
    if (pg->json)
        hw_graph_begin_rows(pg);
    else
        printf("%*s%*s%*s%*s  %s\n", HW_GRAPH_WIDTH, "retained", HW_GRAPH_WIDTH, "own",
               HW_GRAPH_WIDTH, "native", HW_GRAPH_WIDTH, "objects", "class");
    for (size_t i = 0; i < n && i < pg->top; i++)
        put_class(pg, rows[i].class, rows[i].n, &sums[rows[i].class]);
    if (pg->json)
        hw_json_end_array(pg->json);
    return HW_OK;
}

/* ---- forms ---- */

static int classes_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    (void)err;
    return show_classes(pg, /* by_dominated = */ false);
}

static int dominators_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    (void)err;
    return show_classes(pg, /* by_dominated = */ true);
}

static int path_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    const char *class = hw_opt_text(&pg->cli->opts, HW_OPT_GRAPH_PATH);
    int rc = hw_graph_show_path(pg, class);
    return rc == HW_ENOTFOUND ? hw_fail(err, rc, 0, "no reachable object of class '%s'", class)
                              : rc;
}

static int diff_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    return hw_graph_show_diff(pg, hw_opt_text(&pg->cli->opts, HW_OPT_GRAPH_DIFF), err);
}

static int native_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    int rc = hw_graph_show_native(pg->p, pg->g, pg->top, pg->json);
    return rc == HW_ENOTFOUND
               ? hw_fail(err, rc, 0, "this graph records no memory outside of the heap")
               : rc;
}

static int no_contents(int rc, const char *what, struct hw_error *err)
{
    if (rc != HW_ENOTFOUND)
        return rc;
    return hw_fail(err, rc, 0,
                   "the contents of %s are not known: a trace has none, and of an .hprof "
                   "file they are read up to two million objects",
                   what);
}

static int duplicates_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    return no_contents(hw_graph_show_duplicates(pg->p, pg->g, pg->top, pg->json), "arrays", err);
}

static int collections_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    return no_contents(hw_graph_show_collections(pg), "objects", err);
}

static int boxed_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    return no_contents(hw_graph_show_boxes(pg), "objects", err);
}

static int unreachable_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    (void)err;
    return hw_graph_show_unreachable(pg);
}

static int suspects_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    (void)err;
    return hw_graph_show_suspects(pg);
}

static int threads_form(const struct hw_graph_page *pg, struct hw_error *err)
{
    int rc = hw_graph_show_threads(pg);
    return rc == HW_ENOTFOUND
               ? hw_fail(err, rc, 0, "this graph does not tell which thread holds what")
               : rc;
}

static const struct form {
    enum hw_option_id option;
    const char *name; /* in JSON; the option has it, too */
    int (*show)(const struct hw_graph_page *pg, struct hw_error *err);
} forms[] = {
    {HW_OPT_GRAPH_CLASSES, "classes", classes_form}, /* the default */
    {HW_OPT_GRAPH_DOMINATORS, "dominators", dominators_form},
    {HW_OPT_GRAPH_PATH, "path", path_form},
    {HW_OPT_GRAPH_DIFF, "diff", diff_form},
    {HW_OPT_GRAPH_LEAKS, "leaks", hw_graph_show_leaks},
    {HW_OPT_GRAPH_NATIVE, "native", native_form},
    {HW_OPT_GRAPH_DUPLICATES, "duplicates", duplicates_form},
    {HW_OPT_GRAPH_SUSPECTS, "suspects", suspects_form},
    {HW_OPT_GRAPH_THREADS, "threads", threads_form},
    {HW_OPT_GRAPH_COLLECTIONS, "collections", collections_form},
    {HW_OPT_GRAPH_BOXED, "boxed", boxed_form},
    {HW_OPT_GRAPH_UNREACHABLE, "unreachable", unreachable_form},
    {HW_OPT_GRAPH_WHERE, "where", hw_graph_show_where},
};

static bool is_asked(const struct hw_opts *o, const struct form *f)
{
    return hw_opt_text(o, f->option) || hw_opt_flag(o, f->option);
}

static const struct form *form_of(const struct hw_opts *o, size_t *n)
{
    const struct form *found = &forms[0];
    *n = 0;
    for (size_t i = 0; i < HW_ARRAY_LEN(forms); i++)
        if (is_asked(o, &forms[i])) {
            found = &forms[i];
            ++*n;
        }
    return found;
}

static int show(const struct hw_graph_page *pg, struct hw_error *err)
{
    size_t n;
    const struct form *f = form_of(&pg->cli->opts, &n);
    if (pg->json)
        hw_json_kv_str(pg->json, "form", f->name);
    put_head(pg);
    int rc = f->show(pg, err);
    return rc < 0 && err->code == 0 ? hw_fail(err, rc, 0, "heap graph:") : rc;
}

/* Standard output gets the object only when it is whole. */
static int show_json(struct hw_graph_page *pg, struct hw_error *err)
{
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "heap_graph", HW_PAGE_HELD);
    pg->json = &j;
    int rc = show(pg, err);
    if (rc < 0) {
        hw_json_done(&j);
        return rc;
    }
    int written = hw_json_page_end(&j);
    if (written < 0)
        return hw_fail(err, written, 0, "cannot write");
    return rc;
}

/* The same for a table. */
static int show_text(const struct hw_graph_page *pg, struct hw_error *err)
{
    struct hw_held_output held;
    int rc = hw_held_output_begin(&held);
    if (rc < 0)
        return hw_fail(err, rc, 0, "heap graph:");
    rc = show(pg, err);
    int ended = hw_held_output_end(&held, rc >= 0);
    return rc < 0 ? rc : ended < 0 ? hw_fail(err, ended, 0, "heap graph:") : rc;
}

static bool read_limit(struct hw_graph_page *pg)
{
    const struct hw_opts *o = &pg->cli->opts;
    const char *text = hw_opt_text(o, HW_OPT_FAIL_ABOVE);
    struct hw_error err = {0};
    pg->has_limit = text != NULL;
    if (!text)
        return true;
    if (!o->v[HW_OPT_GRAPH_DIFF].set && !hw_opt_flag(o, HW_OPT_GRAPH_LEAKS)) {
        hw_cli_error(pg->cli, NULL, "--fail-above: with --diff or --leaks only");
        return false;
    }
    if (hw_parse_limit(text, /* bytes = */ true, &pg->limit, &err) == 0)
        return true;
    hw_cli_error(pg->cli, NULL, "--fail-above: %s", err.text);
    hw_cli_hint("a size (512K) or a share of what was there before (5%%)");
    return false;
}

static bool read_where(struct hw_graph_page *pg)
{
    const char *text = hw_opt_text(&pg->cli->opts, HW_OPT_GRAPH_WHERE);
    struct hw_error err = {0};
    if (!text || hw_heap_where_parse(text, &pg->where, &err) == 0)
        return true;
    hw_cli_error(pg->cli, NULL, "--where %s", err.text);
    hw_cli_hint("conditions like 'class=java.util.HashMap and size>1000'");
    return false;
}

int hw_cmd_graph(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    struct hw_error err = {0};
    size_t n_forms;
    (void)form_of(o, &n_forms);
    if (o->n_args != 1 || n_forms > 1) {
        struct hw_strbuf names = {0};
        for (size_t i = 0; i < HW_ARRAY_LEN(forms); i++)
            hw_strbuf_addf(&names, "%s--%s", i ? ", " : "", forms[i].name);
        if (o->n_args != 1)
            hw_cli_error(cli, NULL, "which trace?");
        else
            hw_cli_error(cli, NULL, "only one of %s at a time", names.p ? names.p : "these forms");
        hw_strbuf_done(&names);
        hw_cli_hint("heapwise help graph");
        return hw_cli_usage_exit(cli);
    }
    bool failed = false;
    struct hw_graph_page pg = {
        .cli = cli, .top = (size_t)hw_opt_num(o, HW_OPT_TOP), .failed = &failed};
    if (!read_limit(&pg) || !read_where(&pg))
        return hw_cli_usage_exit(cli);
    if (pg.top == 0)
        pg.top = SIZE_MAX;
    int rc = hw_import_file(hw_input_path(o->args[0]), &pg.p, &err);
    if (rc == HW_OK)
        hw_symbol_options_by_environment(cli, pg.p);
    pg.g = rc == HW_OK ? hw_graph_pick(pg.p, o) : NULL;
    if (rc == HW_OK && !pg.g)
        rc = hw_fail(&err, HW_ENOTFOUND, 0, "no heap graph in '%s'%s", o->args[0],
                     o->v[HW_OPT_SHOW_PID].set ? " of that process" : "");
    if (rc == HW_OK)
        rc = hw_opt_flag(o, HW_OPT_JSON) ? show_json(&pg, &err) : show_text(&pg, &err);
    bool incomplete = false;
    (void)fflush(stdout); /* losses are printed below; a failed write is reported at the end */
    if (rc == HW_OK && hw_open_profile_all_losses(pg.p, stderr, &incomplete) < 0)
        rc = hw_fail(&err, HW_ENOMEM, 0, "losses");
    int status = rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
    if (rc == HW_ENOTFOUND && pg.p && !pg.g)
        hw_open_profile_hint_graph(pg.p, o->v[HW_OPT_SHOW_PID].set);
    if (rc == HW_ENOTFOUND && pg.g && o->v[HW_OPT_GRAPH_PATH].set)
        hw_graph_suggest_classes(&pg, hw_opt_text(o, HW_OPT_GRAPH_PATH));
    hw_profile_free(pg.p);
    hw_heap_where_free(pg.where);
    if (rc < 0)
        return status;
    return failed ? HW_EXIT_GATE : incomplete ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}
