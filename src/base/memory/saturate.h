/*
 * saturate.h - sums and products that stop at the ends of the range
 *
 * Why:     figures and times come from files; what they add up to need not fit.
 */
#ifndef HW_BASE_MEMORY_SATURATE_H
#define HW_BASE_MEMORY_SATURATE_H

#include <stdint.h>

static inline int64_t hw_sat_add(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

static inline int64_t hw_sat_sub(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_sub_overflow(a, b, &r))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return r;
}

static inline int64_t hw_sat_mul(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return r;
}

/* Whole; what is no number is 0. */
static inline uint64_t hw_sat_uint(double v)
{
    return !(v > 0) ? 0 : v < 0x1p64 ? (uint64_t)v : UINT64_MAX;
}

#endif
