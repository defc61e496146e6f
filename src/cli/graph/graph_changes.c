/* graph --diff and --leaks: what changed, by class, and whether it passes the gate. */
#include <stdio.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/graph/graph_page.h"
#include "cli/parts/open_profile.h"
#include "config/command/units.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_growth.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"

/*
 * Growth of a class counts for the gate if chance would explain it in at most one case of twenty.
 */
#define P_SURE 0.05

static void put_change(double v, bool bytes)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", HW_GRAPH_WIDTH + 1, hw_fmt_change(buf, v, bytes));
}

static void put_change_row(const struct hw_graph_page *pg, const struct hw_class_change *r,
                           bool over_time)
{
    struct hw_heap_sum before = r->before, after = r->after;
    before.size -= before.native; /* a separate member in JSON, as everywhere */
    after.size -= after.native;
    if (pg->json) {
        hw_json_begin_object(pg->json);
        hw_graph_json_name(pg, "class", r->name);
        hw_graph_json_sum(pg, "before", &before);
        hw_graph_json_sum(pg, "after", &after);
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

const struct hw_heap_graph *hw_graph_pick(const struct hw_profile *p, const struct hw_opts *o)
{
    bool has_pid = o->v[HW_OPT_SHOW_PID].set;
    return hw_heap_graph_pick(p, has_pid ? (int64_t)hw_opt_num(o, HW_OPT_SHOW_PID) : -1);
}

int hw_graph_show_diff(const struct hw_graph_page *pg, const char *path, struct hw_error *err)
{
    struct hw_profile *other = NULL;
    hw_class_changes rows = {0};
    int rc = hw_import_file(hw_input_path(path), &other, err);
    if (rc == HW_OK)
        hw_symbol_options_by_environment(pg->cli, other);
    const struct hw_heap_graph *g = rc == HW_OK ? hw_graph_pick(other, &pg->cli->opts) : NULL;
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

int hw_graph_show_leaks(const struct hw_graph_page *pg, struct hw_error *err)
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
