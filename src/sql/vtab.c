/*
 * One virtual-table module for all tables of tables.def.
 *
 * Best index: one column is searched, the one with the fewest expected rows; idxNum says which and
 * by which comparisons (the bits below), in the order of the arguments: equal, or lower then upper
 * bound. SQLite checks every constraint again (omit stays 0): we may return too many rows, never
 * too few, so a value that we cannot compare simply means "all rows" in the same order.
 *
 * In addition, rows stored in runs are selected run by run (table_runs.c): idxStr is the plan,
 * whose arguments follow the others.
 *
 * A dense column (id) needs no index: the value is the row. A rising one is searched by bisection.
 * A column that is only scanned is left to SQLite.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"

#include "base/banned.h"

enum { OP_EQ = 1, OP_GT = 2, OP_GE = 4, OP_LT = 8, OP_LE = 16, OP_NULL = 32, OP_SET = 64 };
enum { OPS = 0xff, FALLING = 0x100, COLUMN_SHIFT = 16 };

struct table_vtab {
    sqlite3_vtab base;
    struct hw_sql *sql;
    const struct hw_table *table;
    struct hw_index *indexes; /* borrowed: one per column */
};

struct table_cursor {
    sqlite3_vtab_cursor base;
    const struct hw_index *index; /* borrowed; NULL: rows in their own order */
    size_t at, end;
    struct hw_run_scan runs; /* the runs after [at, end); none: these are all rows */
    int column;              /* of the index */
    size_t low, high;        /* descending scan: index positions still to visit, last ones first */
};

/* Modules of Perfetto's library use the tables under its views; here they are the same tables. */
static const char alias_prefix[] = "__intrinsic_", android[] = "android_";

static void put_alias(const char *name, char out[static 80])
{
    bool short_android = strncmp(name, android, sizeof android - 1) == 0;
    (void)snprintf(out, 80, "%s%s", alias_prefix, name + (short_android ? sizeof android - 1 : 0));
}

static size_t table_number(const char *name)
{
    char second[80];
    size_t i = 0;
    for (; i < hw_n_tables && strcmp(hw_tables[i].name, name) != 0; i++) {
        put_alias(hw_tables[i].name, second);
        if (strcmp(second, name) == 0)
            break;
    }
    return i;
}

static int table_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
                         sqlite3_vtab **out, char **message)
{
    static const char *const types[] = {"INTEGER", "REAL", "TEXT"};
    (void)argc;
    (void)message;
    struct hw_sql *sql = aux;
    size_t number = table_number(argv[0]);
    if (number == hw_n_tables)
        return SQLITE_ERROR;
    const struct hw_table *t = &hw_tables[number];
    struct hw_strbuf text = {0};
    hw_strbuf_adds(&text, "CREATE TABLE x(");
    for (int i = 0; i < t->n_columns; i++)
        hw_strbuf_addf(&text, "%s\"%s\" %s%s", i ? ", " : "", t->columns[i].name,
                       types[t->columns[i].class], t->columns[i].hidden ? " HIDDEN" : "");
    hw_strbuf_addc(&text, ')');
    int rc = text.failed ? SQLITE_NOMEM : sqlite3_declare_vtab(db, text.p);
    hw_strbuf_done(&text);
    struct table_vtab *v = rc == SQLITE_OK ? sqlite3_malloc(sizeof *v) : NULL;
    if (!v)
        return rc == SQLITE_OK ? SQLITE_NOMEM : rc;
    *v = (struct table_vtab){.sql = sql, .table = t, .indexes = sql->indexes[number]};
    (void)sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS); /* only reads memory: allowed in views */
    *out = &v->base;
    return SQLITE_OK;
}

static int table_disconnect(sqlite3_vtab *v)
{
    sqlite3_free(v);
    return SQLITE_OK;
}

/* ---- planning ---- */

static int op_bit(unsigned char op)
{
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        return OP_EQ;
    case SQLITE_INDEX_CONSTRAINT_GT:
        return OP_GT;
    case SQLITE_INDEX_CONSTRAINT_GE:
        return OP_GE;
    case SQLITE_INDEX_CONSTRAINT_LT:
        return OP_LT;
    case SQLITE_INDEX_CONSTRAINT_LE:
        return OP_LE;
    case SQLITE_INDEX_CONSTRAINT_ISNULL:
        return OP_NULL;
    case SQLITE_INDEX_CONSTRAINT_ISNOTNULL:
        return OP_SET;
    default:
        return 0;
    }
}

