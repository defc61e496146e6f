/*
 * clock.h - the clocks a trace speaks of, in ns
 */
#ifndef HW_BASE_CLOCK_H
#define HW_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t hw_clock_ns(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts); /* cannot fail for the fixed ids used here */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#define hw_now_boottime_ns()         hw_clock_ns(CLOCK_BOOTTIME)
#define hw_now_monotonic_ns()        hw_clock_ns(CLOCK_MONOTONIC)
#define hw_now_monotonic_coarse_ns() hw_clock_ns(CLOCK_MONOTONIC_COARSE)

#endif
