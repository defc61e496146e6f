/*
 * experimental_flamegraph for native heaps, heap graphs and CPU samples, in its three calling
 * forms:
 *
 *   experimental_flamegraph(TS, UPID, 'native' [, FOCUS])
 *   experimental_flamegraph WHERE ts = TS AND upid = UPID AND profile_type = 'native'
 *                                 [AND focus_str = FOCUS]
 *   experimental_flamegraph('native', TS, TS_CONSTRAINT, UPID, UPID_GROUP, FOCUS)
 *
 * Arguments of a call are passed in the hidden columns in order; these have distinct names
 * (arg1 ...), so that `ts` and `upid` in a WHERE mean the visible columns. The type of the first
 * argument distinguishes the first form from the third. A tree is built once per call.
 *
 * heap_profile_tree, without arguments, is the same over all processes and dumps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "sql/engine.h"
#include "views/flame/cpu_counts.h"
#include "views/flame/native_tree.h"
#include "views/objects/heap_tree.h"

#include "base/banned.h"

#define COLUMNS(X)                                                                                 \
    X(ID, "id INTEGER")                                                                            \
    X(TS, "ts INTEGER")                                                                            \
    X(UPID, "upid INTEGER")                                                                        \
    X(DEPTH, "depth INTEGER")                                                                      \
    X(NAME, "name TEXT")                                                                           \
    X(MAP_NAME, "map_name TEXT")                                                                   \
    X(COUNT, "count INTEGER")                                                                      \
    X(CUMULATIVE_COUNT, "cumulative_count INTEGER")                                                \
    X(SIZE, "size INTEGER")                                                                        \
    X(CUMULATIVE_SIZE, "cumulative_size INTEGER")                                                  \
    X(ALLOC_COUNT, "alloc_count INTEGER")                                                          \
    X(CUMULATIVE_ALLOC_COUNT, "cumulative_alloc_count INTEGER")                                    \
    X(ALLOC_SIZE, "alloc_size INTEGER")                                                            \
    X(CUMULATIVE_ALLOC_SIZE, "cumulative_alloc_size INTEGER")                                      \
    X(PARENT_ID, "parent_id INTEGER")                                                              \
    X(SOURCE_FILE, "source_file TEXT")                                                             \
    X(LINE_NUMBER, "line_number INTEGER")                                                          \
    X(ARG1, "arg1 HIDDEN")                                                                         \
    X(ARG2, "arg2 HIDDEN")                                                                         \
    X(ARG3, "arg3 HIDDEN")                                                                         \
    X(ARG4, "arg4 HIDDEN")                                                                         \
    X(ARG5, "arg5 HIDDEN")                                                                         \
    X(ARG6, "arg6 HIDDEN")                                                                         \
    X(PROFILE_TYPE, "profile_type HIDDEN")                                                         \
    X(TS_CONSTRAINT, "ts_constraint HIDDEN")                                                       \
    X(UPID_GROUP, "upid_group HIDDEN")                                                             \
    X(FOCUS_STR, "focus_str HIDDEN")

enum {
#define X(id, text) C_##id,
    COLUMNS(X)
#undef X
        N_COLUMNS
};

static const char declaration[] = "CREATE TABLE x("
#define X(id, text) text ","
    COLUMNS(X)
#undef X
        "last_hidden HIDDEN)";

struct flame_module {
    struct hw_sql *sql;
    bool everything; /* heap_profile_tree */
};

struct flame_vtab {
    sqlite3_vtab base;
    const struct flame_module *module;
};

/* The arguments, whatever the calling form. */
struct flame_args {
    sqlite3_value *ts, *upid, *type, *focus, *ts_constraint, *upid_group;
};

struct flame_cursor {
    sqlite3_vtab_cursor base;
    hw_native_tree tree;
    const struct hw_heap_graph *graph; /* NULL: the native tree is used */
    hw_heap_tree heap;
    bool incomplete; /* parts of the graph, and so its roots, are missing: one row says so */
    sqlite3_value *given[N_COLUMNS]; /* owned copies of the constraints */
    bool has_inputs;
    bool is_focused; /* then nodes have no source location */
    int64_t ts, upid;
    size_t at;
};

static int flame_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **message)
{
    (void)argc;
    (void)argv;
    (void)message;
    int rc = sqlite3_declare_vtab(db, declaration);
    struct flame_vtab *v = rc == SQLITE_OK ? sqlite3_malloc(sizeof *v) : NULL;
    if (!v)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *v = (struct flame_vtab){.module = aux};
    (void)sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    *out = &v->base;
    return SQLITE_OK;
}

