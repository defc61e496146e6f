/*
 * flame_source.h - the rows of a select from which a flamegraph is built
 *
 * Why:     a page requests many views of the same frames; they are read once, and numbered once for
 *          each set of columns that decides whether frames are equal.
 * Shapes:  the select's first columns are id, parent_id, name, value; further ones are properties.
 *          Here column 0 is name, 1 is value, the rest the properties. Rows keep their order. A
 *          parent id without a row counts as none.
 * Owns:    copies of everything, until hw_flame_source_free.
 * Errors:  HW_EINVAL with a text (columns, types), HW_ENOMEM, HW_ELIMIT; HW_ETIMEOUT when the
 *          connection's deadline passed.
 * Cost:    16 bytes per cell, 12 per row, each text once; idents O(rows x columns) in time.
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
    struct hw_row_cell *cells; /* owned, from SQLite's allocator; by row */
    bool has_text, has_real;
    bool has_negative; /* a negative number */
};

struct hw_flame_source {
    size_t n, capacity, n_columns;
    struct hw_flame_column columns[HW_FLAME_MAX_COLUMNS];
    struct hw_strings *strings; /* owned; the texts */
    uint32_t *parent;           /* owned; by row, HW_ID_NONE = a root */
    double value_sum;

    /* Frames with the same name and values in these columns share a number. */
    uint64_t ident_columns; /* a bit mask; valid if ident is set */
    uint32_t *ident;        /* owned; by row */
    uint32_t *row_of_ident; /* owned; its first row */
    size_t n_idents;
};

/* Runs "SELECT * FROM <from>". */
int hw_flame_source_read(struct hw_sql *sql, const char *from, struct hw_flame_source **out,
                         struct hw_error *err);
void hw_flame_source_free(struct hw_flame_source *s);
size_t hw_flame_source_bytes(const struct hw_flame_source *s);
/* The index of name, value or a property; n_columns = no such column. */
size_t hw_flame_source_column(const struct hw_flame_source *s, const char *name);
/* Computes ident from name and the columns of this mask. */
int hw_flame_source_number(struct hw_flame_source *s, uint64_t columns);

static inline const struct hw_row_cell *hw_flame_cell(const struct hw_flame_source *s, size_t row,
                                                      size_t column)
{
    return &s->columns[column].cells[row];
}

/* Numbers as SQLite writes them. NULL for NULL, or out of memory; buffer has 64 bytes. */
const char *hw_flame_cell_text(const struct hw_flame_source *s, const struct hw_row_cell *c,
                               char *buffer);

#endif
