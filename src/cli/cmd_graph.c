/*
 * heapwise graph TRACE: a managed heap, by class, by dominator, by path, against another, over time
 *
 * Every form is a table: figures right, names left, the rows that weigh most first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "cli/units.h"
#include "import/import.h"
#include "model/profile.h"
#include "views/dominators.h"
#include "views/heap_classes.h"
#include "views/heap_growth.h"
#include "views/heap_paths.h"
#include "views/heap_tree.h"

#include "base/banned.h"

enum { WIDTH = 11, MAX_PATH_SHOWN = 60 };

struct graph_page {
    const struct hw_cli *cli;
    struct hw_profile *p;
    const struct hw_heap_graph *g;
    size_t top; /* rows; SIZE_MAX = all */
};

static struct hw_bytes name_of(const struct graph_page *pg, uint32_t class)
{
    return hw_strings_get(hw_callsites_strings(pg->p->callsites),
                          hw_class_shown_name(&pg->g->classes[class]));
}

static void put_name(struct hw_bytes name)
{
    struct hw_strbuf text = {0};
    hw_strbuf_add_escaped(&text, name.p, name.n);
    printf("  %s\n", text.n ? text.p : "[unknown]");
    hw_strbuf_done(&text);
}

static void put_bytes(int64_t v)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", WIDTH, hw_fmt_bytes(buf, (double)v));
}

static void put_count(int64_t v)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", WIDTH, hw_fmt_count(buf, (double)v));
}

static void put_change(double v, bool bytes)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", WIDTH + 1, hw_fmt_change(buf, v, bytes));
}

static void put_head(const struct graph_page *pg)
{
    const struct hw_process *process = &pg->p->processes.v[pg->g->upid.v];
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(pg->p->callsites), process->name);
    struct hw_class_sum s = hw_heap_graph_sum(pg->g);
    struct hw_strbuf text = {0};
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
    hw_strbuf_add_escaped(&text, name.p, name.n);
    printf("%s (%lld)  reachable %s in %s objects", text.n ? text.p : "[unknown]",
           (long long)process->pid, hw_fmt_bytes(a, (double)s.reachable.size),
           hw_fmt_count(b, (double)s.reachable.count));
    if (s.reachable.native)
        printf(", %s outside of the heap", hw_fmt_bytes(a, (double)s.reachable.native));
    printf("; unreachable %s%s\n", hw_fmt_bytes(a, (double)(s.all.size - s.reachable.size)),
           pg->g->truncated ? "; a part of the graph is missing" : "");
    hw_strbuf_done(&text);
}

/* ---- classes ---- */

struct class_row {
    uint32_t class;
    int64_t key;
};

static int by_key(const void *pa, const void *pb)
{
    const struct class_row *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return (a->class > b->class) - (a->class < b->class);
}

/* Classes with reachable objects: own bytes, with what they keep alive beside. */
static int show_classes(const struct graph_page *pg, bool by_dominated)
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
    for (uint32_t c = 0; c < g->n_classes; c++) {
        const struct hw_class_sum *s = &sums[c];
        if (s->reachable.count)
            rows[n++] =
                (struct class_row){c, by_dominated ? s->dominated.size + s->dominated.native
                                                   : s->reachable.size + s->reachable.native};
    }
    if (n)
        qsort(rows, n, sizeof *rows, by_key);
    printf("%*s%*s%*s%*s  %s\n", WIDTH, "retained", WIDTH, "own", WIDTH, "native", WIDTH, "objects",
           "class");
    for (size_t i = 0; i < n && i < pg->top; i++) {
        const struct hw_class_sum *s = &sums[rows[i].class];
        put_bytes(s->dominated.size + s->dominated.native);
        put_bytes(s->reachable.size);
        put_bytes(s->reachable.native);
        put_count(s->reachable.count);
        put_name(name_of(pg, rows[i].class));
    }
    return HW_OK;
}

/* ---- paths ---- */

static bool matches(const struct graph_page *pg, uint32_t class, const char *wanted)
{
    return hw_bytes_equal(name_of(pg, class), hw_bytes_str(wanted));
}

/* "Owner.field" of the reference by which a path goes on. */
static void put_step(const struct graph_page *pg, uint32_t owner, uint32_t owned)
{
    const struct hw_heap_graph *g = pg->g;
    for (uint32_t r = g->first_ref[owner]; r < g->first_ref[owner + 1]; r++) {
        const struct hw_heap_field *f = &g->fields[g->ref_field[r]];
        if (g->ref_owned[r] != owned || !hw_ref_is_strong(g, owner, r))
            continue;
        struct hw_bytes name = hw_strings_get(hw_callsites_strings(pg->p->callsites),
                                              f->clear_name.v ? f->clear_name : f->name);
        struct hw_strbuf text = {0};
        hw_strbuf_add_escaped(&text, name.p, name.n);
        printf("    by %s\n", text.n ? text.p : "an element");
        hw_strbuf_done(&text);
        return;
    }
}

