/*
 * trend.h - whether a site grows, or only grew at start-up
 *
 * Why:     one word next to a figure saves the reader a chart; it must neither mistake sampling
 *          noise for a leak nor a slow leak for noise.
 * Shapes:  needs four moments for a verdict; fewer give HW_TREND_NONE. GROWING: the 95 % interval
 *          of the Theil-Sen slope lies above 0 and the growth exceeds its sampling error. START_UP:
 *          flat after the first tenth. CACHE_LIKE: grew, then flat in the last third. CHURN: flat,
 *          but has allocated at least ten times what it holds. Flat: changes may be sampling noise,
 *          do not rise steadily, and are slower than a quarter of the overall growth rate. The
 *          error of a change is not that of the values: what stayed is the same sample in both.
 *          Only what was allocated or freed in between has an error, and at most what both hold.
 * Units:   times in any unit, values in bytes.
 * Errors:  HW_ENOMEM.
 * Cost:    O(n² log n) of at most 128 moments; more are thinned evenly, first and last kept.
 * Source:  doc/design/views.md; tests/unit/views/verdicts_test.c measures how often it is right
 */
#ifndef HW_VIEWS_FINDINGS_TREND_H
#define HW_VIEWS_FINDINGS_TREND_H

#include <stddef.h>

enum hw_trend {
    HW_TREND_NONE,
    HW_TREND_GROWING,
    HW_TREND_START_UP,
    HW_TREND_CACHE_LIKE,
    HW_TREND_CHURN,
    HW_TREND_COUNT
};

struct hw_trend_result {
    enum hw_trend trend;
    double slope, slope_low, slope_high; /* bytes per unit of time, 95 % */
    double tau, p;                       /* Mann-Kendall */
    double longest_rest; /* share of the whole time, 0 to 1: the longest without a new maximum */
};

struct hw_trend_series {
    const double *t, *live; /* by moment; borrowed */
    const double *turnover; /* bytes allocated and freed until then, from any start; borrowed */
    size_t n;
    double step;        /* variance per estimated byte: the sampling interval; 0 = exact */
    double alloc_space; /* ever allocated, at the last moment */
};

int hw_trend_of(const struct hw_trend_series *s, struct hw_trend_result *out);
const char *hw_trend_name(enum hw_trend t); /* "growing", …; "" for none */

#endif
