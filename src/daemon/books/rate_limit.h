/*
 * rate_limit.h - rate limit for work that a target can cause: a burst, then a share of the time
 *
 * Why:     one main thread serves all targets. Work that grows with what a target has is repeated
 *          only after a rest of a multiple of the time it took.
 * Units:   nanoseconds.
 * Threads: the owner's.
 */
#ifndef HW_DAEMON_BOOKS_RATE_LIMIT_H
#define HW_DAEMON_BOOKS_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct hw_rate_limit {
    uint64_t at_ns;   /* the last work */
    uint64_t debt_ns; /* the rest that was earned up to then */
};

static inline uint64_t hw_rate_limit_debt(const struct hw_rate_limit *r, uint64_t now)
{
    uint64_t rested = now > r->at_ns ? now - r->at_ns : 0;
    return r->debt_ns > rested ? r->debt_ns - rested : 0;
}

static inline void hw_rate_limit_earn(struct hw_rate_limit *r, uint64_t now, uint64_t rest_ns)
{
    r->debt_ns = hw_rate_limit_debt(r, now) + rest_ns;
    r->at_ns = now;
}

#endif
