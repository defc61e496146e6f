/*
 * The analyses of views/ as table functions:
 *
 *   heapwise_top(UPID [, TS])                    every function with its self and total values;
 *                                               callers: "load < run", nearest first, the path
 *                                               of most of its live bytes
 *   heapwise_callers(UPID, TS, PATTERN)          trees around the functions a pattern of
 *   heapwise_callees(UPID, TS, PATTERN)          views/filter.h matches
 *   heapwise_leaks(UPID)                         growth from dump to dump, with verdicts
 *   heapwise_diff(UPID_A, TS_A, UPID_B, TS_B [, METRIC])   functions that differ
 *   heapwise_sizes(UPID [, TS])                  sizes of allocations by heap, function and class
 *   heapwise_account(UPID [, TS])                resident memory by part (name NULL) and mapping
 *   heapwise_rounding(UPID [, TS])               the allocator's overhead per function
 *   heapwise_tree(UPID [, TS, SINCE, HEAP, FILTERS, OPTIONS])       the flamegraph of a selection
 *   heapwise_functions(UPID [, TS, SINCE, HEAP, FILTERS, OPTIONS])  its functions
 *   heapwise_modules()                           the modules of INCLUDE PERFETTO MODULE, with SQL
 *
 * UPID is that of the table process; TS a time, NULL or omitted = the last dump. SINCE: only
 * changes after that time; HEAP: only that heap; FILTERS: one per line, as in views/filter.h,
 * matched against shown names; OPTIONS: words: `max` (TS is the time of a recorded maximum),
 * `all-frames` (allocator frames too), `invert`, `callers` (the upper half of a pivot), `collapse`
 * (direct recursion is one node). Names are raw, as in the other tables; use demangle(). Rows are
 * computed once per call.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/strbuf.h"
#include "sql/engine.h"
#include "sql/views/profile_views_parts.h"

#include "base/banned.h"

enum { MAX_ARGS = 6 };

struct view {
    const char *name, *columns; /* "a INTEGER, b TEXT" */
    int n_columns;
    /* One letter each: u upid, t time, p text, S H F O as above; upper case: optional. */
    const char *args;
    int (*fill)(struct hw_view_result *a, const struct hw_view_query *q);
};

/* ---- cells ---- */

void hw_view_put(struct hw_view_result *a, struct hw_view_cell c)
{
    if (hw_vec_push(&a->cells, c) < 0)
        a->failed = true;
}

void hw_view_put_int(struct hw_view_result *a, int64_t v)
{
    hw_view_put(a, (struct hw_view_cell){.kind = CELL_INT, .i = v});
}

void hw_view_put_real(struct hw_view_result *a, double v)
{
    /* An infinite error is one that nobody knows. */
    hw_view_put(a, (struct hw_view_cell){.kind = isfinite(v) ? CELL_REAL : CELL_NULL, .d = v});
}

void hw_view_put_text(struct hw_view_result *a, struct hw_bytes v)
{
    struct hw_view_cell c = {.kind = CELL_TEXT};
    if (hw_strings_intern(a->strings, v, &c.text) < 0)
        a->failed = true;
    hw_view_put(a, c);
}

void hw_view_put_function(struct hw_view_result *a, uint32_t function)
{
    struct hw_strbuf text = {0};
    if (function == HW_ID_NONE) {
        for (int i = 0; i < 3; i++)
            hw_view_put_text(a, hw_bytes_str(""));
        return;
    }
    const struct hw_function *fn = hw_functions_get(a->fns, function);
    hw_function_label(&text, a->p->callsites, fn, NULL);
    hw_view_put_text(a, hw_bytes_of(text.p, text.n));
    hw_strbuf_clear(&text);
    hw_function_module(&text, a->p->callsites, fn);
    hw_view_put_text(a, hw_bytes_of(text.p, text.n));
    hw_view_put_text(a, hw_strings_get(hw_callsites_strings(a->p->callsites), fn->file));
    a->failed |= text.failed;
    hw_strbuf_done(&text);
}

/* ---- the functions ---- */

/* A recording with --dump-at-max has only dumps of peaks: then *ts_ns becomes the time of the last
 * one by then. */
bool hw_view_has_only_peaks(const struct hw_view_result *a, hw_upid upid, int64_t *ts_ns)
{
    bool any = false;
    int64_t last = 0;
    const struct hw_process_rows dumps = hw_by_process_of(&a->p->dumps_of, upid);
    for (size_t i = 0; i < dumps.n; i++) {
        const struct hw_heap_dump *d = &a->p->dumps.v[dumps.v[i]];
        if (!(d->flags & HW_DUMP_AT_MAX))
            return false;
        if (d->ts_ns <= *ts_ns && (!any || d->ts_ns > last)) {
            last = d->ts_ns;
            any = true;
        }
    }
    *ts_ns = any ? last : *ts_ns;
    return any;
}

