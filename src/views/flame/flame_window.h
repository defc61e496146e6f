/*
 * flame_window.h - a flamegraph that is redrawn while its time range is dragged
 *
 * Why:     dragging the end of a time range requests the same graph ten times a second, each time
 *          for another dump. What stays the same is computed once: which callstacks there are,
 *          their order in the tree, what filters do to them.
 * Shapes:  a question without its times; a place is what moves. The graph has siblings in order of
 *          their function's id, wherever it stands. Siblings below min_share of the whole are one
 *          node behind the others, as in hw_flame_invert; what holds nothing is left out. The
 *          figures are those of hw_span_values and hw_flame_ask, variance up to the order of sums.
 * Owns:    its tree and the sums of the heaps; nothing of the question, which must outlive it.
 * Errors:  HW_ENOMEM; HW_ELIMIT when figures do not fit in 63 bits (the slow way saturates).
 * Cost:    made: one pass over the rows, one tree. Moved: the rows between the two dumps, or those
 *          since a copy of the sum (hw_sum_keep_marks); 30 ns a callstack; the nodes that are
 *          shown and their children.
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

struct hw_flame_window_question {
    const struct hw_profile *p;
    const struct hw_series_list *list;
    const struct hw_functions *fns;
    hw_upid upid;
    bool one_heap; /* only the heap of heap_name */
    hw_str_id heap_name;
    unsigned flags;                          /* HW_FLAME_SITES, HW_FLAME_COLLAPSE */
    const struct hw_filter_matches *filters; /* NULL = none; neither pivot nor heaps; used by new */
    size_t max_marks_bytes;                  /* for copies of the sums, all heaps together */
};

struct hw_flame_window_place {
    int64_t ts_ns; /* no recorded maximum */
    bool has_from;
    int64_t from_ns;
    enum hw_metric metric;
    double min_share;
};

int hw_flame_window_new(const struct hw_flame_window_question *q, struct hw_flame_window **out);
void hw_flame_window_free(struct hw_flame_window *s); /* NULL is fine */
/* *unfiltered: the sum over all callstacks, those that filters drop too. */
int hw_flame_window_move(struct hw_flame_window *s, const struct hw_flame_window_place *place,
                         struct hw_flame *out, int64_t *unfiltered);
size_t hw_flame_window_bytes(const struct hw_flame_window *s);

#endif
