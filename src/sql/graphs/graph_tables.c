/*
 * The functions of graph_functions.h as table functions. Their arguments are hidden columns after
 * the visible ones: lists made by _hw_gather, then a number or a text.
 */
#include <stdlib.h>

#include "base/error.h"
#include "sql/engine.h"
#include "sql/graph_views.h"
#include "sql/graphs/graph_functions.h"
#include "sql/graphs/graph_scan.h"

#include "base/banned.h"

static int run_values(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return hw_graph_rows_of(q, 2, out);
}

static int run_scan_rows(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return hw_graph_scan_rows(q->lists[0], out);
}

#define SCAN_COLUMNS "c0 INTEGER, c1, c2, c3, c4, c5, c6, c7"

/* Columns have types: SQLite builds no index for a join of an integer with an untyped column. */
static const struct graph_function {
    const char *name, *columns;
    int n_columns, n_lists;
    enum { NO_THIRD, NUMBER, TEXT } third;
    int (*run)(const struct hw_graph_query *q, hw_graph_rows *out);
} functions[] = {
    {"_hw_value_sums", "callsite_id INTEGER, value", 2, 1, NO_THIRD, run_values},
    {"_hw_callsites_above", "id INTEGER", 1, 1, NO_THIRD, hw_graph_callsites_above},
    {"_hw_heap_graph_below", "id INTEGER", 1, 1, NO_THIRD, hw_graph_objects_below},
    {"_hw_heap_graph_above", "id INTEGER", 1, 1, NO_THIRD, hw_graph_objects_above},
    {"_hw_tree_path_hashes", "id INTEGER, path_hash INTEGER, parent_path_hash INTEGER", 3, 1,
     NO_THIRD, hw_graph_path_hashes},
    {"_hw_tree_sums", "id INTEGER, value", 2, 1, NO_THIRD, hw_graph_tree_sums},
    {"_hw_tree_ancestors", "id INTEGER", 1, 2, NO_THIRD, hw_graph_ancestors},
    {"_hw_tree_partition", "id INTEGER, parent_id INTEGER, group_key", 3, 1, NO_THIRD,
     hw_graph_partition},
    {"_hw_reach_dfs", "node_id INTEGER, parent_node_id INTEGER", 2, 2, NO_THIRD,
     hw_graph_reach_depth_first},
    {"_hw_reach_bfs", "node_id INTEGER, parent_node_id INTEGER", 2, 2, NO_THIRD,
     hw_graph_reach_breadth_first},
    {"_hw_reach_within", "root_node_id INTEGER, node_id INTEGER, parent_node_id INTEGER", 3, 2,
     NUMBER, hw_graph_reach_within},
    {"_hw_scan_rows", SCAN_COLUMNS, HW_SCAN_WIDTH, 1, NO_THIRD, run_scan_rows},
    {"_hw_graph_scan", SCAN_COLUMNS, HW_SCAN_WIDTH, 2, TEXT, hw_graph_scan},
    {"_hw_graph_aggregating_scan", SCAN_COLUMNS, HW_SCAN_WIDTH, 2, TEXT, hw_graph_scan_aggregating},
};

struct graph_vtab {
    sqlite3_vtab base;
    struct hw_sql *sql;
    const struct graph_function *graph_function;
};

struct graph_cursor {
    sqlite3_vtab_cursor base;
    hw_graph_rows rows;
    struct hw_strings *strings; /* owned: the texts of the rows; NULL */
    size_t at;
};

static int graph_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **message)
{
    (void)argc;
    (void)message;
    size_t i = 0;
    while (i + 1 < HW_ARRAY_LEN(functions) && sqlite3_stricmp(functions[i].name, argv[0]) != 0)
        i++;
    const struct graph_function *q = &functions[i];
    struct hw_strbuf text = {0};
    hw_strbuf_addf(&text, "CREATE TABLE x(%s", q->columns);
    for (int k = 0; k < q->n_lists; k++)
        hw_strbuf_addf(&text, ", list%d HIDDEN", k);
    hw_strbuf_adds(&text, q->third ? ", third HIDDEN)" : ")");
    int rc = text.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, text.p);
    hw_strbuf_done(&text);
    struct graph_vtab *v = rc == SQLITE_OK ? sqlite3_malloc(sizeof *v) : NULL;
    if (!v)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *v = (struct graph_vtab){.sql = aux, .graph_function = q};
    *out = &v->base;
    return SQLITE_OK;
}

static int graph_disconnect(sqlite3_vtab *v)
{
    sqlite3_free(v);
    return SQLITE_OK;
}

static int graph_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct graph_function *q = ((struct graph_vtab *)base)->graph_function;
    int wanted = q->n_lists + (q->third != NO_THIRD), n = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        if (c->iColumn < q->n_columns || c->op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!c->usable)
            return SQLITE_CONSTRAINT;
        info->aConstraintUsage[i].argvIndex = c->iColumn - q->n_columns + 1;
        info->aConstraintUsage[i].omit = 1;
        n++;
    }
    if (n != wanted) {
        base->zErrMsg = sqlite3_mprintf("%s takes %d arguments", q->name, wanted);
        return SQLITE_ERROR;
    }
    info->estimatedCost = 1e6;
    info->estimatedRows = 10000;
    return SQLITE_OK;
}

