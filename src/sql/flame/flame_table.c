/*
 * CREATE VIRTUAL TABLE t USING __intrinsic_flamegraph((SELECT ...)) runs the select at once.
 * SELECT ... FROM t(__intrinsic_flamegraph_config(...)) returns the flamegraph:
 *
 *   in_config (hidden) | _tree_id | _tree_parent_id | depth | name | self_value | cumulative_value
 *   | parent_cumulative_value | x_start | x_end | properties... | self_P, cumulative_P ...
 *
 * with a pair self_P, cumulative_P for each property without texts. With the constraint
 * __intrinsic_flamegraph_find(_tree_id, 'SUPER_ROOT') the result is one row about the source.
 *
 * SQLite reconnects a table when it reloads its schema (after a rollback): so sources belong to the
 * connection, by table name, until the table is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "model/ids.h"
#include "sql/engine.h"
#include "sql/flame/flame_query.h"

#include "base/banned.h"

enum {
    COL_CONFIG,
    COL_ID,
    COL_PARENT,
    COL_DEPTH,
    COL_NAME,
    COL_SELF,
    COL_CUMULATIVE,
    COL_PARENT_CUMULATIVE,
    COL_X_START,
    COL_X_END,
    COL_PROPERTIES
};
enum { PLAN_ROWS, PLAN_SUPER_ROOT };
enum { OP_FIND = SQLITE_INDEX_CONSTRAINT_FUNCTION };

static const char find_name[] = "__intrinsic_flamegraph_find";

/* A table's source. */
struct flame {
    char *table;                    /* owned: "database.name" */
    struct hw_flame_source *source; /* owned */
    uint64_t bytes;
    struct flame *next;
};

struct flames {
    struct hw_sql *sql;
    struct flame *first; /* owned */
};

struct flame_vtab {
    sqlite3_vtab base;
    struct flames *all;
    struct flame *flame;                 /* owned by the connection */
    int number_of[HW_FLAME_MAX_COLUMNS]; /* by pair self_P, cumulative_P: the property's column */
    int n_pairs;
};

struct flame_cursor {
    sqlite3_vtab_cursor base;
    struct hw_flame_query query;
    bool is_super_root;
    size_t at, n;
};

/* ---- sources ---- */

static void flame_free(struct flames *all, struct flame *f)
{
    for (struct flame **at = &all->first; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            break;
        }
    all->sql->kept_bytes -= f->bytes;
    hw_flame_source_free(f->source);
    free(f->table);
    free(f);
}

static void flames_free(void *p)
{
    struct flames *all = p;
    while (all && all->first)
        flame_free(all, all->first);
    free(all);
}

static struct flame *flame_find(const struct flames *all, const char *table)
{
    struct flame *f = all->first;
    while (f && sqlite3_stricmp(f->table, table) != 0)
        f = f->next;
    return f;
}

static int flame_new(struct flames *all, const char *table, const char *select, struct flame **out,
                     struct hw_error *err)
{
    struct flame *f = calloc(1, sizeof *f);
    if (!f)
        return HW_ENOMEM;
    f->table = strdup(table);
    int rc = f->table ? hw_flame_source_read(all->sql, select, &f->source, err) : HW_ENOMEM;
    if (rc < 0) {
        free(f->table);
        free(f);
        return rc;
    }
    f->bytes = hw_flame_source_bytes(f->source);
    f->next = all->first;
    all->first = f;
    all->sql->kept_bytes += f->bytes;
    *out = f;
    return HW_OK;
}

static int sqlite_code(int rc)
{
    return rc == HW_ENOMEM ? SQLITE_NOMEM : rc == HW_ETIMEOUT ? SQLITE_INTERRUPT : SQLITE_ERROR;
}

/* ---- the table ---- */

static bool has_name(const struct hw_strbuf *declared, const char *name)
{
    char *quoted = sqlite3_mprintf("\"%w\" ", name);
    bool found = quoted && strcasestr(declared->p, quoted);
    sqlite3_free(quoted);
    return found;
}

static void put_column(struct hw_strbuf *text, const char *prefix, const char *name)
{
    char *column = sqlite3_mprintf(", \"%w%w\" ", prefix, name);
    if (column)
        hw_strbuf_adds(text, column);
    else
        text->failed = true;
    sqlite3_free(column);
}

