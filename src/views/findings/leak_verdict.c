#include "views/findings/leak_verdict.h"

#include <math.h>

#include "views/findings/leaks.h"

#include "base/banned.h"

/*
 * Steady growth has no longer pause than chance allows: with k samples at random moments, a pause
 * of the share x of the time has a probability of at most k (1 - x)^(k - 1). The limit is one in a
 * hundred, and never below a third of the time, as programs do not allocate evenly.
 */
static bool is_steady(const struct hw_leak *r)
{
    double k = (double)r->now.alloc_samples;
    if (r->now.space > 0)
        k *= fmin(1, r->grown / (double)r->now.space);
    double allowed = k > 1 ? 1 - pow(0.01 / k, 1 / (k - 1)) : 1;
    return r->trend.longest_rest < fmax(allowed, 1. / 3);
}

enum hw_leak_verdict hw_leak_verdict_of(const struct hw_leak *r, size_t n_moments, bool rough)
{
    if (n_moments < 4)
        return HW_LEAK_TOO_LITTLE;
    switch (r->trend.trend) {
    case HW_TREND_GROWING:
        return r->trend.tau > 0.7 && r->trend.p < 0.05 && r->freed_ratio < 0.05 && !rough &&
                       is_steady(r)
                   ? HW_LEAK_LIKELY
                   : HW_LEAK_GROWING;
    case HW_TREND_CACHE_LIKE:
        return HW_LEAK_CACHE_LIKE;
    case HW_TREND_START_UP:
        return HW_LEAK_START_UP;
    case HW_TREND_CHURN:
        return HW_LEAK_CHURN;
    case HW_TREND_NONE:
    case HW_TREND_COUNT:
        break;
    }
    return HW_LEAK_NO_TREND;
}

const char *hw_leak_verdict_name(enum hw_leak_verdict v)
{
    switch (v) {
    case HW_LEAK_LIKELY:
        return "likely leak";
    case HW_LEAK_GROWING:
        return "growing";
    case HW_LEAK_CACHE_LIKE:
        return "cache-like";
    case HW_LEAK_START_UP:
        return "start-up";
    case HW_LEAK_CHURN:
        return "churn";
    case HW_LEAK_NO_TREND:
        return "no trend";
    case HW_LEAK_TOO_LITTLE:
        return "not enough data";
    case HW_LEAK_VERDICT_COUNT:
        break;
    }
    return "";
}
