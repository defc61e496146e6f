/*
 * row_list.h - the rows of a select, as one value that a table function takes
 *
 * Why:     SQLite gives a table function single values. An aggregate gathers all rows of a select
 *          into a list and passes it on as a pointer, which SQL cannot look into or make.
 * Shapes:  _hw_gather(a, b, ...) -> pointer; NULL of no rows. Each row has the same cells, texts
 *          are interned in the list. Blobs count as NULL.
 *          _hw_sum_by(key, a, b, ...) -> the same, but rows of one key are one row with their sums:
 *          what GROUP BY does, without sorting. The key is an integer, other rows are left out.
 * Owns:    SQLite the list, for the statement that made it.
 * Errors:  no memory ends the statement.
 * Cost:    16 bytes a cell; limited by the connection's memory limit (hw_sql_limit_memory).
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
        int64_t i; /* TEXT: a string of the list */
        double d;
    };
};

struct hw_row_list {
    size_t width;
    HW_VEC(struct hw_row_cell) cells; /* row by row */
    struct hw_strings *strings;       /* owned; NULL while there are no texts */
    struct hw_map64 row_of;           /* by key, of _hw_sum_by */
};

int hw_sql_add_gather(sqlite3 *db);
/* Gives the list to SQLite, as a function's result. */
void hw_row_list_result(sqlite3_context *ctx, struct hw_row_list *l);
/* Lends the list to a statement, as its parameter. */
int hw_row_list_bind(sqlite3_stmt *stmt, int parameter, struct hw_row_list *l);
/* Borrowed; NULL: no rows, or it is none. */
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

/* False: NULL, or a text. Reals are cut. */
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