/* A pair whose name a property already has is left out. */
static void put_pairs(struct flame_vtab *v, struct hw_strbuf *text)
{
    const struct hw_flame_source *s = v->flame->source;
    for (size_t i = HW_FLAME_PROPERTIES; i < s->n_columns && !text->failed; i++) {
        char *self = sqlite3_mprintf("self_%s", s->columns[i].name);
        char *cumulative = sqlite3_mprintf("cumulative_%s", s->columns[i].name);
        if (!self || !cumulative) {
            text->failed = true;
        } else if (!s->columns[i].has_text && !has_name(text, self) &&
                   !has_name(text, cumulative)) {
            put_column(text, "self_", s->columns[i].name);
            put_column(text, "cumulative_", s->columns[i].name);
            v->number_of[v->n_pairs++] = (int)i;
        }
        sqlite3_free(self);
        sqlite3_free(cumulative);
    }
}

static int declare(sqlite3 *db, struct flame_vtab *v)
{
    const struct hw_flame_source *s = v->flame->source;
    struct hw_strbuf text = {0};
    hw_strbuf_adds(
        &text,
        "CREATE TABLE x(\"in_config\" HIDDEN, \"_tree_id\" INTEGER, \"_tree_parent_id\" INTEGER,"
        " \"depth\" INTEGER, \"name\" , \"self_value\" , \"cumulative_value\" ,"
        " \"parent_cumulative_value\" , \"x_start\" , \"x_end\" ");
    for (size_t i = HW_FLAME_PROPERTIES; i < s->n_columns; i++)
        put_column(&text, "", s->columns[i].name);
    put_pairs(v, &text);
    hw_strbuf_addc(&text, ')');
    int rc = text.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, text.p);
    hw_strbuf_done(&text);
    return rc;
}

static int attach(sqlite3 *db, struct flames *all, struct flame *f, sqlite3_vtab **out,
                  char **message)
{
    struct flame_vtab *v = sqlite3_malloc(sizeof *v);
    if (!v)
        return SQLITE_NOMEM;
    *v = (struct flame_vtab){.all = all, .flame = f};
    int rc = declare(db, v);
    if (rc != SQLITE_OK) {
        *message = sqlite3_mprintf("flamegraph: %s", sqlite3_errmsg(db));
        sqlite3_free(v);
        return rc;
    }
    *out = &v->base;
    return SQLITE_OK;
}

static char *full_name(const char *const *argv)
{
    return sqlite3_mprintf("%s.%s", argv[1], argv[2]);
}

/* argv: module, database, table, then the arguments' source text. */
static int flame_create(sqlite3 *db, void *aux, int argc, const char *const *argv,
                        sqlite3_vtab **out, char **message)
{
    struct flames *all = aux;
    struct flame *f = NULL;
    struct hw_error err = {0};
    if (argc != 4) {
        *message = sqlite3_mprintf("flamegraph: one select in brackets is needed");
        return SQLITE_ERROR;
    }
    char *name = full_name(argv);
    int rc = name ? flame_new(all, name, argv[3], &f, &err) : HW_ENOMEM;
    sqlite3_free(name);
    if (rc < 0) {
        if (err.text[0])
            *message = sqlite3_mprintf("%s", err.text);
        return sqlite_code(rc);
    }
    rc = attach(db, all, f, out, message);
    if (rc != SQLITE_OK)
        flame_free(all, f);
    return rc;
}

static int flame_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **message)
{
    char *name = full_name(argv);
    struct flame *f = name ? flame_find(aux, name) : NULL;
    (void)argc;
    sqlite3_free(name);
    if (f)
        return attach(db, aux, f, out, message);
    *message = sqlite3_mprintf("flamegraph: the table's source is gone");
    return SQLITE_ERROR;
}

static int flame_disconnect(sqlite3_vtab *base)
{
    sqlite3_free(base);
    return SQLITE_OK;
}

static int flame_destroy(sqlite3_vtab *base)
{
    struct flame_vtab *v = (struct flame_vtab *)base;
    flame_free(v->all, v->flame);
    sqlite3_free(v);
    return SQLITE_OK;
}

