/*
 * profile_sum.h - several profiles added up, or one taken from another, by callstack
 *
 * Why:     files of different formats, processes of one name, two snapshots of one process: the
 *          same stack in two profiles is one stack of the sum.
 * Shapes:  of a part counts the last moment of a process (its peak when there is nothing else). It
 *          is added, or taken away, or is the base of what is added: its allocations are taken
 *          away, what it held is told beside. Differences may be negative; variances add up. Of a
 *          process that stands for others by chance they include what chance adds (doc/design/estimates.md).
 * Owns:    the profile that holds the stacks, and the values; parts are only read.
 * Errors:  HW_ENOMEM, HW_ELIMIT; the blend can only be freed then.
 * Cost:    O(frames + callstacks) a part.
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
    uint32_t share;   /* ADD: it was chosen by chance, one of 2^share, and counts as many times */
    enum hw_profile_sum_role { HW_PROFILE_SUM_ADD, HW_PROFILE_SUM_TAKE, HW_PROFILE_SUM_BASE } role;
};

int hw_profile_sum_init(struct hw_profile_sum *b);
void hw_profile_sum_done(struct hw_profile_sum *b); /* also of one that is all zero */
int hw_profile_sum_add(struct hw_profile_sum *b, const struct hw_profile_sum_part *part);
/* After the last part: freezes p; rows that are all zero are left out. base: what the base held,
 * row by row of the same callstacks; NULL = not wanted. */
int hw_profile_sum_values(struct hw_profile_sum *b, hw_values *out, hw_values *base);

#endif
