#include "views/findings/trend.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "views/findings/slope.h"

#include "base/banned.h"

#define MAX_MOMENTS 128
#define NEGLIGIBLE  0.005 /* share of the last value: negligible growth */

/* The selected moments. */
struct points {
    double t[MAX_MOMENTS], y[MAX_MOMENTS], turnover[MAX_MOMENTS];
    size_t n;
    double step;
};

static void thin(const struct hw_trend_series *s, struct points *p)
{
    p->n = s->n < MAX_MOMENTS ? s->n : MAX_MOMENTS;
    p->step = s->step;
    for (size_t i = 0; i < p->n; i++) {
        size_t at = p->n > 1 ? i * (s->n - 1) / (p->n - 1) : 0;
        p->t[i] = s->t[at];
        p->y[i] = s->live[at];
        p->turnover[i] = s->turnover[at];
    }
}

/* Standard error of y[j] - y[i]. */
static double change_error(const struct points *p, size_t i, size_t j)
{
    double changed = fmin(p->turnover[j] - p->turnover[i], fabs(p->y[i]) + fabs(p->y[j]));
    return sqrt(p->step * fmax(changed, 0));
}

/* m values with normal errors have in 95 % of cases a range below this many standard errors (the
 * studentized range for known errors: 2.77 for two, 4.2 for seven, 5.0 for twenty, 6.1 for a
 * hundred). */
static double range_quantile(size_t m)
{
    return m < 2 ? 0 : 2.77 + 0.95 * log((double)m / 2);
}

/* Almost nothing was freed since first, and memory grew with at least a quarter of the overall
 * rate: a leak of few samples looks like noise over a short time, but a plateau does not grow. */
static bool keeps_pace(const struct points *p, size_t first)
{
    size_t last = p->n - 1;
    double rise = p->y[last] - p->y[first], whole = p->y[last] - p->y[0];
    double went = (p->turnover[last] - p->turnover[first] - rise) / 2;
    double share = (p->t[last] - p->t[first]) / (p->t[last] - p->t[0]);
    return rise > 0 && whole > 2 * change_error(p, 0, last) && went <= rise / 20 &&
           rise >= whole * share / 4;
}

static int flat_from(const struct points *p, double since, bool *flat)
{
    double low = INFINITY, high = -INFINITY;
    size_t first = 0;
    struct hw_slope slope;
    while (first + 2 < p->n && p->t[first] < since)
        first++; /* two at least: one moment alone would always be flat */
    for (size_t i = first; i < p->n; i++) {
        low = fmin(low, p->y[i]);
        high = fmax(high, p->y[i]);
    }
    size_t m = p->n - first;
    *flat = high - low <= NEGLIGIBLE * p->y[p->n - 1];
    if (*flat)
        return HW_OK;
    /* The error of a change between two independent values is that of one of them times √2. */
    double error = change_error(p, first, p->n - 1) * M_SQRT1_2;
    if (high - low > error * range_quantile(m) || keeps_pace(p, first))
        return HW_OK;
    *flat = m < 5; /* too few to distinguish a rise from an error */
    if (*flat)
        return HW_OK;
    int rc = hw_slope_of(p->t + first, p->y + first, m, &slope);
    *flat = rc == 0 && (slope.p >= 0.05 || slope.s < 0);
    return rc;
}

static double longest_rest(const struct points *p)
{
    double most = p->y[0], since = p->t[0], longest = 0;
    for (size_t i = 1; i < p->n; i++) {
        if (p->y[i] <= most && i + 1 < p->n)
            continue;
        /* The new maximum was reached some time after the previous moment. */
        double until = p->y[i] > most ? p->t[i - 1] : p->t[i];
        longest = fmax(longest, until - since);
        most = fmax(most, p->y[i]);
        since = p->t[i];
    }
    return longest / (p->t[p->n - 1] - p->t[0]);
}

static enum hw_trend trend_of(const struct points *p, double alloc_space, bool flat, bool flat_end,
                              const struct hw_slope *slope)
{
    double last = p->y[p->n - 1], grown = last - p->y[0];
    double noise = fmax(2 * change_error(p, 0, p->n - 1), NEGLIGIBLE * last);
    if (flat)
        return alloc_space >= 10 * last ? HW_TREND_CHURN : HW_TREND_START_UP;
    if (grown <= noise)
        return HW_TREND_NONE;
    if (flat_end)
        return HW_TREND_CACHE_LIKE;
    /* With few steps many pairs are equal, and the interval reaches 0 although the rise is sure. */
    bool rises = slope->low > 0 || (slope->s > 0 && slope->p < 0.05);
    return rises ? HW_TREND_GROWING : HW_TREND_NONE;
}

int hw_trend_of(const struct hw_trend_series *s, struct hw_trend_result *out)
{
    struct points p;
    struct hw_slope slope;
    *out = (struct hw_trend_result){.p = 1};
    if (s->n < 4)
        return HW_OK;
    thin(s, &p);
    int rc = hw_slope_of(p.t, p.y, p.n, &slope);
    if (rc < 0)
        return rc;
    out->slope = slope.slope;
    out->slope_low = slope.low;
    out->slope_high = slope.high;
    out->tau = slope.tau;
    out->p = slope.p;
    double span = p.t[p.n - 1] - p.t[0];
    bool flat, flat_end;
    if (span <= 0 || p.y[p.n - 1] <= 0)
        return HW_OK;
    out->longest_rest = longest_rest(&p);
    rc = flat_from(&p, p.t[0] + span / 10, &flat);
    if (rc == 0)
        rc = flat_from(&p, p.t[0] + span * 2 / 3, &flat_end);
    if (rc == 0)
        out->trend = trend_of(&p, s->alloc_space, flat, flat_end, &slope);
    return rc;
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