static int graph_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    (void)v;
    struct graph_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct graph_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static void clear(struct graph_cursor *c)
{
    hw_vec_done(&c->rows);
    hw_strings_free(c->strings);
    c->strings = NULL;
    c->at = 0;
}

static int graph_close(sqlite3_vtab_cursor *base)
{
    clear((struct graph_cursor *)base);
    sqlite3_free(base);
    return SQLITE_OK;
}

static bool must_stop(void *ctx)
{
    return hw_sql_must_stop(ctx);
}

/* Copies the texts: the list may be freed before the cursor. */
static int keep_texts(struct graph_cursor *c, const struct hw_row_list *l)
{
    int rc = l && l->strings ? hw_strings_new(&c->strings) : HW_OK;
    for (size_t i = 0; rc == HW_OK && c->strings && i < c->rows.n; i++) {
        hw_str_id id = {(uint32_t)c->rows.v[i].i};
        if (c->rows.v[i].type != HW_SQL_TEXT)
            continue;
        rc = hw_strings_intern(c->strings, hw_strings_get(l->strings, id), &id);
        c->rows.v[i].i = id.v;
    }
    return rc;
}

static int graph_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                        sqlite3_value **argv)
{
    struct graph_cursor *c = (struct graph_cursor *)base;
    const struct graph_vtab *v = (const struct graph_vtab *)base->pVtab;
    struct hw_graph_notes notes = {0};
    struct hw_graph_query q = {.profile = v->sql->profile,
                               .graphs = v->sql->derived.graphs,
                               .stop = must_stop,
                               .ctx = v->sql,
                               .sql = v->sql,
                               .memory_left = hw_sql_memory_left,
                               .notes = &notes};
    (void)number;
    (void)text;
    clear(c);
    for (int i = 0; i < argc && i < v->graph_function->n_lists; i++)
        q.lists[i] = hw_row_list_of(argv[i]);
    if (v->graph_function->third == NUMBER)
        q.number = sqlite3_value_int64(argv[v->graph_function->n_lists]);
    else if (v->graph_function->third == TEXT)
        q.text = (const char *)sqlite3_value_text(argv[v->graph_function->n_lists]);
    int rc = v->graph_function->run(&q, &c->rows);
    c->strings = notes.texts;
    if (rc == HW_OK && !notes.texts)
        rc = keep_texts(c, q.lists[0]);
    switch (rc) {
    case HW_OK:
        return SQLITE_OK;
    case HW_ETIMEOUT:
        return SQLITE_INTERRUPT;
    case HW_ENOMEM:
        return SQLITE_NOMEM;
    default:
        sqlite3_free(base->pVtab->zErrMsg);
        base->pVtab->zErrMsg = *notes.message
                                   ? sqlite3_mprintf("%s", notes.message)
                                   : sqlite3_mprintf("%s: too many rows", v->graph_function->name);
        return SQLITE_ERROR;
    }
}

static int graph_next(sqlite3_vtab_cursor *base)
{
    ((struct graph_cursor *)base)->at++;
    return SQLITE_OK;
}

static size_t width_of(const struct graph_cursor *c)
{
    return (size_t)((const struct graph_vtab *)c->base.pVtab)->graph_function->n_columns;
}

static int graph_eof(sqlite3_vtab_cursor *base)
{
    const struct graph_cursor *c = (const struct graph_cursor *)base;
    return c->at >= c->rows.n / width_of(c);
}

static int graph_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const struct graph_cursor *c = (const struct graph_cursor *)base;
    if (column < 0 || (size_t)column >= width_of(c))
        return SQLITE_OK; /* an argument */
    const struct hw_row_cell *cell = &c->rows.v[c->at * width_of(c) + (size_t)column];
    struct hw_bytes text;
    switch (cell->type) {
    case HW_SQL_INT:
        sqlite3_result_int64(ctx, cell->i);
        break;
    case HW_SQL_REAL:
        sqlite3_result_double(ctx, cell->d);
        break;
    case HW_SQL_TEXT:
        text = hw_strings_get(c->strings, (hw_str_id){(uint32_t)cell->i});
        sqlite3_result_text64(ctx, (const char *)text.p, text.n, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case HW_SQL_NULL:
    case HW_SQL_BLOB:
        break;
    }
    return SQLITE_OK;
}

static int graph_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct graph_cursor *)base)->at;
    return SQLITE_OK;
}

static const sqlite3_module graph_methods = {
    .iVersion = 2,
    .xConnect = graph_connect,
    .xDisconnect = graph_disconnect,
    .xBestIndex = graph_best_index,
    .xOpen = graph_open,
    .xClose = graph_close,
    .xFilter = graph_filter,
    .xNext = graph_next,
    .xEof = graph_eof,
    .xColumn = graph_column,
    .xRowid = graph_rowid,
};

static void native_path_hash(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    if (argc == 1)
        sqlite3_result_int64(ctx, hw_native_hash(sqlite3_value_int64(argv[0])));
}

int hw_sql_add_graph_functions(struct hw_sql *s)
{
    int rc = hw_sql_add_gather(s->db);
    if (rc == HW_OK && sqlite3_create_function_v2(s->db, "_hw_native_path_hash", 1,
                                                  SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
                                                  native_path_hash, NULL, NULL, NULL) != SQLITE_OK)
        rc = HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(functions); i++)
        if (sqlite3_create_module_v2(s->db, functions[i].name, &graph_methods, s, NULL) !=
            SQLITE_OK)
            rc = HW_ENOMEM;
    return rc;
}
