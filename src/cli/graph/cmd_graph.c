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

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/graph/graph_duplicates.h"
#include "cli/graph/graph_native.h"
#include "cli/parts/held_output.h"
#include "cli/parts/open_profile.h"
#include "config/command/units.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_growth.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"
#include "cli/graph/graph_page.h"
#include "cli/parts/json_page.h"

/*
 * Growth of a class counts for the gate if chance would explain it in at most one case of twenty.
 */
#define P_SURE 0.05

struct hw_bytes hw_graph_name_of(const struct hw_graph_page *pg, uint32_t class)
{
    return hw_strings_get(hw_callsites_strings(pg->p->callsites),
                          hw_class_shown_name(&pg->g->classes[class]));
}

void hw_graph_put_name(struct hw_bytes name)
{
    struct hw_strbuf text = {0};
    hw_strbuf_add_escaped(&text, name.p, name.n);
    printf("  %s\n", text.n ? text.p : "[unknown]");
    hw_strbuf_done(&text);
}

void hw_graph_json_name(const struct hw_graph_page *pg, const char *key, struct hw_bytes name)
{
    hw_json_key(pg->json, key);
    hw_json_strn(pg->json, name.p, name.n);
}

static void json_sum(const struct hw_graph_page *pg, const char *key, const struct hw_heap_sum *s)
{
    hw_json_key(pg->json, key);
    hw_json_begin_object(pg->json);
    hw_json_kv_int(pg->json, "objects", s->count);
    hw_json_kv_int(pg->json, "size", s->size);
    hw_json_kv_int(pg->json, "native", s->native);
    hw_json_end_object(pg->json);
}

void hw_graph_begin_rows(const struct hw_graph_page *pg)
{
    hw_json_key(pg->json, "rows");
    hw_json_begin_array(pg->json);
}

void hw_graph_put_bytes(int64_t v)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", HW_GRAPH_WIDTH, hw_fmt_bytes(buf, (double)v));
}

void hw_graph_put_count(int64_t v)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", HW_GRAPH_WIDTH, hw_fmt_count(buf, (double)v));
}

static void put_change(double v, bool bytes)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", HW_GRAPH_WIDTH + 1, hw_fmt_change(buf, v, bytes));
}

