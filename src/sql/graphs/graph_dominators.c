/*
 * Dominators of any graph: an aggregate collects the edges and passes them to a table function, as
 * a pointer that is opaque to SQL.
 */
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "sql/engine.h"
#include "sql/graph_modules.h"
#include "views/objects/dominators.h"

#include "base/banned.h"

static const char edges_type[] = "hw_edges";

struct edge_list {
    HW_VEC(int64_t) from;
    HW_VEC(int64_t) to;
};

static void edges_free(void *p)
{
    struct edge_list *e = p;
    if (!e)
        return;
    hw_vec_done(&e->from);
    hw_vec_done(&e->to);
    free(e);
}

static void gather_step(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    struct edge_list **at = sqlite3_aggregate_context(ctx, sizeof *at);
    (void)argc;
    if (at && !*at)
        *at = calloc(1, sizeof **at);
    if (!at || !*at) {
        sqlite3_result_error_nomem(ctx);
        return;
    }
    if (sqlite3_value_type(argv[0]) != SQLITE_INTEGER ||
        sqlite3_value_type(argv[1]) != SQLITE_INTEGER)
        return; /* not an edge: an end is missing */
    if (hw_vec_push(&(*at)->from, sqlite3_value_int64(argv[0])) < 0 ||
        hw_vec_push(&(*at)->to, sqlite3_value_int64(argv[1])) < 0)
        sqlite3_result_error_nomem(ctx);
}

static void gather_final(sqlite3_context *ctx)
{
    struct edge_list **at = sqlite3_aggregate_context(ctx, 0);
    if (at && *at)
        sqlite3_result_pointer(ctx, *at, edges_type, edges_free);
}

/* ---- the table function ---- */

struct dom_row {
    int64_t node, dominator;
    bool has_dominator;
};

struct dom_cursor {
    sqlite3_vtab_cursor base;
    HW_VEC(struct dom_row) rows;
    size_t at;
};

static int dom_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                       sqlite3_vtab **out, char **message)
{
    (void)aux;
    (void)argc;
    (void)argv;
    (void)message;
    int rc = sqlite3_declare_vtab(db, "CREATE TABLE x(node_id INTEGER, dominator_node_id INTEGER,"
                                      " edges HIDDEN, root HIDDEN)");
    *out = rc == SQLITE_OK ? sqlite3_malloc(sizeof **out) : NULL;
    if (!*out)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    **out = (sqlite3_vtab){0};
    return SQLITE_OK;
}

static int dom_disconnect(sqlite3_vtab *v)
{
    sqlite3_free(v);
    return SQLITE_OK;
}

static int dom_best_index(sqlite3_vtab *v, sqlite3_index_info *info)
{
    int n = 0;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        if (c->iColumn < 2 || c->op != SQLITE_INDEX_CONSTRAINT_EQ)
            continue;
        if (!c->usable)
            return SQLITE_CONSTRAINT;
        info->aConstraintUsage[i].argvIndex = c->iColumn - 1;
        info->aConstraintUsage[i].omit = 1;
        n++;
    }
    if (n != 2) {
        v->zErrMsg = sqlite3_mprintf("edges and a root are needed");
        return SQLITE_ERROR;
    }
    info->estimatedCost = 1e6;
    info->estimatedRows = 10000;
    return SQLITE_OK;
}

static int dom_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    (void)v;
    struct dom_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct dom_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static int dom_close(sqlite3_vtab_cursor *base)
{
    struct dom_cursor *c = (struct dom_cursor *)base;
    hw_vec_done(&c->rows);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int compare_ids(const void *pa, const void *pb)
{
    const int64_t *a = pa, *b = pb;
    return (*a > *b) - (*a < *b);
}

static uint32_t number_of(const int64_t *ids, size_t n, int64_t id)
{
    const int64_t *at = bsearch(&id, ids, n, sizeof *ids, compare_ids);
    return (uint32_t)(at - ids); /* always found */
}

/* The distinct ids, sorted. */
static size_t gather_ids(const struct edge_list *e, int64_t root, int64_t *ids)
{
    size_t n = 0, unique = 0;
    ids[n++] = root;
    for (size_t i = 0; i < e->to.n; i++) {
        ids[n++] = e->from.v[i];
        ids[n++] = e->to.v[i];
    }
    qsort(ids, n, sizeof *ids, compare_ids);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ids[i] != ids[unique - 1])
            ids[unique++] = ids[i];
    return unique;
}