/* Which constraint serves which bit for one column; -1 = none. */
struct plan {
    int column;
    int equal, lower, upper, null, set; /* indexes into aConstraint */
    double rows;
};

static bool usable(const struct table_vtab *v, sqlite3_index_info *info, int i)
{
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    if (!c->usable || !op_bit(c->op) || c->iColumn >= v->table->n_columns ||
        (c->iColumn >= 0 && v->table->columns[c->iColumn].order == HW_ORDER_SCAN))
        return false;
    if (c->iColumn >= 0 && v->table->columns[c->iColumn].order == HW_ORDER_RUN &&
        op_bit(c->op) != OP_EQ)
        return false;
    return c->iColumn < 0 || v->table->columns[c->iColumn].class != HW_CLASS_TEXT ||
           sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY") == 0;
}

static double expected(const struct table_vtab *v, int column, size_t n)
{
    if (column < 0 || v->table->columns[column].order == HW_ORDER_DENSE)
        return 1;
    if (v->table->columns[column].order == HW_ORDER_RISING)
        return 1 + (double)n / 1024; /* needs no index, so it is preferred */
    const struct hw_index *ix = &v->indexes[column];
    if (ix->is_made && ix->n_distinct)
        return (double)n / (double)ix->n_distinct;
    return 1 + (double)n / 64; /* unknown before it is built */
}

static struct plan plan_column(const struct table_vtab *v, sqlite3_index_info *info, int column,
                               size_t n)
{
    struct plan p = {column, -1, -1, -1, -1, -1, (double)n};
    for (int i = 0; i < info->nConstraint; i++) {
        if (info->aConstraint[i].iColumn != column || !usable(v, info, i))
            continue;
        int bit = op_bit(info->aConstraint[i].op);
        if (bit == OP_EQ)
            p.equal = i;
        else if (bit == OP_GT || bit == OP_GE)
            p.lower = i;
        else if (bit == OP_LT || bit == OP_LE)
            p.upper = i;
        else if (bit == OP_NULL)
            p.null = i;
        else
            p.set = i;
    }
    if (p.equal >= 0)
        p.rows = expected(v, column, n);
    else if (p.null >= 0)
        p.rows = 1 + (double)n / 16;
    else if (p.lower >= 0 && p.upper >= 0)
        p.rows = 1 + (double)n / 16;
    else if (p.lower >= 0 || p.upper >= 0)
        p.rows = 1 + (double)n / 4;
    else if (p.set >= 0)
        p.rows = 1 + (double)n * 0.9;
    return p;
}

static void use(sqlite3_index_info *info, int constraint, int *bits, int *n_args)
{
    if (constraint < 0)
        return;
    *bits |= op_bit(info->aConstraint[constraint].op);
    info->aConstraintUsage[constraint].argvIndex = ++*n_args;
}

static bool in_row_order(const struct table_vtab *v, int column)
{
    return v->table->columns[column].order == HW_ORDER_DENSE ||
           v->table->columns[column].order == HW_ORDER_RISING;
}

static bool is_sortable(const struct table_vtab *v, int column)
{
    return column >= 0 && v->table->columns[column].order == HW_ORDER_ANY &&
           v->table->columns[column].class != HW_CLASS_REAL;
}

static bool is_run_equality(const struct table_vtab *v, sqlite3_index_info *info, int i)
{
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    return usable(v, info, i) && op_bit(c->op) == OP_EQ && c->iColumn >= 0 &&
           v->table->columns[c->iColumn].order == HW_ORDER_RUN;
}

/* For a scan in row order: selecting runs, or reordering them, costs nothing extra. */
static int plan_runs(const struct table_vtab *v, sqlite3_index_info *info, int n_args, double *rows)
{
    struct hw_strbuf text = {0};
    for (int i = 0; i < info->nConstraint; i++)
        if (is_run_equality(v, info, i)) {
            hw_runs_plan_equal(&text, info->aConstraint[i].iColumn);
            info->aConstraintUsage[i].argvIndex = ++n_args;
            if (*rows > 1 + *rows / 64)
                *rows = 1 + *rows / 64;
        }
    if (!info->orderByConsumed && hw_runs_plan_orders(&text, v->table, info))
        info->orderByConsumed = 1;
    if (text.n)
        info->idxStr = sqlite3_mprintf("%s", text.p);
    info->needToFreeIdxStr = info->idxStr != NULL;
    bool failed = text.failed || (text.n && !info->idxStr);
    hw_strbuf_done(&text);
    return failed ? SQLITE_NOMEM : SQLITE_OK;
}