static int flame_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    int config = -1, find = -1;
    for (int i = 0; i < info->nConstraint; i++) {
        const struct sqlite3_index_constraint *c = &info->aConstraint[i];
        bool is_config = c->iColumn == COL_CONFIG && c->op == SQLITE_INDEX_CONSTRAINT_EQ;
        bool is_find = c->iColumn == COL_ID && c->op == OP_FIND;
        if ((is_config || is_find) && !c->usable)
            return SQLITE_CONSTRAINT;
        if (is_config)
            config = i;
        if (is_find)
            find = i;
    }
    if (config < 0) {
        sqlite3_free(base->zErrMsg);
        base->zErrMsg =
            sqlite3_mprintf("flamegraph: FROM table(__intrinsic_flamegraph_config(...)) is needed");
        return SQLITE_ERROR;
    }
    info->aConstraintUsage[config].argvIndex = 1;
    info->aConstraintUsage[config].omit = 1;
    info->idxNum = PLAN_ROWS;
    info->estimatedCost = 1e6;
    info->estimatedRows = 10000;
    if (find >= 0) {
        info->aConstraintUsage[find].argvIndex = 2;
        info->aConstraintUsage[find].omit = 1;
        info->idxNum = PLAN_SUPER_ROOT;
        info->estimatedCost = 1;
        info->estimatedRows = 1;
    }
    return SQLITE_OK;
}

/* ---- rows ---- */

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

static int flame_close(sqlite3_vtab_cursor *base)
{
    struct flame_cursor *c = (struct flame_cursor *)base;
    hw_flame_query_done(&c->query);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int fail_vtab(sqlite3_vtab *v, const char *text)
{
    sqlite3_free(v->zErrMsg);
    v->zErrMsg = sqlite3_mprintf("%s", text);
    return SQLITE_ERROR;
}

static int flame_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
                        sqlite3_value **argv)
{
    struct flame_cursor *c = (struct flame_cursor *)base;
    struct flame_vtab *v = (struct flame_vtab *)base->pVtab;
    const struct hw_flame_config *config = hw_flame_config_of(argv[0]);
    struct hw_error err = {0};
    (void)text;
    hw_flame_query_done(&c->query);
    c->at = c->n = 0;
    c->is_super_root = plan == PLAN_SUPER_ROOT;
    if (!config)
        return fail_vtab(base->pVtab, "flamegraph: its argument is not made by "
                                      "__intrinsic_flamegraph_config");
    if (c->is_super_root) {
        const char *what = argc > 1 ? (const char *)sqlite3_value_text(argv[1]) : NULL;
        if (!what || strcmp(what, "SUPER_ROOT") != 0)
            return fail_vtab(base->pVtab, "flamegraph: only 'SUPER_ROOT' can be found");
        c->n = 1;
        return SQLITE_OK;
    }
    int rc = hw_flame_query_make(v->all->sql, v->flame->source, config, &c->query, &err);
    if (rc < 0) {
        (void)fail_vtab(base->pVtab, err.text[0] ? err.text : hw_errc_text(rc));
        return sqlite_code(rc);
    }
    c->n = c->query.forest.n;
    return SQLITE_OK;
}

static int flame_next(sqlite3_vtab_cursor *base)
{
    ((struct flame_cursor *)base)->at++;
    return SQLITE_OK;
}

static int flame_eof(sqlite3_vtab_cursor *base)
{
    const struct flame_cursor *c = (const struct flame_cursor *)base;
    return c->at >= c->n;
}

static void super_root_cell(const struct flame_vtab *v, sqlite3_context *ctx, int column)
{
    if (column == COL_ID || column == COL_DEPTH)
        sqlite3_result_int64(ctx, 0);
    else if (column == COL_CUMULATIVE)
        sqlite3_result_double(ctx, v->flame->source->value_sum);
}

static void x_end(const struct hw_flame_query *q, size_t node, sqlite3_context *ctx)
{
    hw_forest_number a = q->forest.x_start[node], b = q->forest.cumulative[node * q->n_values];
    int64_t end;
    if (q->is_real[0])
        sqlite3_result_double(ctx, a.d + b.d);
    else
        sqlite3_result_int64(ctx, __builtin_add_overflow(a.i, b.i, &end) ? INT64_MAX : end);
}

