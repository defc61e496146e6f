/*
 * top_functions.h - the functions that held most at any of several moments, and how much each held at all of them
 *
 * Why:     a total over time says when memory grew, not by whom.
 * Shapes:  a point for each moment that is added. Of itself: what a function asked for (functions.h: its site).
 *          Total: what came by a stack that it stands in, each stack once; these overlap. The most at any point
 *          ranks a function, so one that has freed everything by the end is found, too.
 * Owns:    its tables; hw_top_functions_done frees them, after an error, too.
 * Errors:  HW_ENOMEM.
 * Cost:    O(callsites) once for totals, then O(callsites) a point; 8 bytes for each function and point,
 *          so hw_top_functions_points says how many points a profile may have.
 * Threads: pure.
 */
#ifndef HW_VIEWS_FINDINGS_TOP_FUNCTIONS_H
#define HW_VIEWS_FINDINGS_TOP_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "views/flame/functions.h"
#include "views/time/values.h"

enum { HW_TOP_FUNCTIONS_MAX = 10, HW_TOP_FUNCTIONS_POINTS = 64 };

struct hw_top_functions {
    const struct hw_callsites *cs;
    const struct hw_functions *fns;
    enum hw_metric metric;
    bool total;
    size_t n_points, room, n_functions;
    double *bytes;       /* [point * n_functions + function] */
    double *sums;        /* by callsite, for totals */
    uint64_t *outermost; /* by callsite: bit i = its i-th function stands in no frame above */
    double all[HW_TOP_FUNCTIONS_POINTS];
    size_t n; /* after ranking */
    uint32_t function[HW_TOP_FUNCTIONS_MAX];
};

/* How many moments of so many are worth their memory: at most HW_TOP_FUNCTIONS_POINTS, at least 8. */
size_t hw_top_functions_points(const struct hw_functions *fns, size_t n_moments);
int hw_top_functions_init(struct hw_top_functions *f, const struct hw_callsites *cs,
                          const struct hw_functions *fns, enum hw_metric metric, bool total,
                          size_t n_points);
/* One moment's values; the caller adds no more than n_points, in order of time. */
void hw_top_functions_add(struct hw_top_functions *f, const hw_values *values);
/* Fills n and function: most first, at most HW_TOP_FUNCTIONS_MAX of those with anything. */
void hw_top_functions_rank(struct hw_top_functions *f);
double hw_top_functions_get(const struct hw_top_functions *f, size_t rank, size_t point);
void hw_top_functions_done(struct hw_top_functions *f);

#endif