static bool has_run_equality(const struct table_vtab *v, sqlite3_index_info *info)
{
    for (int i = 0; v->table->runs && i < info->nConstraint; i++)
        if (is_run_equality(v, info, i))
            return true;
    return false;
}

static int table_best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
    const struct table_vtab *v = (const struct table_vtab *)base;
    if (v->table->prepare && v->table->prepare(&v->sql->derived) < 0)
        return SQLITE_NOMEM;
    size_t n = v->table->count(&v->sql->derived);
    struct plan best = {-2, -1, -1, -1, -1, -1, (double)n};
    for (int i = 0; i < info->nConstraint; i++) {
        if (!usable(v, info, i) || is_run_equality(v, info, i))
            continue;
        struct plan p = plan_column(v, info, info->aConstraint[i].iColumn, n);
        if (p.rows < best.rows || (best.column == -2 && p.equal >= 0))
            best = p;
    }
    int bits = 0, n_args = 0;
    if (best.equal >= 0)
        use(info, best.equal, &bits, &n_args);
    else if (best.null >= 0)
        use(info, best.null, &bits, &n_args);
    else {
        use(info, best.lower, &bits, &n_args);
        use(info, best.upper, &bits, &n_args);
        if (n_args == 0)
            use(info, best.set, &bits, &n_args);
    }
    /* No search, but an ORDER BY: an index has that order, and our radix sort takes a fraction of
     * the time of SQLite's sorter. */
    if (best.column == -2 && info->nOrderBy == 1 && is_sortable(v, info->aOrderBy[0].iColumn) &&
        !has_run_equality(v, info))
        best.column = info->aOrderBy[0].iColumn;
    /* Rows are returned in the order of the searched column, or of the ids. */
    bool dense = best.column < 0 || in_row_order(v, best.column);
    if (info->nOrderBy == 1) {
        int by = info->aOrderBy[0].iColumn;
        bool by_row = by < 0 || in_row_order(v, by), desc = info->aOrderBy[0].desc;
        info->orderByConsumed = by_row ? dense && !desc : by == best.column;
        if (desc && info->orderByConsumed)
            bits |= FALLING;
    }
    if (v->table->runs && dense && !(best.equal >= 0 && best.column < 0)) {
        int rc = plan_runs(v, info, n_args, &best.rows);
        if (rc != SQLITE_OK)
            return rc;
    }
    info->idxNum = bits | (best.column + 2) << COLUMN_SHIFT;
    info->estimatedRows = (sqlite3_int64)(best.rows < 1 ? 1 : best.rows);
    info->estimatedCost = best.rows * (dense ? 1 : 1.5) + (bits ? 2 : 0);
    if (best.equal >= 0 &&
        (best.column < 0 || v->table->columns[best.column].order == HW_ORDER_DENSE))
        info->idxFlags = SQLITE_INDEX_SCAN_UNIQUE;
    return SQLITE_OK;
}

/* ---- scanning ---- */

static int table_open(sqlite3_vtab *v, sqlite3_vtab_cursor **out)
{
    (void)v;
    struct table_cursor *c = sqlite3_malloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *c = (struct table_cursor){0};
    *out = &c->base;
    return SQLITE_OK;
}

static int table_close(sqlite3_vtab_cursor *base)
{
    struct table_cursor *c = (struct table_cursor *)base;
    hw_vec_done(&c->runs.runs);
    sqlite3_free(c);
    return SQLITE_OK;
}

/* The first row >= value (above: > value) if the value is the row number. */
static bool dense_bound(size_t n, sqlite3_value *value, bool above, size_t *out)
{
    int type = sqlite3_value_type(value);
    if (type == SQLITE_FLOAT) {
        double d = sqlite3_value_double(value);
        double first = above ? floor(d) + 1 : ceil(d);
        *out = !(first > 0) ? 0 : first >= (double)n ? n : (size_t)first;
        return true;
    }
    if (type != SQLITE_INTEGER)
        return false;
    int64_t i = sqlite3_value_int64(value);
    if (above && i < INT64_MAX)
        i++;
    *out = i <= 0 ? 0 : (uint64_t)i >= n ? n : (size_t)i;
    return true;
}

struct search {
    const struct table_vtab *v;
    const struct hw_index *index; /* NULL: dense or rising */
    size_t n;
    bool is_rising;
    int column;
};