/* ---- selections ---- */

#define ERROR_COLUMNS                                                                              \
    "space_error REAL, objects_error REAL, alloc_space_error REAL, alloc_objects_error REAL"
/* NULL where what was freed within a second is not known. */
#define TEMPORARY_COLUMNS                                                                          \
    "self_temporary_space INTEGER, temporary_space INTEGER, self_temporary_objects INTEGER, "      \
    "temporary_objects INTEGER, temporary_space_error REAL, temporary_objects_error REAL"
#define FIGURE_COLUMNS                                                                             \
    "self_space INTEGER, space INTEGER, self_objects INTEGER, objects INTEGER, "                   \
    "self_alloc_space INTEGER, alloc_space INTEGER, self_alloc_objects INTEGER, "                  \
    "alloc_objects INTEGER, samples INTEGER, alloc_samples INTEGER, " ERROR_COLUMNS                \
    ", " TEMPORARY_COLUMNS
#define TREE_COLUMNS                                                                               \
    "id INTEGER, parent_id INTEGER, depth INTEGER, name TEXT, map_name TEXT, source_file TEXT, "   \
    "self_space INTEGER, "                                                                         \
    "space INTEGER, objects INTEGER, alloc_space INTEGER, alloc_objects INTEGER"

static const struct view views[] = {
    {"heapwise_top",
     "name TEXT, map_name TEXT, source_file TEXT, self_space INTEGER, space INTEGER, self_objects "
     "INTEGER, "
     "objects INTEGER, self_alloc_space INTEGER, alloc_space INTEGER, "
     "self_alloc_objects INTEGER, alloc_objects INTEGER, samples INTEGER, " ERROR_COLUMNS
     ", callers TEXT, " TEMPORARY_COLUMNS,
     23, "uT", hw_view_fill_top},
    {"heapwise_callers", TREE_COLUMNS, 11, "utp", hw_view_fill_callers},
    {"heapwise_callees", TREE_COLUMNS, 11, "utp", hw_view_fill_callees},
    {"heapwise_leaks",
     "verdict TEXT, name TEXT, map_name TEXT, source_file TEXT, slope REAL, slope_low REAL, "
     "slope_high REAL, "
     "tau REAL, p REAL, grown INTEGER, freed_ratio REAL, space INTEGER, space_error REAL, "
     "samples INTEGER, is_rest INTEGER",
     15, "u", hw_view_fill_leaks},
    {"heapwise_diff",
     "name TEXT, map_name TEXT, source_file TEXT, a INTEGER, b INTEGER, change INTEGER, error "
     "REAL, "
     "significant INTEGER",
     8, "ututP", hw_view_fill_diff},
    {"heapwise_sizes",
     "heap_name TEXT, name TEXT, map_name TEXT, source_file TEXT, up_to INTEGER, alloc_objects "
     "INTEGER, "
     "alloc_space INTEGER, exact_objects INTEGER, objects INTEGER, space INTEGER, "
     "temporary_objects INTEGER, temporary_space INTEGER",
     12, "uT", hw_view_fill_sizes},
    {"heapwise_lifetimes",
     "name TEXT, map_name TEXT, source_file TEXT, alloc_space INTEGER, alloc_objects INTEGER, "
     "space INTEGER, "
     "stay REAL, temporary_least REAL, temporary_most REAL",
     9, "u", hw_view_fill_lifetimes},
    {"heapwise_accounting", "name TEXT, is_total INTEGER, bytes REAL, ts INTEGER", 4, "uT",
     hw_view_fill_accounting},
    {"heapwise_account",
     "part TEXT, name TEXT, rss INTEGER, pss INTEGER, swap INTEGER, size INTEGER, "
     "mappings INTEGER, ts INTEGER",
     8, "uT", hw_view_fill_account},
    {"heapwise_rounding",
     "name TEXT, map_name TEXT, source_file TEXT, rounding INTEGER, error REAL, space INTEGER, "
     "objects INTEGER",
     7, "uT", hw_view_fill_rounding},
    {"heapwise_tree",
     "id INTEGER, parent_id INTEGER, depth INTEGER, name TEXT, map_name TEXT, source_file "
     "TEXT, " FIGURE_COLUMNS,
     26, "uTSHFO", hw_view_fill_tree},
    {"heapwise_functions", "name TEXT, map_name TEXT, source_file TEXT, " FIGURE_COLUMNS, 23,
     "uTSHFO", hw_view_fill_functions},
    {"heapwise_modules", "name TEXT, sql TEXT", 2, "", hw_view_fill_modules},
};

