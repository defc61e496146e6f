/*
 * top_functions.h - the functions that held most at any of several moments, and their curves
 *
 * Why:     a total over time says when memory grew, not by whom.
 * Shapes:  a point for each moment that is added. Self: what a function asked for as a site
 *          (functions.h). Total: the values of all stacks that contain it, each stack once; totals
 *          overlap. Functions are ranked by their maximum over the points, so one that has freed
 *          everything by the end is found, too.
 * Owns:    its tables; hw_top_functions_done frees them, also after an error.
 * Errors:  HW_ENOMEM.
 * Cost:    O(callsites) once for totals, then O(callsites) per point; 8 bytes per function and
 *          point, so hw_top_functions_points limits the points of a profile.
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
    uint64_t *outermost; /* by callsite: bit i = its i-th function is in no caller's frame */
    double all[HW_TOP_FUNCTIONS_POINTS];
    size_t n; /* after ranking */
    uint32_t function[HW_TOP_FUNCTIONS_MAX];
};

/* How many of so many moments to use, given the memory: at most HW_TOP_FUNCTIONS_POINTS, at least
 * 8 if there are as many. */
size_t hw_top_functions_points(const struct hw_functions *fns, size_t n_moments);
int hw_top_functions_init(struct hw_top_functions *f, const struct hw_callsites *cs,
                          const struct hw_functions *fns, enum hw_metric metric, bool total,
                          size_t n_points);
/* Adds one moment's values, in order of time; those beyond n_points are ignored. */
void hw_top_functions_add(struct hw_top_functions *f, const hw_values *values);
/* Fills n and function: the largest first, at most HW_TOP_FUNCTIONS_MAX, none without values. */
void hw_top_functions_rank(struct hw_top_functions *f);
double hw_top_functions_get(const struct hw_top_functions *f, size_t rank, size_t point);
void hw_top_functions_done(struct hw_top_functions *f);

#endif
