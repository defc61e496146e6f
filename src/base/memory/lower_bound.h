/*
 * lower_bound.h - binary search
 *
 * Shapes:  the first i of [from, until) for which is_before, an expression of i, does not hold;
 *          until when it holds for all. It holds for those in front of that one and for none behind.
 * Cost:    O(log(until - from)).
 */
#ifndef HW_BASE_MEMORY_LOWER_BOUND_H
#define HW_BASE_MEMORY_LOWER_BOUND_H

#include <stddef.h>

#define HW_LOWER_BOUND(i, from, until, is_before)                                                  \
    __extension__({                                                                                \
        size_t low_ = (from), high_ = (until);                                                     \
        while (low_ < high_) {                                                                     \
            size_t i = low_ + (high_ - low_) / 2;                                                  \
            if (is_before)                                                                         \
                low_ = i + 1;                                                                      \
            else                                                                                   \
                high_ = i;                                                                         \
        }                                                                                          \
        low_;                                                                                      \
    })

#endif
