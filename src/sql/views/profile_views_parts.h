/*
 * profile_views_parts.h - shared by the files of the profile views
 */
#ifndef HW_SQL_VIEWS_PROFILE_VIEWS_PARTS_H
#define HW_SQL_VIEWS_PROFILE_VIEWS_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"
#include "views/filter.h"
#include "views/time/series.h"
#include "views/time/values.h"

struct hw_sql;

struct hw_view_cell {
    enum { CELL_NULL, CELL_INT, CELL_REAL, CELL_TEXT } kind;
    int64_t i;
    double d;
    hw_str_id text; /* in answer.strings */
};

/* The result of one call. */
struct hw_view_result {
    const struct hw_sql *sql;
    const struct hw_profile *p;        /* sql's */
    HW_VEC(struct hw_view_cell) cells; /* row by row */
    struct hw_strings *strings;
    bool failed; /* out of memory */
    struct hw_series_list list;
    struct hw_functions *fns;
    struct hw_error err;
};

struct hw_view_query {
    hw_upid upid[2];
    int64_t ts[2]; /* INT64_MAX = the last dump */
    const char *text;
    bool has_since;
    int64_t since;
    const char *heap, *filters, *options; /* NULL = none */
};

int hw_view_match_filters(struct hw_view_result *a, hw_upid upid, const hw_values *values,
                          const hw_filters *filters, const struct hw_namer *namer,
                          struct hw_filter_matches *out);
void hw_view_put_function(struct hw_view_result *a, uint32_t function);
bool hw_view_has_only_peaks(const struct hw_view_result *a, hw_upid upid, int64_t *ts_ns);
void hw_view_put_int(struct hw_view_result *a, int64_t v);
void hw_view_put_text(struct hw_view_result *a, struct hw_bytes v);
void hw_view_put(struct hw_view_result *a, struct hw_view_cell c);
void hw_view_put_errors(struct hw_view_result *a, const struct hw_value *v, uint64_t interval);
void hw_view_put_temporary(struct hw_view_result *a, const struct hw_value *self,
                           const struct hw_value *total, uint64_t interval);
uint64_t hw_view_interval_of(const struct hw_view_result *a, hw_upid upid);
int hw_view_fill_tree(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_functions(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_rounding(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_modules(struct hw_view_result *a, const struct hw_view_query *q);

void hw_view_put_real(struct hw_view_result *a, double v);
int hw_view_fill_account(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_accounting(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_callees(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_top(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_callers(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_sizes(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_diff(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_leaks(struct hw_view_result *a, const struct hw_view_query *q);
int hw_view_fill_lifetimes(struct hw_view_result *a, const struct hw_view_query *q);

#endif
