/*
 * The cost of small allocations is inversely proportional to the interval, that of large ones
 * (above the interval) is not: the interval is doubled as often as small ones would need, but at
 * most MAX_STEP times before the next window shows the effect. Halving at most doubles the cost, so
 * it is done after CHEAP_WINDOWS windows below half the limit.
 */
#include "record/web/continuous_guard.h"

#include "base/banned.h"

enum { MAX_STEP = 6, MAX_DOUBLINGS = 20, CHEAP_WINDOWS = 2 };

void hw_continuous_guard_begin(struct hw_continuous_guard *g)
{
    g->doublings = g->n_cheap = 0;
    g->at_ns = g->spent_ns = 0;
}

static bool raise_interval(struct hw_continuous_guard *g, uint64_t spent, uint64_t allowed)
{
    uint32_t before = g->doublings;
    g->n_cheap = 0;
    for (unsigned n = 0; n < MAX_STEP && spent > allowed && g->doublings < MAX_DOUBLINGS; n++) {
        g->doublings++;
        spent /= 2;
    }
    return g->doublings != before;
}

static bool lower_interval(struct hw_continuous_guard *g, uint64_t spent, uint64_t allowed)
{
    g->n_cheap = g->doublings && spent < allowed / 4 ? g->n_cheap + 1 : 0;
    if (g->n_cheap < CHEAP_WINDOWS)
        return false;
    g->n_cheap = 0;
    g->doublings--;
    return true;
}

bool hw_continuous_guard_step(struct hw_continuous_guard *g, uint64_t now_ns, uint64_t spent_ns)
{
    uint64_t took = now_ns - g->at_ns, spent = spent_ns - g->spent_ns;
    bool is_first = g->at_ns == 0 || spent_ns < g->spent_ns;
    if (g->max_ppm == 0 || (!is_first && took < g->window_ns))
        return false;
    g->at_ns = now_ns;
    g->spent_ns = spent_ns;
    uint64_t allowed = took / 1000000 * g->max_ppm;
    if (is_first)
        return false;
    return spent > allowed ? raise_interval(g, spent, allowed) : lower_interval(g, spent, allowed);
}