static int flame_disconnect(sqlite3_vtab *v)
{
    sqlite3_free(v);
    return SQLITE_OK;
}

static bool is_input(int column)
{
    return column == C_TS || column == C_UPID || (column >= C_ARG1 && column < N_COLUMNS);
}

/* idxNum has a bit for each constrained input column; arguments are in the order of the columns. */
static int flame_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    int given[N_COLUMNS], bits = 0, n = 0;
    for (int i = 0; i < N_COLUMNS; i++)
        given[i] = -1;
    if (((const struct flame_vtab *)base)->module->everything)
        return SQLITE_OK;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        if (c->op != SQLITE_INDEX_CONSTRAINT_EQ || !is_input(c->iColumn))
            continue;
        if (!c->usable)
            return SQLITE_CONSTRAINT;
        if (given[c->iColumn] < 0)
            given[c->iColumn] = i;
    }
    for (int i = 0; i < N_COLUMNS; i++) {
        if (given[i] < 0)
            continue;
        bits |= 1 << i;
        info->aConstraintUsage[given[i]].argvIndex = ++n;
        /* SQLite must not check `arg = NULL` (an omitted argument): it is never true. */
        info->aConstraintUsage[given[i]].omit = i >= C_ARG1;
    }
    info->idxNum = bits;
    info->estimatedCost = 1e6; /* high: keeps it out of inner loops */
    info->estimatedRows = 10000;
    return SQLITE_OK;
}

static int flame_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    (void)v;
    struct flame_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct flame_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static void clear(struct flame_cursor *c)
{
    hw_vec_done(&c->tree);
    hw_vec_done(&c->heap);
    c->graph = NULL;
    c->incomplete = false;
    for (int i = 0; i < N_COLUMNS; i++) {
        sqlite3_value_free(c->given[i]);
        c->given[i] = NULL;
    }
    c->at = 0;
    c->has_inputs = c->is_focused = false;
}

