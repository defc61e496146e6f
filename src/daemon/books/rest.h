/*
 * rest.h - rate limit for work that a target can cause: a burst, then a share of the time
 *
 * Why:     one main thread serves all targets. Work that grows with what a target has is repeated
 *          only after a rest of a multiple of the time it took.
 * Units:   nanoseconds.
 * Threads: the owner's.
 */
#ifndef HW_DAEMON_BOOKS_REST_H
#define HW_DAEMON_BOOKS_REST_H

#include <stdbool.h>
#include <stdint.h>

struct hw_rest {
    uint64_t at_ns;   /* the last work */
    uint64_t debt_ns; /* the rest that was earned up to then */
};

static inline uint64_t hw_rest_debt(const struct hw_rest *r, uint64_t now)
{
    uint64_t rested = now > r->at_ns ? now - r->at_ns : 0;
    return r->debt_ns > rested ? r->debt_ns - rested : 0;
}

static inline void hw_rest_earn(struct hw_rest *r, uint64_t now, uint64_t rest_ns)
{
    r->debt_ns = hw_rest_debt(r, now) + rest_ns;
    r->at_ns = now;
}

#endif