/* ---- the virtual table ---- */

struct module {
    const struct view *view;
    struct hw_sql *sql; /* borrowed */
};

struct view_vtab {
    sqlite3_vtab base;
    const struct module *module;
};

struct view_cursor {
    sqlite3_vtab_cursor base;
    struct hw_view_result result;
    sqlite3_value *given[MAX_ARGS]; /* owned; NULL = left out */
    size_t at;
};

static int view_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **message)
{
    const struct module *m = aux;
    struct hw_strbuf text = {0};
    (void)argc;
    (void)argv;
    (void)message;
    hw_strbuf_addf(&text, "CREATE TABLE x(%s", m->view->columns);
    for (size_t i = 0; m->view->args[i]; i++)
        hw_strbuf_addf(&text, ", arg%zu HIDDEN", i + 1);
    hw_strbuf_addc(&text, ')');
    int rc = text.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, text.p);
    hw_strbuf_done(&text);
    struct view_vtab *v = rc == SQLITE_OK ? sqlite3_malloc(sizeof *v) : NULL;
    if (!v)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *v = (struct view_vtab){.module = m};
    (void)sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
    *out = &v->base;
    return SQLITE_OK;
}

static int view_disconnect(sqlite3_vtab *v)
{
    sqlite3_free(v);
    return SQLITE_OK;
}

/* idxNum has a bit for each argument given; they are passed in order. */
static int view_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct view *v = ((const struct view_vtab *)base)->module->view;
    int given[MAX_ARGS], n = 0;
    for (int i = 0; i < MAX_ARGS; i++)
        given[i] = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        int arg = c->iColumn - v->n_columns;
        if (arg < 0 || arg >= MAX_ARGS || c->op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!c->usable)
            return SQLITE_CONSTRAINT;
        if (given[arg] < 0)
            given[arg] = i;
    }
    info->idxNum = 0;
    for (int i = 0; i < MAX_ARGS; i++) {
        if (given[i] < 0)
            continue;
        info->idxNum |= 1 << i;
        info->aConstraintUsage[given[i]].argvIndex = ++n;
        info->aConstraintUsage[given[i]].omit = 1;
    }
    info->estimatedCost = 1e6; /* high: keeps it out of inner loops */
    info->estimatedRows = 10000;
    return SQLITE_OK;
}

static int view_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    (void)v;
    struct view_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct view_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static void clear(struct view_cursor *c)
{
    hw_vec_done(&c->result.cells);
    hw_strings_free(c->result.strings);
    c->result.strings = NULL;
    for (int i = 0; i < MAX_ARGS; i++) {
        sqlite3_value_free(c->given[i]);
        c->given[i] = NULL;
    }
    c->at = 0;
}