static int flame_close(sqlite3_vtab_cursor *base)
{
    clear((struct flame_cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

static int fail(struct flame_cursor *c, const char *text)
{
    sqlite3_vtab *v = c->base.pVtab;
    sqlite3_free(v->zErrMsg);
    v->zErrMsg = sqlite3_mprintf("experimental_flamegraph: %s", text);
    return SQLITE_ERROR;
}

static bool is_set(sqlite3_value *v)
{
    return v && sqlite3_value_type(v) != SQLITE_NULL;
}

static struct flame_args parse_args(struct flame_cursor *c)
{
    sqlite3_value **g = c->given;
    sqlite3_value *first = g[C_ARG1];
    struct flame_args q = {.ts = g[C_TS],
                           .upid = g[C_UPID],
                           .type = g[C_PROFILE_TYPE],
                           .focus = g[C_FOCUS_STR],
                           .ts_constraint = g[C_TS_CONSTRAINT],
                           .upid_group = g[C_UPID_GROUP]};
    if (first && sqlite3_value_type(first) == SQLITE_TEXT) {
        q = (struct flame_args){.type = first,
                                .ts = g[C_ARG2],
                                .ts_constraint = g[C_ARG3],
                                .upid = g[C_ARG4],
                                .upid_group = g[C_ARG5],
                                .focus = g[C_ARG6]};
    } else if (first) {
        q.ts = first;
        q.upid = g[C_ARG2];
        q.type = g[C_ARG3];
        q.focus = g[C_ARG4];
        if (g[C_ARG5] || g[C_ARG6])
            q.type = NULL; /* the form with six arguments begins with the type */
    }
    return q;
}

static bool has_roots(const struct hw_heap_graph *g)
{
    for (uint32_t o = 0; o < g->n_objects; o++)
        if (hw_object_is_root(g, o))
            return true;
    return false;
}

static int run_graph(struct flame_cursor *c, const char *focus)
{
    const struct hw_profile *p = ((struct flame_vtab *)c->base.pVtab)->module->sql->profile;
    hw_upid upid = hw_profile_upid_of_shown(p, c->upid);
    if (upid.v != HW_ID_NONE)
        c->graph = hw_heap_graph_at(p, upid, c->ts);
    if (!c->graph)
        return fail(c, "there is no heap graph of this process and time");
    if (!has_roots(c->graph)) {
        c->incomplete = c->graph->truncated;
        return c->incomplete ? SQLITE_OK : fail(c, "the heap graph has no roots");
    }
    return hw_heap_tree_flame(p, c->graph, focus, &c->heap) < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

/* Applies one condition such as `>= 5` of a list to q's time range. False: a syntax error. */
static bool narrow_times(struct hw_cpu_query *q, const char **at)
{
    const char *s = *at + strspn(*at, " ");
    bool less = *s == '<', more = *s == '>', equal = s[less || more] == '=';
    char *end;
    s += (less || more) + equal;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (!(less || more || equal) || end == s || errno)
        return false;
    int64_t to = less && !equal ? hw_sat_sub(v, 1) : v,
            from = more && !equal ? hw_sat_add(v, 1) : v;
    if (!more && to < q->to_ns)
        q->to_ns = to;
    if (!less && from > q->from_ns)
        q->from_ns = from;
    *at = end + strspn(end, " ");
    return true;
}

typedef HW_VEC(hw_upid) upid_list;

static int add_upid(const struct hw_profile *p, upid_list *list, int64_t sql_upid)
{
    /* upid 0 is the idle process: HW_ID_NONE in the model. */
    hw_upid upid = hw_profile_upid_of_shown(p, sql_upid);
    return hw_vec_push(list, upid) < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

static int read_upids(struct flame_cursor *c, const struct flame_args *q, upid_list *out)
{
    const struct hw_profile *p = ((struct flame_vtab *)c->base.pVtab)->module->sql->profile;
    int rc = is_set(q->upid) ? add_upid(p, out, sqlite3_value_int64(q->upid)) : SQLITE_OK;
    const char *at = is_set(q->upid_group) ? (const char *)sqlite3_value_text(q->upid_group) : "";
    while (rc == SQLITE_OK && at && at[strspn(at, " ,")]) {
        char *end;
        at += strspn(at, " ,");
        errno = 0;
        long long v = strtoll(at, &end, 10);
        if (end == at || errno)
            return fail(c, "upid_group is not a list of numbers");
        rc = add_upid(p, out, v);
        at = end;
    }
    return rc;
}

/* CPU samples: every argument is an optional filter. */
static int run_samples(struct flame_cursor *c, const struct flame_args *q, const char *focus)
{
    const struct hw_profile *p = ((struct flame_vtab *)c->base.pVtab)->module->sql->profile;
    struct hw_cpu_query cpu = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
    upid_list upids = {0};
    const char *at =
        is_set(q->ts_constraint) ? (const char *)sqlite3_value_text(q->ts_constraint) : NULL;
    if (is_set(q->ts))
        cpu.from_ns = cpu.to_ns = sqlite3_value_int64(q->ts);
    while (at && *at) {
        if (!narrow_times(&cpu, &at) || (*at && *at != ','))
            return fail(c, "ts_constraint is not a list of conditions such as '>=1,<=5'");
        at += *at == ',';
    }
    int rc = read_upids(c, q, &upids);
    cpu.upids = upids.v;
    cpu.n_upids = upids.n;
    if (rc == SQLITE_OK && hw_cpu_tree_build(p, &cpu, focus, &c->tree) < 0)
        rc = SQLITE_NOMEM;
    hw_vec_done(&upids);
    return rc;
}

static bool has_allocations(const struct hw_profile *p, hw_upid upid, int64_t ts_ns)
{
    const struct hw_process_rows dumps = hw_by_process_of(&p->dumps_of, upid);
    for (size_t i = 0; i < dumps.n && p->dumps.v[dumps.v[i]].ts_ns <= ts_ns; i++) {
        size_t first, n;
        hw_profile_dump_rows(p, dumps.v[i], &first, &n);
        if (n > 0)
            return true;
    }
    return false;
}

static int run(struct flame_cursor *c)
{
    struct flame_vtab *v = (struct flame_vtab *)c->base.pVtab;
    struct flame_args q = parse_args(c);
    const char *type = is_set(q.type) ? (const char *)sqlite3_value_text(q.type) : NULL;
    const char *focus = is_set(q.focus) ? (const char *)sqlite3_value_text(q.focus) : NULL;
    if (focus && !focus[0])
        focus = NULL;
    c->is_focused = focus != NULL;
    if (!type)
        return fail(c, "profile_type is missing");
    bool is_graph = strcmp(type, "graph") == 0;
    if (strcmp(type, "perf") == 0)
        return run_samples(c, &q, focus);
    if (!is_graph && strcmp(type, "native") != 0)
        return fail(c, "unknown profile_type");
    if (!is_set(q.ts) || sqlite3_value_numeric_type(q.ts) != SQLITE_INTEGER)
        return fail(c, "ts is missing");
    if (!is_set(q.upid) || sqlite3_value_numeric_type(q.upid) != SQLITE_INTEGER)
        return fail(c, "upid is missing");
    if (is_set(q.ts_constraint) || is_set(q.upid_group))
        return fail(c, "ts_constraint and upid_group are for CPU samples");
    c->ts = sqlite3_value_int64(q.ts);
    c->upid = sqlite3_value_int64(q.upid);
    c->has_inputs = true;
    const struct hw_sql *sql = v->module->sql;
    hw_upid upid = hw_profile_upid_of_shown(sql->profile, c->upid);
    if (is_graph)
        return run_graph(c, focus);
    if (upid.v == HW_ID_NONE || !has_allocations(sql->profile, upid, c->ts))
        return fail(c, "there are no allocations of this process up to this time");
    int rc = hw_native_tree_build(sql->profile, upid, c->ts, focus, &c->tree);
    return rc < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

static int flame_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                        sqlite3_value **argv)
{
    struct flame_cursor *c = (struct flame_cursor *)base;
    struct flame_vtab *v = (struct flame_vtab *)base->pVtab;
    (void)text;
    (void)argc;
    clear(c);
    if (v->module->everything)
        return hw_native_tree_build(v->module->sql->profile, (hw_upid){HW_ID_NONE}, INT64_MAX, NULL,
                                    &c->tree) < 0
                   ? SQLITE_NOMEM
                   : SQLITE_OK;
    for (int i = 0, n = 0; i < N_COLUMNS; i++) {
        if (!(number & 1 << i))
            continue;
        c->given[i] = sqlite3_value_dup(argv[n++]);
        if (!c->given[i])
            return SQLITE_NOMEM;
    }
    return run(c);
}

static int flame_next(sqlite3_vtab_cursor *base)
{
    ((struct flame_cursor *)base)->at++;
    return SQLITE_OK;
}

static int flame_eof(sqlite3_vtab_cursor *base)
{
    const struct flame_cursor *c = (const struct flame_cursor *)base;
    if (c->graph)
        return c->at >= (c->incomplete ? 1 : c->heap.n);
    return c->at >= c->tree.n;
}

static void set_text(const struct flame_cursor *c, sqlite3_context *ctx, hw_str_id id)
{
    const struct hw_sql *sql = ((struct flame_vtab *)c->base.pVtab)->module->sql;
    struct hw_bytes b = hw_strings_get(hw_callsites_strings(sql->profile->callsites), id);
    sqlite3_result_text64(ctx, b.n ? (const char *)b.p : "", b.n, SQLITE_STATIC, SQLITE_UTF8);
}

/* The input columns, common to all forms and types. */
static void set_input(const struct flame_cursor *c, sqlite3_context *ctx, int column)
{
    if (column == C_TS && c->has_inputs)
        sqlite3_result_int64(ctx, c->ts);
    else if (column == C_UPID && c->has_inputs)
        sqlite3_result_int64(ctx, c->upid);
    else if (column < N_COLUMNS && c->given[column]) /* inputs are echoed */
        sqlite3_result_value(ctx, c->given[column]);
}

static void set_node_name(const struct flame_cursor *c, sqlite3_context *ctx,
                          const struct hw_heap_node *n)
{
    const struct hw_sql *sql = ((struct flame_vtab *)c->base.pVtab)->module->sql;
    struct hw_strbuf name = {0};
    hw_heap_node_name(sql->profile, c->graph, n, HW_FOLD_FLAME, &name);
    if (name.failed)
        sqlite3_result_error_nomem(ctx);
    else
        sqlite3_result_text64(ctx, name.p ? name.p : "", name.n, SQLITE_TRANSIENT, SQLITE_UTF8);
    hw_strbuf_done(&name);
}

/* A row of either tree. */
struct row {
    uint32_t parent, depth;
    struct hw_native_value self, cumulative;
};

static struct row row_at(const struct flame_cursor *c)
{
    if (!c->graph) {
        const struct hw_native_node *n = &c->tree.v[c->at];
        return (struct row){n->parent, n->depth, n->self, n->cumulative};
    }
    if (c->incomplete)
        return (struct row){HW_ID_NONE, 0, {1, 1, 0, 0}, {1, 1, 0, 0}};
    const struct hw_heap_node *n = &c->heap.v[c->at]; /* heap graphs have no freed objects */
    return (struct row){n->parent,
                        n->depth,
                        {n->count, n->size, 0, 0},
                        {n->cumulative_count, n->cumulative_size, 0, 0}};
}

static void set_name(const struct flame_cursor *c, sqlite3_context *ctx)
{
    static const char incomplete[] = "ERROR: INCOMPLETE GRAPH (try increasing buffer size)";
    if (!c->graph)
        set_text(c, ctx, c->tree.v[c->at].name);
    else if (c->incomplete)
        sqlite3_result_text(ctx, incomplete, -1, SQLITE_STATIC);
    else
        set_node_name(c, ctx, &c->heap.v[c->at]);
}

/* Columns that only callstacks have. */
static void set_source(const struct flame_cursor *c, sqlite3_context *ctx, int column)
{
    const struct hw_native_node *n = c->graph ? NULL : &c->tree.v[c->at];
    if (column == C_MAP_NAME && !n)
        sqlite3_result_text(ctx, "JAVA", -1, SQLITE_STATIC);
    else if (column == C_MAP_NAME)
        set_text(c, ctx, n->module);
    else if (column == C_SOURCE_FILE && n && n->file.v && !c->is_focused)
        set_text(c, ctx, n->file);
    else if (column == C_LINE_NUMBER && n && n->line && !c->is_focused)
        sqlite3_result_int64(ctx, n->line);
}

static int flame_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const struct flame_cursor *c = (const struct flame_cursor *)base;
    const struct row r = row_at(c);
    const int64_t numbers[] = {[C_ID] = (int64_t)c->at,
                               [C_DEPTH] = r.depth,
                               [C_COUNT] = r.self.count,
                               [C_CUMULATIVE_COUNT] = r.cumulative.count,
                               [C_SIZE] = r.self.size,
                               [C_CUMULATIVE_SIZE] = r.cumulative.size,
                               [C_ALLOC_COUNT] = r.self.alloc_count,
                               [C_CUMULATIVE_ALLOC_COUNT] = r.cumulative.alloc_count,
                               [C_ALLOC_SIZE] = r.self.alloc_size,
                               [C_CUMULATIVE_ALLOC_SIZE] = r.cumulative.alloc_size};
    switch (column) {
    case C_NAME:
        set_name(c, ctx);
        break;
    case C_MAP_NAME:
    case C_SOURCE_FILE:
    case C_LINE_NUMBER:
        set_source(c, ctx, column);
        break;
    case C_PARENT_ID:
        if (r.parent != HW_ID_NONE)
            sqlite3_result_int64(ctx, r.parent);
        break;
    default:
        if (column == C_TS || column == C_UPID || column >= C_ARG1)
            set_input(c, ctx, column);
        else
            sqlite3_result_int64(ctx, numbers[column]);
        break;
    }
    return SQLITE_OK;
}

static int flame_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct flame_cursor *)base)->at;
    return SQLITE_OK;
}

static const sqlite3_module flame_methods = {
    .iVersion = 2,
    .xConnect = flame_connect,
    .xDisconnect = flame_disconnect,
    .xBestIndex = flame_best_index,
    .xOpen = flame_open,
    .xClose = flame_close,
    .xFilter = flame_filter,
    .xNext = flame_next,
    .xEof = flame_eof,
    .xColumn = flame_column,
    .xRowid = flame_rowid,
};

int hw_sql_add_flamegraph(struct hw_sql *s)
{
    static const struct {
        const char *name;
        bool everything;
    } modules[] = {{"experimental_flamegraph", false}, {"heap_profile_tree", true}};
    for (size_t i = 0; i < HW_ARRAY_LEN(modules); i++) {
        struct flame_module *m = malloc(sizeof *m);
        if (!m)
            return HW_ENOMEM;
        *m = (struct flame_module){s, modules[i].everything};
        if (sqlite3_create_module_v2(s->db, modules[i].name, &flame_methods, m, free) != SQLITE_OK)
            return HW_ENOMEM; /* m was freed by it */
    }
    return HW_OK;
}