static int compare_cell(const struct search *s, size_t row, sqlite3_value *value)
{
    struct hw_sql_cell c;
    s->v->table->cell(&s->v->sql->derived, (uint32_t)row, s->column, &c);
    if (sqlite3_value_type(value) == SQLITE_INTEGER) {
        int64_t w = sqlite3_value_int64(value);
        return (c.i > w) - (c.i < w);
    }
    long double a = (long double)c.i, b = sqlite3_value_double(value);
    return (a > b) - (a < b);
}

/*
 * The first row whose cell is >= value (above: > value). Groups of rows are often numbered by their
 * first row, so that row is tried before the bisection; an upper bound is usually near.
 */
static bool rising_bound(const struct search *s, size_t from, sqlite3_value *value, bool above,
                         size_t *out)
{
    int type = sqlite3_value_type(value);
    size_t low = from, high = s->n;
    if (type != SQLITE_INTEGER && type != SQLITE_FLOAT)
        return false;
    int64_t guess = type == SQLITE_INTEGER ? sqlite3_value_int64(value) : -1;
    if (!above && guess >= 0 && (uint64_t)guess < s->n &&
        compare_cell(s, (size_t)guess, value) == 0 &&
        (guess == 0 || compare_cell(s, (size_t)guess - 1, value) < 0)) {
        *out = (size_t)guess;
        return true;
    }
    for (size_t step = 1; above && low + step < s->n; step *= 2) {
        if (compare_cell(s, low + step, value) > 0) {
            high = low + step;
            break;
        }
        low += step;
    }
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = compare_cell(s, mid, value);
        if (c < 0 || (above && c == 0))
            low = mid + 1;
        else
            high = mid;
    }
    *out = low;
    return true;
}

/* from: a row that is not past the bound. */
static bool bound(const struct search *s, size_t from, sqlite3_value *value, bool above,
                  size_t *out)
{
    if (s->is_rising)
        return rising_bound(s, from, value, above, out);
    return s->index ? hw_index_bound(s->index, &s->v->sql->derived, s->v->table, s->column, value,
                                     above, out)
                    : dense_bound(s->n, value, above, out);
}

static void narrow(struct table_cursor *c, const struct search *s, int bits, sqlite3_value **argv)
{
    size_t at, n_null = s->index ? s->index->n_null : 0;
    int arg = 0;
    if (bits & OP_NULL) {
        c->end = n_null;
        return;
    }
    if (bits & OP_SET) {
        c->at = n_null;
        return;
    }
    if (bits & OP_EQ) {
        size_t from, to;
        if (bound(s, 0, argv[0], false, &from) && bound(s, from, argv[0], true, &to)) {
            c->at = from;
            c->end = to;
        }
        return;
    }
    if (bits & (OP_GT | OP_GE)) {
        if (bound(s, 0, argv[arg++], (bits & OP_GT) != 0, &at))
            c->at = at;
    }
    if (bits & (OP_LT | OP_LE)) {
        if (bound(s, 0, argv[arg], (bits & OP_LE) != 0, &at)) {
            c->end = at;
            if (c->at < n_null)
                c->at = n_null; /* NULL < value is never true */
        }
    }
}

/*
 * Descending values, with rows of equal values in row order, as SQLite's sorter keeps them. SQLite
 * also requests this for a GROUP BY if its ORDER BY has as many columns, whatever these are.
 */
static void step_back_group(struct table_cursor *c, const struct table_vtab *v)
{
    c->end = c->high;
    c->at = c->high =
        hw_index_group(c->index, &v->sql->derived, v->table, c->column, c->low, c->high);
}