static int view_close(sqlite3_vtab_cursor *base)
{
    clear((struct view_cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

static int fail(struct view_cursor *c, const char *text)
{
    sqlite3_vtab *v = c->base.pVtab;
    sqlite3_free(v->zErrMsg);
    v->zErrMsg = sqlite3_mprintf("%s: %s", ((struct view_vtab *)v)->module->view->name, text);
    return SQLITE_ERROR;
}

/* NULL = valid; else the error text. *no_process: there is no such process. */
static const char *parse_args(struct view_cursor *c, struct hw_view_query *q, bool *no_process)
{
    const struct module *m = ((struct view_vtab *)c->base.pVtab)->module;
    int n_upids = 0, n_times = 0;
    *q = (struct hw_view_query){.ts = {INT64_MAX, INT64_MAX}};
    for (int i = 0; m->view->args[i]; i++) {
        sqlite3_value *v = c->given[i];
        bool set = v && sqlite3_value_type(v) != SQLITE_NULL;
        bool is_int = set && sqlite3_value_numeric_type(v) == SQLITE_INTEGER;
        switch (m->view->args[i]) {
        case 'u':
            if (!is_int)
                return "upid is missing";
            int64_t upid = sqlite3_value_int64(v);
            q->upid[n_upids] = hw_profile_upid_of_shown(m->sql->profile, upid);
            *no_process |= q->upid[n_upids++].v == HW_ID_NONE;
            break;
        case 't':
        case 'T':
            if (set && !is_int)
                return "ts is not an integer";
            if (set)
                q->ts[n_times] = sqlite3_value_int64(v);
            n_times++;
            break;
        case 'S':
            if (set && !is_int)
                return "since is not an integer";
            q->has_since = set;
            q->since = set ? sqlite3_value_int64(v) : 0;
            break;
        case 'H':
            q->heap = set ? (const char *)sqlite3_value_text(v) : NULL;
            break;
        case 'F':
            q->filters = set ? (const char *)sqlite3_value_text(v) : NULL;
            break;
        case 'O':
            q->options = set ? (const char *)sqlite3_value_text(v) : NULL;
            break;
        case 'p':
        case 'P':
            q->text = set ? (const char *)sqlite3_value_text(v) : NULL;
            if (!q->text && m->view->args[i] == 'p')
                return "the pattern is missing";
            break;
        }
    }
    return NULL;
}

static int make_result(struct view_cursor *c, const struct hw_view_query *q)
{
    const struct module *m = ((struct view_vtab *)c->base.pVtab)->module;
    struct hw_view_result *a = &c->result;
    *a = (struct hw_view_result){.sql = m->sql, .p = m->sql->profile};
    int rc = hw_strings_new(&a->strings);
    if (rc == 0)
        rc = hw_series_list_init(&a->list, a->p);
    if (rc == 0)
        rc = hw_functions_new(a->p->callsites, NULL, &a->fns);
    if (rc == 0)
        rc = m->view->fill(a, q);
    hw_functions_free(a->fns);
    a->fns = NULL;
    hw_series_list_done(&a->list);
    if (a->err.code)
        return fail(c, a->err.text);
    return rc < 0 || a->failed ? SQLITE_NOMEM : SQLITE_OK;
}

static int view_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                       sqlite3_value **argv)
{
    struct view_cursor *c = (struct view_cursor *)base;
    struct hw_view_query q;
    bool no_process = false;
    (void)text;
    (void)argc;
    clear(c);
    for (int i = 0, n = 0; i < MAX_ARGS; i++) {
        if (!(number & 1 << i))
            continue;
        c->given[i] = sqlite3_value_dup(argv[n++]);
        if (!c->given[i])
            return SQLITE_NOMEM;
    }
    const char *wrong = parse_args(c, &q, &no_process);
    if (wrong)
        return fail(c, wrong);
    return no_process ? SQLITE_OK : make_result(c, &q);
}

static int view_next(sqlite3_vtab_cursor *base)
{
    ((struct view_cursor *)base)->at++;
    return SQLITE_OK;
}

static size_t n_columns_of(const struct view_cursor *c)
{
    return (size_t)((struct view_vtab *)c->base.pVtab)->module->view->n_columns;
}

static int view_eof(sqlite3_vtab_cursor *base)
{
    const struct view_cursor *c = (const struct view_cursor *)base;
    return c->at * n_columns_of(c) >= c->result.cells.n;
}

static int view_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const struct view_cursor *c = (const struct view_cursor *)base;
    size_t n = n_columns_of(c);
    if ((size_t)column >= n) { /* inputs are echoed */
        if ((size_t)column - n < MAX_ARGS && c->given[(size_t)column - n])
            sqlite3_result_value(ctx, c->given[(size_t)column - n]);
        return SQLITE_OK;
    }
    const struct hw_view_cell *cell = &c->result.cells.v[c->at * n + (size_t)column];
    struct hw_bytes text;
    switch (cell->kind) {
    case CELL_NULL:
        break;
    case CELL_INT:
        sqlite3_result_int64(ctx, cell->i);
        break;
    case CELL_REAL:
        sqlite3_result_double(ctx, cell->d);
        break;
    case CELL_TEXT: /* copied: results may outlive the cursor's result */
        text = hw_strings_get(c->result.strings, cell->text);
        sqlite3_result_text64(ctx, text.n ? (const char *)text.p : "", text.n, SQLITE_TRANSIENT,
                              SQLITE_UTF8);
        break;
    }
    return SQLITE_OK;
}

static int view_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct view_cursor *)base)->at;
    return SQLITE_OK;
}

static const sqlite3_module view_methods = {
    .iVersion = 2,
    .xConnect = view_connect,
    .xDisconnect = view_disconnect,
    .xBestIndex = view_best_index,
    .xOpen = view_open,
    .xClose = view_close,
    .xFilter = view_filter,
    .xNext = view_next,
    .xEof = view_eof,
    .xColumn = view_column,
    .xRowid = view_rowid,
};

int hw_sql_add_profile_views(struct hw_sql *s)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(views); i++) {
        struct module *m = malloc(sizeof *m);
        if (!m)
            return HW_ENOMEM;
        *m = (struct module){&views[i], s};
        if (sqlite3_create_module_v2(s->db, views[i].name, &view_methods, m, free) != SQLITE_OK)
            return HW_ENOMEM; /* m was freed by it */
    }
    return HW_OK;
}
