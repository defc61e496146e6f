/*
 * query_out.h - results of SQL on standard output: CSV for files and scripts, columns for people
 *
 * Shapes:  CSV as the classic shell writes it: header and strings in double quotes without
 *          escaping, NULL as "[NULL]", doubles with six decimals, blobs as "<raw bytes>", an empty
 *          line between results. Columns: pages of 32 rows.
 * Errors:  HW_ENOMEM. On a terminal, control bytes are escaped.
 */
#ifndef HW_CLI_QUERY_QUERY_OUT_H
#define HW_CLI_QUERY_QUERY_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "sql/sql.h"

struct hw_query_out {
    const char *file;  /* CSV: a first column with its name; NULL = none; borrowed */
    bool columns;      /* for people */
    bool asks;         /* stops after each page and reads standard input */
    unsigned width;    /* of one column at most, in characters */
    size_t n_results;  /* so far */
    size_t head_bytes; /* CSV: length of the last result's header line */
    bool terminal, suppressed;
    size_t n_columns;
    HW_VEC(char *) page; /* owned: the cells of a page, its heading first */
    struct hw_strbuf line;
};

void hw_query_out_init(struct hw_query_out *o);
void hw_query_out_done(struct hw_query_out *o);
struct hw_sql_sink hw_query_out_sink(struct hw_query_out *o);

#endif
