/*
 * trend.h - did a site grow, or was it only start-up?
 *
 * Why:     a word behind a figure saves the reader a diagram; it must not cry wolf on sampling
 * noise. Shapes:  needs four moments for a verdict; fewer give HW_TREND_NONE. GROWING: the 95 %
 * interval of the Theil-Sen slope lies above 0 and the growth exceeds the sampling error. START_UP:
 * nothing changed beyond the sampling error after the first tenth (a range as one value shows it
 * when it is sampled again and again, and no steady rise). CACHE_LIKE: grew, then flat in
 * the last third. CHURN: flat, but allocating at least ten times what it holds. Units:   times in
 * any unit, values in bytes; error is half a 95 % interval of the last value. Errors:  HW_ENOMEM.
 * Cost:    O(n² log n) of at most 128 moments; more are thinned evenly, first and last kept.
 * Source:  spec/ui.md 6.1
 */
#ifndef HW_VIEWS_TREND_H
#define HW_VIEWS_TREND_H

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
};

int hw_trend_of(const double *t, const double *live, size_t n, double error, double alloc_space,
                struct hw_trend_result *out);
const char *hw_trend_name(enum hw_trend t); /* "growing", …; "" for none */

#endif
