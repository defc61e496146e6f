/*
 * leaks.h - what grows, and which of it is a leak
 *
 * Why:     in a growing heap many callstacks have grown; people want the few places responsible,
 *          separated from caches and start-up.
 * Shapes:  one row per site: a node of the tree of stacks (allocator frames cut off). Going down
 *          from the root, a child is a separate site as long as it has a tenth of its parent's
 *          growth or live bytes and enough samples for a verdict; smaller ones are counted with the
 *          parent. A runtime's own functions below managed ones are no sites; their parents' parents
 *          are compared. So the rows are disjoint, add up to the process, and a row's node is the deepest
 *          prefix of all its stacks. Rows are in order of verdict, then of growth. Moments: the
 *          shown dumps of the process, without recorded maxima, and without dumps at the end at
 *          which the program had already cleaned up.
 * Units:   bytes, seconds since the first moment; rates in bytes a second.
 * Owns:    everything in struct hw_leaks.
 * Errors:  HW_ENOMEM, HW_ELIMIT.
 * Cost:    one tree, one pass over the process's rows, O(sites × moments²) of at most 128 moments.
 * Source:  doc/design/views.md
 */
#ifndef HW_VIEWS_FINDINGS_LEAKS_H
#define HW_VIEWS_FINDINGS_LEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/findings/leak_verdict.h"
#include "views/findings/suppressions.h"
#include "views/findings/trend.h"
#include "views/flame/flame.h"
#include "views/time/process_view.h"
#include "views/time/series.h"

struct hw_stack_mask;

struct hw_leak {
    uint32_t node; /* of hw_leaks.tree */
    bool rest;     /* there are rows below it: this is the remainder */
    enum hw_leak_verdict verdict;
    struct hw_trend_result trend;
    struct hw_value now;            /* at the last moment */
    double grown;                   /* live bytes at the last moment minus those at the first */
    double freed_ratio;             /* freed / allocated; 0 when nothing was allocated */
    double survival, survival_most; /* share of what was allocated before the last third that is
                                       still live: at least and at most; -1 = nothing was */
    size_t n_rises;                 /* moments at which it held more than at the previous one */
};

struct hw_leaks {
    struct hw_flame tree;
    HW_VEC(double) t;      /* seconds since the first moment */
    HW_VEC(int64_t) ts_ns; /* the same in the trace's time */
    HW_VEC(struct hw_leak) v;
    double *history;          /* live bytes: [row × t.n + moment]; row = the leak's index in v */
    struct hw_value total;    /* of the process at the last moment */
    double total_first;       /* its live bytes at the first */
    uint64_t interval_bytes;  /* between samples */
    int64_t suppressed_space; /* live bytes of suppressed rows; included in total */
    size_t n_suppressed;
};

struct hw_leaks_query {
    const struct hw_profile *p;
    const struct hw_series_list *list;
    const struct hw_process_view *view;
    const struct hw_functions *fns;
    const struct hw_namer *namer;               /* for suppressions; may be NULL */
    const struct hw_suppressions *suppressions; /* NULL = none */
    struct hw_stack_mask *mask;                 /* NULL = every callstack; applies to totals, too */
};

int hw_leaks_find(const struct hw_leaks_query *q, struct hw_leaks *out);
void hw_leaks_done(struct hw_leaks *l);
/* Growth of the rows with the verdict "likely leak". */
double hw_leaks_likely(const struct hw_leaks *l);

#endif