static void put_path(const struct graph_page *pg, const struct hw_heap_paths *t, size_t at)
{
    for (size_t left = MAX_PATH_SHOWN; left > 0; left--) {
        uint32_t o = t->object[at], up = t->parent[at];
        put_name(name_of(pg, pg->g->type[o]));
        if (up == HW_ID_NONE) {
            printf("    %s\n", hw_root_type_name(hw_object_root_type(pg->g, o)));
            return;
        }
        put_step(pg, t->object[up], o);
        at = up;
    }
    puts("    and so on");
}

struct tree_row {
    const struct hw_heap_node *node;
    uint32_t index;
};

static int by_size(const void *pa, const void *pb)
{
    const struct tree_row *a = pa, *b = pb;
    if (a->node->size != b->node->size)
        return a->node->size > b->node->size ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* The ways on which objects of the class are reached, by the classes on them. */
static int show_ways(const struct graph_page *pg, const hw_heap_tree *tree, const char *wanted)
{
    HW_VEC(struct tree_row) rows = {0};
    struct hw_strbuf line = {0}, name = {0};
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < tree->n; i++)
        if (!tree->v[i].is_native && matches(pg, tree->v[i].class, wanted) &&
            hw_vec_push(&rows, (struct tree_row){&tree->v[i], i}) < 0)
            rc = HW_ENOMEM;
    if (rows.n)
        qsort(rows.v, rows.n, sizeof *rows.v, by_size);
    printf("%*s%*s  %s\n", WIDTH, "own", WIDTH, "objects", "way, from the object to the root");
    for (size_t i = 0; rc == HW_OK && i < rows.n && i < pg->top; i++) {
        size_t left = MAX_PATH_SHOWN;
        put_bytes(rows.v[i].node->size);
        put_count(rows.v[i].node->count);
        hw_strbuf_clear(&line);
        for (uint32_t at = rows.v[i].index; at != HW_ID_NONE && left > 0; left--) {
            hw_strbuf_clear(&name);
            hw_heap_node_name(pg->p, pg->g, &tree->v[at], HW_FOLD_FLAME, &name);
            hw_strbuf_adds(&line, line.n ? " < " : "");
            hw_strbuf_add_escaped(&line, name.p, name.n);
            at = tree->v[at].parent;
        }
        printf("  %s%s\n", line.p ? line.p : "", left ? "" : " < ...");
    }
    rc = rc < 0 || line.failed || name.failed ? HW_ENOMEM : rows.n ? HW_OK : HW_ENOTFOUND;
    hw_vec_done(&rows);
    hw_strbuf_done(&line);
    hw_strbuf_done(&name);
    return rc;
}

static int show_path(const struct graph_page *pg, const char *wanted)
{
    struct hw_heap_paths t = {0};
    hw_heap_tree tree = {0};
    int rc = hw_heap_paths_build(pg->p, pg->g, &t);
    if (rc == HW_OK)
        rc = hw_heap_tree_fold(pg->g, t.object, t.parent, t.n, HW_FOLD_FLAME, &tree);
    if (rc == HW_OK)
        rc = show_ways(pg, &tree, wanted);
    for (size_t at = 0; rc == HW_OK && at < t.n; at++)
        if (matches(pg, pg->g->type[t.object[at]], wanted)) {
            puts("\nthe one nearest to a root:");
            put_path(pg, &t, at);
            break;
        }
    hw_heap_paths_done(&t);
    hw_vec_done(&tree);
    return rc;
}

/* ---- against another, over time ---- */

static void put_changes(const struct graph_page *pg, const hw_class_changes *rows, bool over_time)
{
    printf("%*s%*s%*s%s  %s\n", WIDTH + 1, "bytes", WIDTH + 1, "objects", WIDTH, "now",
           over_time ? "   rises          p" : "", "class");
    size_t shown = 0;
    for (size_t i = 0; i < rows->n && shown < pg->top; i++) {
        const struct hw_class_change *r = &rows->v[i];
        double change = (double)r->after.size - (double)r->before.size;
        if (over_time && !(change > 0 && r->slope.slope > 0))
            continue;
        put_change(change, /* bytes = */ true);
        put_change((double)r->after.count - (double)r->before.count, /* bytes = */ false);
        put_bytes(r->after.size);
        if (over_time)
            printf("%8u %10.3g", r->n_rises, r->slope.p);
        put_name(r->name);
        shown++;
    }
    if (shown == 0)
        puts(over_time ? "no class grew" : "no class differs");
}

static const struct hw_heap_graph *pick(const struct hw_profile *p, const struct hw_opts *o);