static int table_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc,
                        sqlite3_value **argv)
{
    struct table_cursor *c = (struct table_cursor *)base;
    struct table_vtab *v = (struct table_vtab *)base->pVtab;
    int bits = number & OPS, column = (number >> COLUMN_SHIFT) - 2;
    size_t n = v->table->count(&v->sql->derived);
    struct search s = {.v = v, .n = n, .column = column};
    c->index = NULL;
    hw_vec_clear(&c->runs.runs);
    c->at = c->low = c->high = c->runs.next = 0;
    c->end = n;
    bool compares = !(bits & (OP_NULL | OP_SET));
    for (int i = 0; compares && i < argc; i++)
        if (sqlite3_value_type(argv[i]) == SQLITE_NULL) {
            c->end = 0; /* no comparison with NULL is true */
            return SQLITE_OK;
        }
    if (column >= 0 && v->table->columns[column].order == HW_ORDER_RISING) {
        s.is_rising = true;
    } else if (column >= 0 && v->table->columns[column].order != HW_ORDER_DENSE) {
        struct hw_index *ix = &v->indexes[column];
        if (!ix->is_made && hw_index_build(ix, &v->sql->derived, v->table, column) < 0)
            return SQLITE_NOMEM;
        s.index = ix;
        c->index = ix;
        c->column = column;
    }
    if (bits)
        narrow(c, &s, bits, argv);
    if (number & FALLING) {
        c->low = c->at;
        c->high = c->end;
        step_back_group(c, v);
    }
    if (plan) {
        int n_before = argc - hw_runs_n_args(plan);
        c->runs.from = c->at;
        c->runs.to = c->end;
        c->at = c->end = 0;
        if (hw_runs_pick(&v->sql->derived, v->table, plan, argv + n_before, &c->runs) < 0)
            return SQLITE_NOMEM;
        (void)hw_runs_next(&v->sql->derived, v->table, &c->runs, &c->at, &c->end); /* or none */
    }
    v->sql->rows_visited += c->at < c->end;
    return SQLITE_OK;
}

static int table_next(sqlite3_vtab_cursor *base)
{
    struct table_cursor *c = (struct table_cursor *)base;
    const struct table_vtab *v = (const struct table_vtab *)base->pVtab;
    if (++c->at >= c->end && c->high > c->low)
        step_back_group(c, v);
    else if (c->at >= c->end && c->runs.runs.n)
        (void)hw_runs_next(&v->sql->derived, v->table, &c->runs, &c->at, &c->end); /* or the end */
    v->sql->rows_visited += c->at < c->end;
    return SQLITE_OK;
}

static int table_eof(sqlite3_vtab_cursor *base)
{
    const struct table_cursor *c = (const struct table_cursor *)base;
    return c->at >= c->end;
}

static uint32_t row_of(const struct table_cursor *c)
{
    return c->index ? hw_index_row(c->index, c->at) : (uint32_t)c->at;
}

static int table_column(sqlite3_vtab_cursor *base, sqlite3_context *ctx, int column)
{
    const struct table_vtab *v = (const struct table_vtab *)base->pVtab;
    struct hw_sql_cell cell;
    v->table->cell(&v->sql->derived, row_of((struct table_cursor *)base), column, &cell);
    switch (cell.type) {
    case HW_SQL_NULL:
        break;
    case HW_SQL_INT:
        sqlite3_result_int64(ctx, cell.i);
        break;
    case HW_SQL_REAL:
        sqlite3_result_double(ctx, cell.d);
        break;
    case HW_SQL_TEXT: /* static: the profile outlives the connection */
        sqlite3_result_text64(ctx, cell.p, cell.n, SQLITE_STATIC, SQLITE_UTF8);
        break;
    case HW_SQL_BLOB:
        sqlite3_result_blob64(ctx, cell.p, cell.n, SQLITE_STATIC);
        break;
    }
    return SQLITE_OK;
}

static int table_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
    *out = row_of((struct table_cursor *)base);
    return SQLITE_OK;
}

/* xCreate stays NULL: the tables are eponymous, and CREATE VIRTUAL TABLE cannot use the module. */
static const sqlite3_module table_module = {
    .iVersion = 2,
    .xConnect = table_connect,
    .xDisconnect = table_disconnect,
    .xBestIndex = table_best_index,
    .xOpen = table_open,
    .xClose = table_close,
    .xFilter = table_filter,
    .xNext = table_next,
    .xEof = table_eof,
    .xColumn = table_column,
    .xRowid = table_rowid,
};

/* Registers both names; internal tables have one. */
static int add_table(struct hw_sql *s, const char *name)
{
    char second[80];
    put_alias(name, second);
    if (sqlite3_create_module_v2(s->db, name, &table_module, s, NULL) != SQLITE_OK)
        return HW_ENOMEM;
    if (name[0] == '_')
        return HW_OK;
    return sqlite3_create_module_v2(s->db, second, &table_module, s, NULL) == SQLITE_OK ? HW_OK
                                                                                        : HW_ENOMEM;
}

int hw_sql_add_tables(struct hw_sql *s)
{
    s->indexes = calloc(hw_n_tables, sizeof *s->indexes);
    if (!s->indexes)
        return HW_ENOMEM;
    for (size_t i = 0; i < hw_n_tables; i++) {
        s->indexes[i] = calloc((size_t)hw_tables[i].n_columns, sizeof **s->indexes);
        if (!s->indexes[i] || add_table(s, hw_tables[i].name) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}
