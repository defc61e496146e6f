/*
 * span.h - what a process holds at a moment, or what was added in a time range
 *
 * Why:     pages and SQL query the same selections and must return the same numbers.
 * Shapes:  without from_ns: the values at ts_ns. With it: what was added since. Stacks that hold
 *          less than before count as 0 in that metric, since negative values cannot be drawn. One
 *          row per callsite, sorted by callsite.
 * Errors:  HW_ENOMEM.
 * Cost:    one or two passes over the process's rows.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/pages.md, "Endpoints"
 */
#ifndef HW_VIEWS_TIME_SPAN_H
#define HW_VIEWS_TIME_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "views/filter.h"
#include "views/time/series.h"
#include "views/time/values.h"

struct hw_profile;

struct hw_span {
    hw_upid upid;
    bool one_heap;             /* only the heap of heap_name */
    hw_str_id heap_name;       /* of the profile's strings */
    const hw_filters *filters; /* only filters on heaps are used; borrowed, NULL = none */
    int64_t ts_ns;
    bool at_max; /* ts_ns is the time of a recorded maximum */
    bool has_from;
    int64_t from_ns;
};

int hw_span_values(const struct hw_profile *p, const struct hw_series_list *list,
                   const struct hw_span *s, hw_values *out);

#endif
