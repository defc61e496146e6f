/*
 * flame_window.h - a flamegraph that is redrawn while its time range is dragged
 *
 * Why:     dragging the end of a time range requests the same graph ten times a second, each time
 *          for another dump. What stays the same is computed once: which callstacks there are,
 *          their order in the tree, what filters do to them.
 * Shapes:  a question without times, and places, which have them. Siblings are in order of their
 *          function's id at every place. Siblings below min_share of the whole are merged into one
 *          node after the others, as in hw_flame_invert; empty nodes are left out. The figures are
 *          those of hw_span_values and hw_flame_build_with; variances may differ by rounding.
 * Owns:    its tree and the sums of the heaps; nothing of the question, which must outlive it.
 * Errors:  HW_ENOMEM; HW_ELIMIT when figures do not fit in 63 bits (hw_flame_build_with saturates).
 * Cost:    new: one pass over the rows, one tree. move: the rows between the two dumps, or those
 *          since a copy of the sum (hw_sum_keep_marks); 30 ns a callstack; the shown nodes and
 *          their children.
 * Threads: one owner at a time; the profile must be frozen.
 * Source:  doc/design/views.md
 */
#ifndef HW_VIEWS_FLAME_FLAME_WINDOW_H
#define HW_VIEWS_FLAME_FLAME_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "views/flame/flame.h"
#include "views/time/series.h"

struct hw_flame_window;

struct hw_flame_window_query {
    const struct hw_profile *p;
    const struct hw_series_list *list;
    const struct hw_functions *fns;
    hw_upid upid;
    bool one_heap; /* only the heap of heap_name */
    hw_str_id heap_name;
    unsigned flags;                          /* HW_FLAME_SITES, HW_FLAME_COLLAPSE */
    const struct hw_filter_matches *filters; /* NULL = none; no pivot, no heaps; only new uses it */
    size_t max_marks_bytes;                  /* for copies of the sums, all heaps together */
};

struct hw_flame_window_place {
    int64_t ts_ns; /* dumps of a recorded maximum are ignored */
    bool has_from;
    int64_t from_ns;
    enum hw_metric metric;
    double min_share;
};

int hw_flame_window_new(const struct hw_flame_window_query *q, struct hw_flame_window **out);
void hw_flame_window_free(struct hw_flame_window *s); /* NULL is fine */
/* *unfiltered: the sum over all callstacks, including those that filters drop. */
int hw_flame_window_move(struct hw_flame_window *s, const struct hw_flame_window_place *place,
                         struct hw_flame *out, int64_t *unfiltered);
size_t hw_flame_window_bytes(const struct hw_flame_window *s);

#endif