static void json_head(const struct hw_graph_page *pg, const struct hw_class_sum *s)
{
    const struct hw_process *process = &pg->p->processes.v[pg->g->upid.v];
    hw_json_kv_int(pg->json, "pid", process->pid);
    hw_graph_json_name(pg, "process",
                       hw_strings_get(hw_callsites_strings(pg->p->callsites), process->name));
    hw_json_kv_int(pg->json, "ts_ns", pg->g->ts_ns);
    hw_json_kv_bool(pg->json, "truncated", pg->g->truncated);
    json_sum(pg, "reachable", &s->reachable);
    json_sum(pg, "all", &s->all);
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

/* ---- against another, over time ---- */

static void put_change_row(const struct hw_graph_page *pg, const struct hw_class_change *r,
                           bool over_time)
{
    struct hw_heap_sum before = r->before, after = r->after;
    before.size -= before.native; /* a separate member in JSON, as everywhere */
    after.size -= after.native;
    if (pg->json) {
        hw_json_begin_object(pg->json);
        hw_graph_json_name(pg, "class", r->name);
        json_sum(pg, "before", &before);
        json_sum(pg, "after", &after);
        if (over_time) {
            hw_json_kv_uint(pg->json, "rises", r->n_rises);
            hw_json_kv_double(pg->json, "bytes_per_second", r->slope.slope);
            hw_json_kv_double(pg->json, "p", r->slope.p);
        }
        hw_json_end_object(pg->json);
        return;
    }
    put_change((double)r->after.size - (double)r->before.size, /* bytes = */ true);
    put_change((double)r->after.count - (double)r->before.count, /* bytes = */ false);
    hw_graph_put_bytes(r->after.size);
    if (over_time)
        printf("%8u %10.3g", r->n_rises, r->slope.p);
    hw_graph_put_name(r->name);
}

static bool rose(const struct hw_class_change *r)
{
    return r->after.size > r->before.size && r->slope.slope > 0;
}

static void put_changes(const struct hw_graph_page *pg, const hw_class_changes *rows,
                        bool over_time)
{
    if (pg->json)
        hw_graph_begin_rows(pg);
    else
        printf("%*s%*s%*s%s  %s\n", HW_GRAPH_WIDTH + 1, "bytes", HW_GRAPH_WIDTH + 1, "objects",
               HW_GRAPH_WIDTH, "now", over_time ? "   rises          p" : "", "class");
    size_t shown = 0;
    for (size_t i = 0; i < rows->n && shown < pg->top; i++) {
        if (over_time && !rose(&rows->v[i]))
            continue;
        put_change_row(pg, &rows->v[i], over_time);
        shown++;
    }
    if (pg->json)
        hw_json_end_array(pg->json);
    else if (shown == 0)
        puts(over_time ? "no class grew" : "no class differs");
}

/* grew: bytes that count for the gate; before: the base of a percentage. */
static void check_gate(const struct hw_graph_page *pg, double grew, double before)
{
    if (!pg->has_limit)
        return;
    double limit = pg->limit.is_share ? before * pg->limit.value / 100 : pg->limit.value;
    *pg->failed = grew > limit;
    if (!pg->json) {
        char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
        printf("%s: grew by %s, the limit is %s\n", *pg->failed ? "FAILED" : "passed",
               hw_fmt_change(a, grew, /* bytes = */ true), hw_fmt_bytes(b, limit));
        return;
    }
    hw_json_key(pg->json, "gate");
    hw_json_begin_object(pg->json);
    hw_json_kv_double(pg->json, "limit", limit);
    hw_json_kv_double(pg->json, "grew", grew);
    hw_json_kv_bool(pg->json, "failed", *pg->failed);
    hw_json_end_object(pg->json);
}

static double reachable_bytes(const struct hw_heap_graph *g)
{
    struct hw_class_sum s = hw_heap_graph_sum(g);
    return (double)s.reachable.size + (double)s.reachable.native;
}

static const struct hw_heap_graph *pick(const struct hw_profile *p, const struct hw_opts *o)
{
    bool has_pid = o->v[HW_OPT_SHOW_PID].set;
    return hw_heap_graph_pick(p, has_pid ? (int64_t)hw_opt_num(o, HW_OPT_SHOW_PID) : -1);
}

static int show_diff(const struct hw_graph_page *pg, const char *path, struct hw_error *err)
{
    struct hw_profile *other = NULL;
    hw_class_changes rows = {0};
    int rc = hw_import_file(hw_input_path(path), &other, err);
    if (rc == HW_OK)
        hw_symbol_options_by_environment(pg->cli, other);
    const struct hw_heap_graph *g = rc == HW_OK ? pick(other, &pg->cli->opts) : NULL;
    if (rc == HW_OK && !g)
        rc = hw_fail(err, HW_ENOTFOUND, 0, "'%s' has no heap graph of the process", path);
    if (rc == HW_OK)
        rc = hw_heap_diff(pg->p, pg->g, other, g, &rows);
    if (rc == HW_OK) {
        put_changes(pg, &rows, /* over_time = */ false);
        check_gate(pg, reachable_bytes(g) - reachable_bytes(pg->g), reachable_bytes(pg->g));
    }
    hw_vec_done(&rows);
    hw_profile_free(other);
    return rc;
}

static int show_leaks(const struct hw_graph_page *pg, struct hw_error *err)
{
    hw_class_changes rows = {0};
    size_t n = 0;
    int rc = hw_heap_growth(pg->p, pg->g->upid, &rows, &n);
    if (rc == HW_OK && n < 3)
        rc = hw_fail(err, HW_ENOTFOUND, 0,
                     "%zu dump%s of the process; growth takes at least three: record with -c "
                     "(heapwise java dump -c 10s PID)",
                     n, hw_plural(n));
    if (rc == HW_OK) {
        double grew = 0, before = 0;
        for (size_t i = 0; i < rows.n; i++) {
            const struct hw_class_change *r = &rows.v[i];
            before += (double)r->before.size;
            if (rose(r) && r->slope.p <= P_SURE)
                grew += (double)r->after.size - (double)r->before.size;
        }
        if (pg->json)
            hw_json_kv_uint(pg->json, "dumps", n);
        else
            printf("%zu dump%s\n", n, hw_plural(n));
        put_changes(pg, &rows, /* over_time = */ true);
        check_gate(pg, grew, before);
    }
    hw_vec_done(&rows);
    return rc;
}

static int show(const struct hw_graph_page *pg, struct hw_error *err)
{
    const struct hw_opts *o = &pg->cli->opts;
    const char *class = hw_opt_text(o, HW_OPT_GRAPH_PATH),
               *other = hw_opt_text(o, HW_OPT_GRAPH_DIFF);
    bool leaks = hw_opt_flag(o, HW_OPT_GRAPH_LEAKS),
         dominators = hw_opt_flag(o, HW_OPT_GRAPH_DOMINATORS),
         native = hw_opt_flag(o, HW_OPT_GRAPH_NATIVE),
         duplicates = hw_opt_flag(o, HW_OPT_GRAPH_DUPLICATES),
         suspects = hw_opt_flag(o, HW_OPT_GRAPH_SUSPECTS),
         threads = hw_opt_flag(o, HW_OPT_GRAPH_THREADS);
    int rc;
    if (pg->json) {
        hw_json_kv_str(pg->json, "form",
                       class        ? "path"
                       : other      ? "diff"
                       : leaks      ? "leaks"
                       : dominators ? "dominators"
                       : native     ? "native"
                       : duplicates ? "duplicates"
                       : suspects   ? "suspects"
                       : threads    ? "threads"
                                    : "classes");
    }
    put_head(pg);
    if (class)
        rc = hw_graph_show_path(pg, class);
    else if (other)
        rc = show_diff(pg, other, err);
    else if (leaks)
        rc = show_leaks(pg, err);
    else if (native)
        rc = hw_graph_show_native(pg->p, pg->g, pg->top, pg->json);
    else if (duplicates)
        rc = hw_graph_show_duplicates(pg->p, pg->g, pg->top, pg->json);
    else if (suspects)
        rc = hw_graph_show_suspects(pg);
    else if (threads)
        rc = hw_graph_show_threads(pg);
    else
        rc = show_classes(pg, dominators);
    if (rc == HW_ENOTFOUND && duplicates)
        return hw_fail(err, rc, 0,
                       "the contents of arrays are not known: a trace has none, and of an .hprof "
                       "file they are read up to two million objects");
    if (rc == HW_ENOTFOUND && threads)
        return hw_fail(err, rc, 0, "this graph does not tell which thread holds what");
    if (rc == HW_ENOTFOUND && native)
        return hw_fail(err, rc, 0, "this graph records no memory outside of the heap");
    if (rc == HW_ENOTFOUND && class)
        return hw_fail(err, rc, 0, "no reachable object of class '%s'", class);
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

int hw_cmd_graph(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    struct hw_error err = {0};
    int n_forms = o->v[HW_OPT_GRAPH_PATH].set + o->v[HW_OPT_GRAPH_DIFF].set +
                  hw_opt_flag(o, HW_OPT_GRAPH_LEAKS) + hw_opt_flag(o, HW_OPT_GRAPH_DOMINATORS) +
                  hw_opt_flag(o, HW_OPT_GRAPH_CLASSES) + hw_opt_flag(o, HW_OPT_GRAPH_NATIVE) +
                  hw_opt_flag(o, HW_OPT_GRAPH_DUPLICATES) + hw_opt_flag(o, HW_OPT_GRAPH_SUSPECTS) +
                  hw_opt_flag(o, HW_OPT_GRAPH_THREADS);
    if (o->n_args != 1 || n_forms > 1) {
        hw_cli_error(cli, NULL,
                     o->n_args != 1
                         ? "which trace?"
                         : "only one of --classes, --dominators, --path, --diff, "
                           "--leaks, --native, --duplicates, --suspects, --threads at a time");
        hw_cli_hint("heapwise help graph");
        return hw_cli_usage_exit(cli);
    }
    bool failed = false;
    struct hw_graph_page pg = {
        .cli = cli, .top = (size_t)hw_opt_num(o, HW_OPT_TOP), .failed = &failed};
    if (!read_limit(&pg))
        return hw_cli_usage_exit(cli);
    if (pg.top == 0)
        pg.top = SIZE_MAX;
    int rc = hw_import_file(hw_input_path(o->args[0]), &pg.p, &err);
    if (rc == HW_OK)
        hw_symbol_options_by_environment(cli, pg.p);
    pg.g = rc == HW_OK ? pick(pg.p, o) : NULL;
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
    if (rc < 0)
        return status;
    return failed ? HW_EXIT_GATE : incomplete ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}
