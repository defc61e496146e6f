/*
 * row_list.h - the rows of a select as one value, the argument of a table function
 *
 * Why:     table functions of SQLite take single values. An aggregate collects all rows of a select
 *          into a list and passes it on as a pointer that is opaque to SQL and cannot be forged.
 * Shapes:  _hw_gather(a, b, ...) -> pointer; NULL for no rows. All rows have the same width; texts
 *          are interned in the list. Blobs become NULL.
 *          _hw_sum_by(key, a, b, ...) -> the same, with rows of one key summed up: GROUP BY without
 *          sorting. Rows whose key is not an integer are left out.
 * Owns:    SQLite owns the list, for the statement that made it.
 * Errors:  out of memory ends the statement.
 * Cost:    16 bytes per cell; limited by the connection's memory limit (hw_sql_limit_memory).
 */
#ifndef HW_SQL_GRAPHS_ROW_LIST_H
#define HW_SQL_GRAPHS_ROW_LIST_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "sql/sql.h"

struct hw_row_cell {
    enum hw_sql_type type; /* no BLOB */
    union {
        int64_t i; /* TEXT: a string id of the list */
        double d;
    };
};

struct hw_row_list {
    size_t width;
    HW_VEC(struct hw_row_cell) cells; /* row by row */
    struct hw_strings *strings;       /* owned; NULL while there are no texts */
    struct hw_map64 row_of;           /* by key; for _hw_sum_by */
};

int hw_sql_add_gather(sqlite3 *db);
/* Passes the list to SQLite as a function's result; SQLite owns it. */
void hw_row_list_result(sqlite3_context *ctx, struct hw_row_list *l);
/* Binds the list, borrowed, to a statement's parameter. */
int hw_row_list_bind(sqlite3_stmt *stmt, int parameter, struct hw_row_list *l);
/* Borrowed; NULL: no rows, or value is not a list. */
const struct hw_row_list *hw_row_list_of(sqlite3_value *value);

static inline size_t hw_row_list_rows(const struct hw_row_list *l)
{
    return l && l->width ? l->cells.n / l->width : 0;
}

static inline const struct hw_row_cell *hw_row_list_cell(const struct hw_row_list *l, size_t row,
                                                         size_t column)
{
    return &l->cells.v[row * l->width + column];
}

/* False: NULL or a text. Reals are truncated. */
static inline bool hw_row_list_int(const struct hw_row_list *l, size_t row, size_t column,
                                   int64_t *out)
{
    const struct hw_row_cell *c = hw_row_list_cell(l, row, column);
    bool in_range = c->type == HW_SQL_REAL && c->d >= -0x1p63 && c->d < 0x1p63;
    if (c->type == HW_SQL_INT)
        *out = c->i;
    else if (in_range)
        *out = (int64_t)c->d;
    return c->type == HW_SQL_INT || in_range;
}

#endif
