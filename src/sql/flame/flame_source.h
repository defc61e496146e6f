/*
 * flame_source.h - the rows of a select that a flamegraph is made of
 *
 * Why:     a page asks for many views of the same frames; they are read once, and numbered once for
 *          each choice of what makes frames equal.
 * Shapes:  the select's columns begin id, parent_id, name, value; further ones are properties. Here
 *          column 0 is name, 1 is value, the rest the properties. Rows keep their order. A parent
 *          that is not there counts as none.
 * Owns:    copies of everything, until hw_flame_source_free.
 * Errors:  HW_EINVAL with a text (columns, types), HW_ENOMEM, HW_ELIMIT; HW_ETIMEOUT when the
 *          connection's deadline passed.
 * Cost:    16 bytes a cell, 12 a row, texts once; idents O(rows x columns) in time.
 */
#ifndef HW_SQL_FLAME_FLAME_SOURCE_H
#define HW_SQL_FLAME_FLAME_SOURCE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strings.h"
#include "sql/graphs/row_list.h"

struct hw_error;
struct hw_sql;

enum { HW_FLAME_NAME, HW_FLAME_VALUE, HW_FLAME_PROPERTIES, HW_FLAME_MAX_COLUMNS = 64 };

struct hw_flame_column {
    char *name;                /* owned */
    struct hw_row_cell *cells; /* owned by SQLite's memory; by row */
    bool has_text, has_real;
    bool has_negative; /* of its numbers */
};

struct hw_flame_source {
    size_t n, room, n_columns;
    struct hw_flame_column columns[HW_FLAME_MAX_COLUMNS];
    struct hw_strings *strings; /* owned; of texts */
    uint32_t *parent;           /* owned; by row, HW_ID_NONE = a top */
    double value_sum;

    /* Frames that are equal by name and these columns have one number. */
    uint64_t ident_columns; /* bits; ident NULL: none were made yet */
    uint32_t *ident;        /* owned; by row */
    uint32_t *row_of_ident; /* owned; the first one */
    size_t n_idents;
};

/* Runs "SELECT * FROM <from>". */
int hw_flame_source_read(struct hw_sql *sql, const char *from, struct hw_flame_source **out,
                         struct hw_error *err);
void hw_flame_source_free(struct hw_flame_source *s);
size_t hw_flame_source_bytes(const struct hw_flame_source *s);
/* Of name and value, and of properties; n_columns = there is none. */
size_t hw_flame_source_column(const struct hw_flame_source *s, const char *name);
/* Makes ident for name and the columns of these bits. */
int hw_flame_source_number(struct hw_flame_source *s, uint64_t columns);

static inline const struct hw_row_cell *hw_flame_cell(const struct hw_flame_source *s, size_t row,
                                                      size_t column)
{
    return &s->columns[column].cells[row];
}

/* Numbers as SQLite writes them. NULL when it is NULL, or there is no memory; buffer has 64. */
const char *hw_flame_cell_text(const struct hw_flame_source *s, const struct hw_row_cell *c,
                               char *buffer);

#endif