static int show_diff(const struct graph_page *pg, const char *path, struct hw_error *err)
{
    struct hw_profile *other = NULL;
    hw_class_changes rows = {0};
    int rc = hw_import_file(hw_input_path(path), &other, err);
    const struct hw_heap_graph *g = rc == HW_OK ? pick(other, &pg->cli->opts) : NULL;
    if (rc == HW_OK && !g)
        rc = hw_fail(err, HW_ENOTFOUND, 0, "'%s' has no heap graph of the process", path);
    if (rc == HW_OK)
        rc = hw_heap_diff(pg->p, pg->g, other, g, &rows);
    if (rc == HW_OK)
        put_changes(pg, &rows, /* over_time = */ false);
    hw_vec_done(&rows);
    hw_profile_free(other);
    return rc;
}

static int show_leaks(const struct graph_page *pg, struct hw_error *err)
{
    hw_class_changes rows = {0};
    size_t n = 0;
    int rc = hw_heap_growth(pg->p, pg->g->upid, &rows, &n);
    if (rc == HW_OK && n < 3)
        rc = hw_fail(err, HW_ENOTFOUND, 0,
                     "%zu dump%s of the process; growth needs three: record with "
                     "continuous_dump_config",
                     n, n == 1 ? "" : "s");
    if (rc == HW_OK) {
        printf("%zu dumps\n", n);
        put_changes(pg, &rows, /* over_time = */ true);
    }
    hw_vec_done(&rows);
    return rc;
}

/* ---- which graph ---- */

/* The last one of the process asked for, or else of the process with most objects. */
static const struct hw_heap_graph *pick(const struct hw_profile *p, const struct hw_opts *o)
{
    const struct hw_heap_graph *best = NULL;
    bool has_pid = o->v[HW_OPT_SHOW_PID].set;
    for (size_t i = 0; i < p->graphs.n; i++) {
        const struct hw_heap_graph *g = p->graphs.v[i];
        if (has_pid && p->processes.v[g->upid.v].pid != (int64_t)hw_opt_num(o, HW_OPT_SHOW_PID))
            continue;
        if (!best || g->upid.v == best->upid.v || g->n_objects > best->n_objects)
            best = g;
    }
    return best;
}

static int show(const struct graph_page *pg, struct hw_error *err)
{
    const struct hw_opts *o = &pg->cli->opts;
    const char *class = hw_opt_text(o, HW_OPT_GRAPH_PATH),
               *other = hw_opt_text(o, HW_OPT_GRAPH_DIFF);
    int rc;
    put_head(pg);
    if (class)
        rc = show_path(pg, class);
    else if (other)
        rc = show_diff(pg, other, err);
    else if (hw_opt_flag(o, HW_OPT_GRAPH_LEAKS))
        rc = show_leaks(pg, err);
    else
        rc = show_classes(pg, hw_opt_flag(o, HW_OPT_GRAPH_DOMINATORS));
    if (rc == HW_ENOTFOUND && class)
        return hw_fail(err, rc, 0, "no reachable object of class '%s'", class);
    return rc < 0 && err->code == 0 ? hw_fail(err, rc, 0, "heap graph") : rc;
}

int hw_cmd_graph(struct hw_cli *cli)
{
    const struct hw_opts *o = &cli->opts;
    struct hw_error err = {0};
    int n_forms = o->v[HW_OPT_GRAPH_PATH].set + o->v[HW_OPT_GRAPH_DIFF].set +
                  hw_opt_flag(o, HW_OPT_GRAPH_LEAKS) + hw_opt_flag(o, HW_OPT_GRAPH_DOMINATORS) +
                  hw_opt_flag(o, HW_OPT_GRAPH_CLASSES);
    if (o->n_args != 1 || n_forms > 1) {
        hw_cli_error(cli, NULL,
                     o->n_args != 1 ? "which trace?"
                                    : "--classes, --dominators, --path, --diff, --leaks: "
                                      "one of them");
        hw_cli_hint("heapwise help graph");
        return hw_cli_usage_exit(cli);
    }
    struct graph_page pg = {.cli = cli, .top = (size_t)hw_opt_num(o, HW_OPT_TOP)};
    if (pg.top == 0)
        pg.top = SIZE_MAX;
    int rc = hw_import_file(hw_input_path(o->args[0]), &pg.p, &err);
    pg.g = rc == HW_OK ? pick(pg.p, o) : NULL;
    if (rc == HW_OK && !pg.g)
        rc = hw_fail(&err, HW_ENOTFOUND, 0, "no heap graph in '%s'%s", o->args[0],
                     o->v[HW_OPT_SHOW_PID].set ? " of that process" : "");
    if (rc == HW_OK)
        rc = show(&pg, &err);
    hw_profile_free(pg.p);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}
