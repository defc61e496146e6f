/*
 * profile_sum.h - profiles added up, or subtracted from each other, by callstack
 *
 * Why:     files of different formats, processes of one name, two snapshots of one process: the
 *          same stack in two profiles is one stack of the sum.
 * Shapes:  a part is the last moment of a process (its peak if there is nothing else). It is added
 *          (ADD), subtracted (TAKE), or the base of what is added (BASE): then its allocations are
 *          subtracted, and what it held is returned separately. Differences may be negative;
 *          variances add up. If a process was chosen by chance and counts for others, they include
 *          the variance of the choice (doc/design/estimates.md).
 * Owns:    the profile with the stacks, and the values; parts are only read.
 * Errors:  HW_ENOMEM, HW_ELIMIT; after an error the sum can only be freed.
 * Cost:    O(frames + callstacks) per part.
 */
#ifndef HW_VIEWS_TIME_PROFILE_SUM_H
#define HW_VIEWS_TIME_PROFILE_SUM_H

#include <stddef.h>
#include <stdint.h>

#include "model/ids.h"
#include "model/profile.h"
#include "views/time/values.h"

struct hw_profile_sum {
    struct hw_profile *p;
    struct hw_value *v, *base; /* by callsite of p */
    size_t n;
    uint64_t interval_bytes; /* the largest; 1 before the first part */
};

struct hw_profile_sum_part {
    const struct hw_profile *p;
    hw_upid upid;     /* HW_ID_NONE: all processes */
    const char *heap; /* NULL: all heaps */
    uint32_t share;   /* ADD: it was chosen by chance, one of 2^share, and counts 2^share times */
    enum hw_profile_sum_role { HW_PROFILE_SUM_ADD, HW_PROFILE_SUM_TAKE, HW_PROFILE_SUM_BASE } role;
};

int hw_profile_sum_init(struct hw_profile_sum *b);
void hw_profile_sum_done(struct hw_profile_sum *b); /* accepts a zeroed one */
int hw_profile_sum_add(struct hw_profile_sum *b, const struct hw_profile_sum_part *part);
/* After the last part: freezes p; rows that are all zero are left out. base: what the base held, in
 * rows of the same callstacks; NULL = not wanted. */
int hw_profile_sum_values(struct hw_profile_sum *b, hw_values *out, hw_values *base);

#endif
