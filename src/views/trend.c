#include "views/trend.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "views/slope.h"

#include "base/banned.h"

#define MAX_MOMENTS 128

static size_t thin(const double *t, const double *live, size_t n, double *tt, double *ll)
{
    size_t m = n < MAX_MOMENTS ? n : MAX_MOMENTS;
    for (size_t i = 0; i < m; i++) {
        size_t at = m > 1 ? i * (n - 1) / (m - 1) : 0;
        tt[i] = t[at];
        ll[i] = live[at];
    }
    return m;
}

/* Of m values with one normal error each, 95 % have a range below this many standard errors (the
 * studentized range for known errors: 2.77 for two, 4.2 for seven, 5.0 for twenty, 6.1 for a
 * hundred). */
static double range_quantile(size_t m)
{
    return m < 2 ? 0 : 2.77 + 0.95 * log((double)m / 2);
}

/* Flat: what is seen may be the sampling error of one value, seen m times, and does not rise
 * steadily. Four values are too few to tell a rise from an error; there two standard errors are the
 * limit. */
static int flat_from(const double *t, const double *y, size_t n, double since, double error,
                     bool *flat)
{
    double low = INFINITY, high = -INFINITY;
    size_t first = 0;
    struct hw_slope slope;
    while (first < n && t[first] < since)
        first++;
    for (size_t i = first; i < n; i++) {
        low = fmin(low, y[i]);
        high = fmax(high, y[i]);
    }
    size_t m = n - first;
    *flat = high - low <= error;
    if (*flat || m < 5 || high - low > error / 2 * range_quantile(m))
        return HW_OK;
    int rc = hw_slope_of(t + first, y + first, m, &slope);
    *flat = rc == 0 && slope.p >= 0.05;
    return rc;
}

int hw_trend_of(const double *t, const double *live, size_t n, double error, double alloc_space,
                struct hw_trend_result *out)
{
    double tt[MAX_MOMENTS], y[MAX_MOMENTS];
    *out = (struct hw_trend_result){.p = 1};
    if (n < 4)
        return HW_OK;
    n = thin(t, live, n, tt, y);
    struct hw_slope slope;
    int rc = hw_slope_of(tt, y, n, &slope);
    if (rc < 0)
        return rc;
    out->slope = slope.slope;
    out->slope_low = slope.low;
    out->slope_high = slope.high;
    out->tau = slope.tau;
    out->p = slope.p;
    double last = y[n - 1], span = tt[n - 1] - tt[0], grown = last - y[0];
    double noise = fmax(error, last * 0.005); /* half a percent is no growth to speak of */
    if (span <= 0 || last <= 0)
        return HW_OK;
    bool flat, flat_end;
    rc = flat_from(tt, y, n, tt[0] + span / 10, noise, &flat);
    if (rc == 0)
        rc = flat_from(tt, y, n, tt[0] + span * 2 / 3, noise, &flat_end);
    if (rc < 0)
        return rc;
    if (flat && alloc_space >= 10 * last)
        out->trend = HW_TREND_CHURN;
    else if (flat)
        out->trend = HW_TREND_START_UP;
    else if (grown > noise && flat_end)
        out->trend = HW_TREND_CACHE_LIKE;
    else if (grown > noise && out->slope_low > 0)
        out->trend = HW_TREND_GROWING;
    return HW_OK;
}

const char *hw_trend_name(enum hw_trend t)
{
    switch (t) {
    case HW_TREND_GROWING:
        return "growing";
    case HW_TREND_START_UP:
        return "start-up";
    case HW_TREND_CACHE_LIKE:
        return "cache-like";
    case HW_TREND_CHURN:
        return "churn";
    case HW_TREND_NONE:
    case HW_TREND_COUNT:
        break;
    }
    return "";
}
