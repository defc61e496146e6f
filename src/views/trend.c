#include "views/trend.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

#define MAX_MOMENTS 128

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

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

/* Sen's interval: the slopes whose rank is as far from the middle as 1.96 standard deviations of
 * Kendall's S. */
static int slopes(const double *t, const double *y, size_t n, struct hw_trend_result *out)
{
    size_t n_pairs = 0;
    double s = 0;
    double *v = malloc(n * (n - 1) / 2 * sizeof *v);
    if (!v)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            if (t[j] <= t[i])
                continue;
            v[n_pairs++] = (y[j] - y[i]) / (t[j] - t[i]);
            s += (y[j] > y[i]) - (y[j] < y[i]);
        }
    }
    if (n_pairs) {
        qsort(v, n_pairs, sizeof *v, by_value);
        double k = (double)n, pairs = (double)n_pairs;
        double half = 1.96 * sqrt(k * (k - 1) * (2 * k + 5) / 18);
        double low = (pairs - half) / 2, high = (pairs + half) / 2;
        out->slope = n_pairs % 2 ? v[n_pairs / 2] : (v[n_pairs / 2 - 1] + v[n_pairs / 2]) / 2;
        out->slope_low = v[low > 0 ? (size_t)low : 0];
        out->slope_high = v[high < pairs - 1 ? (size_t)ceil(high) : n_pairs - 1];
        out->tau = s / pairs;
    }
    free(v);
    return HW_OK;
}

static bool flat_from(const double *t, const double *y, size_t n, double since, double error)
{
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (t[i] < since)
            continue;
        low = fmin(low, y[i]);
        high = fmax(high, y[i]);
    }
    return high - low <= error;
}

int hw_trend_of(const double *t, const double *live, size_t n, double error, double alloc_space,
                struct hw_trend_result *out)
{
    double tt[MAX_MOMENTS], y[MAX_MOMENTS];
    *out = (struct hw_trend_result){0};
    if (n < 4)
        return HW_OK;
    n = thin(t, live, n, tt, y);
    int rc = slopes(tt, y, n, out);
    if (rc < 0)
        return rc;
    double last = y[n - 1], span = tt[n - 1] - tt[0], grown = last - y[0];
    double noise = fmax(error, last * 0.005); /* half a percent is no growth to speak of */
    if (span <= 0 || last <= 0)
        return HW_OK;
    bool flat = flat_from(tt, y, n, tt[0] + span / 10, noise);
    if (flat && alloc_space >= 10 * last)
        out->trend = HW_TREND_CHURN;
    else if (flat)
        out->trend = HW_TREND_START_UP;
    else if (grown > noise && flat_from(tt, y, n, tt[0] + span * 2 / 3, noise))
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