/* The columns after the fixed ones. */
static void further_cell(const struct flame_vtab *v, const struct hw_flame_query *q, size_t node,
                         size_t column, sqlite3_context *ctx)
{
    size_t n_properties = v->flame->source->n_columns - HW_FLAME_PROPERTIES;
    if (column < n_properties) {
        hw_flame_query_property(q, node, column + HW_FLAME_PROPERTIES, ctx);
        return;
    }
    size_t pair = (column - n_properties) / 2;
    int value = q->value_of[v->number_of[pair]];
    if (value >= 0)
        hw_flame_query_value(q, (column - n_properties) % 2 ? q->forest.cumulative : q->forest.self,
                             node, (size_t)value, ctx);
}

static int flame_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const struct flame_cursor *c = (const struct flame_cursor *)base;
    const struct flame_vtab *v = (const struct flame_vtab *)base->pVtab;
    const struct hw_forest *f = &c->query.forest;
    if (c->is_super_root) {
        super_root_cell(v, ctx, column);
        return SQLITE_OK;
    }
    uint32_t parent = f->nodes[c->at].parent;
    switch (column) {
    case COL_CONFIG:
        break;
    case COL_ID:
        sqlite3_result_int64(ctx, (sqlite3_int64)c->at);
        break;
    case COL_PARENT:
        if (parent != HW_ID_NONE)
            sqlite3_result_int64(ctx, parent);
        break;
    case COL_DEPTH:
        sqlite3_result_int(ctx, f->nodes[c->at].depth);
        break;
    case COL_NAME:
        hw_flame_query_name(&c->query, c->at, ctx);
        break;
    case COL_SELF:
        hw_flame_query_value(&c->query, f->self, c->at, 0, ctx);
        break;
    case COL_CUMULATIVE:
        hw_flame_query_value(&c->query, f->cumulative, c->at, 0, ctx);
        break;
    case COL_PARENT_CUMULATIVE:
        if (parent != HW_ID_NONE)
            hw_flame_query_value(&c->query, f->cumulative, parent, 0, ctx);
        break;
    case COL_X_START:
        if (c->query.is_real[0])
            sqlite3_result_double(ctx, f->x_start[c->at].d);
        else
            sqlite3_result_int64(ctx, f->x_start[c->at].i);
        break;
    case COL_X_END:
        x_end(&c->query, c->at, ctx);
        break;
    default:
        further_cell(v, &c->query, c->at, (size_t)(column - COL_PROPERTIES), ctx);
        break;
    }
    return SQLITE_OK;
}

static int flame_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = (sqlite3_int64)((struct flame_cursor *)base)->at;
    return SQLITE_OK;
}

/* ---- __intrinsic_flamegraph_find ---- */

static void find_alone(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_error(ctx, "__intrinsic_flamegraph_find is about a flamegraph's _tree_id", -1);
}

/* In case SQLite checks the constraint again: all rows satisfy it. */
static void find_holds(sqlite3_context *ctx, int argc, sqlite3_value **argv)
{
    (void)argc;
    (void)argv;
    sqlite3_result_int(ctx, 1);
}

static int flame_find_function(sqlite3_vtab *v, int n_args, const char *name,
                               void (**function)(sqlite3_context *, int, sqlite3_value **),
                               void **arg)
{
    (void)v;
    if (n_args != 2 || sqlite3_stricmp(name, find_name) != 0)
        return 0;
    *function = find_holds;
    *arg = NULL;
    return OP_FIND;
}

static const sqlite3_module flame_methods = {
    .iVersion = 2,
    .xCreate = flame_create,
    .xConnect = flame_connect,
    .xDisconnect = flame_disconnect,
    .xDestroy = flame_destroy,
    .xBestIndex = flame_best_index,
    .xOpen = flame_open,
    .xClose = flame_close,
    .xFilter = flame_filter,
    .xNext = flame_next,
    .xEof = flame_eof,
    .xColumn = flame_column,
    .xRowid = flame_rowid,
    .xFindFunction = flame_find_function,
};

int hw_sql_add_flame_tables(struct hw_sql *s)
{
    struct flames *all = calloc(1, sizeof *all);
    if (!all)
        return HW_ENOMEM;
    all->sql = s;
    /* Frees `all` even on failure. */
    if (sqlite3_create_module_v2(s->db, HW_SQL_FLAME_MODULE, &flame_methods, all, flames_free) !=
            SQLITE_OK ||
        sqlite3_create_function_v2(s->db, find_name, 2, SQLITE_UTF8, NULL, find_alone, NULL, NULL,
                                   NULL) != SQLITE_OK)
        return HW_ENOMEM;
    return hw_sql_add_flame_config(s->db);
}