static int solve(struct dom_cursor *c, const struct edge_list *e, int64_t root)
{
    size_t n_edges = e->to.n;
    if (n_edges > UINT32_MAX / 4)
        return HW_ELIMIT;
    hw_autofree int64_t *ids = malloc((2 * n_edges + 1) * sizeof *ids);
    hw_autofree uint32_t *from = malloc((n_edges + 1) * sizeof *from);
    hw_autofree uint32_t *to = malloc((n_edges + 1) * sizeof *to);
    if (!ids || !from || !to)
        return HW_ENOMEM;
    size_t n = gather_ids(e, root, ids);
    hw_autofree uint32_t *idom = malloc(n * sizeof *idom);
    if (!idom)
        return HW_ENOMEM;
    for (size_t i = 0; i < n_edges; i++) {
        from[i] = number_of(ids, n, e->from.v[i]);
        to[i] = number_of(ids, n, e->to.v[i]);
    }
    uint32_t start = number_of(ids, n, root);
    int rc = hw_dominators_of_edges(from, to, n_edges, (uint32_t)n, start, idom);
    for (uint32_t v = 0; rc == HW_OK && v < n; v++) {
        struct dom_row row = {.node = ids[v]};
        row.has_dominator = idom[v] != HW_ID_NONE;
        if (row.has_dominator)
            row.dominator = ids[idom[v]];
        if ((row.has_dominator || v == start) && hw_vec_push(&c->rows, row) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int dom_filter(sqlite3_vtab_cursor *base, int number, const char *text, int argc,
                      sqlite3_value **argv)
{
    struct dom_cursor *c = (struct dom_cursor *)base;
    (void)number;
    (void)text;
    hw_vec_clear(&c->rows);
    c->at = 0;
    const struct edge_list *e = argc == 2 ? sqlite3_value_pointer(argv[0], edges_type) : NULL;
    if (!e || sqlite3_value_type(argv[1]) != SQLITE_INTEGER)
        return SQLITE_OK; /* no edges, no root: nothing is reached */
    return solve(c, e, sqlite3_value_int64(argv[1])) < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

static int dom_next(sqlite3_vtab_cursor *base)
{
    ((struct dom_cursor *)base)->at++;
    return SQLITE_OK;
}

static int dom_eof(sqlite3_vtab_cursor *base)
{
    const struct dom_cursor *c = (const struct dom_cursor *)base;
    return c->at >= c->rows.n;
}

static int dom_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const struct dom_cursor *c = (const struct dom_cursor *)base;
    const struct dom_row *row = &c->rows.v[c->at];
    if (column == 0)
        sqlite3_result_int64(ctx, row->node);
    else if (column == 1 && row->has_dominator)
        sqlite3_result_int64(ctx, row->dominator);
    return SQLITE_OK;
}

static int dom_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct dom_cursor *)base)->at;
    return SQLITE_OK;
}

static const sqlite3_module dom_methods = {
    .iVersion = 2,
    .xConnect = dom_connect,
    .xDisconnect = dom_disconnect,
    .xBestIndex = dom_best_index,
    .xOpen = dom_open,
    .xClose = dom_close,
    .xFilter = dom_filter,
    .xNext = dom_next,
    .xEof = dom_eof,
    .xColumn = dom_column,
    .xRowid = dom_rowid,
};

int hw_sql_add_dominators(struct hw_sql *s)
{
    if (sqlite3_create_module_v2(s->db, "_hw_dominator_tree", &dom_methods, s, NULL) != SQLITE_OK ||
        sqlite3_create_function_v2(s->db, "_hw_gather_edges", 2, SQLITE_UTF8, NULL, NULL,
                                   gather_step, gather_final, NULL) != SQLITE_OK)
        return HW_ENOMEM;
    return HW_OK;
}
