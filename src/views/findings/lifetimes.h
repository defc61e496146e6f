/*
 * lifetimes.h - how long allocations lived, as far as dumps can tell
 *
 * Why:     code that frees at once costs time, code that keeps memory costs memory; a table of
 *          bytes does not show the difference. A trace has no times of frees, but sums at each
 *          dump, which limit what can have happened in between.
 * Shapes:  one row per allocating function. The mean lifetime is the area below its curve of live
 *          bytes divided by the bytes it allocated (Little's law): a mean over bytes, of the time
 *          within the recording. What is still live counts up to the last dump, so the true mean is
 *          at least that. Between dumps the curve is a straight line. Temporary: bytes allocated
 *          and freed between two consecutive dumps. At least: what was freed beyond all that was
 *          live at the first. At most: as if every free were of a block allocated in between.
 *          Buckets are half decades of the mean: bucket b begins at a mean of 10^(b/2) us.
 * Units:   bytes; seconds.
 * Errors:  HW_ENOMEM.
 * Cost:    one pass over the process's rows, O(callstacks seen) for each of at most 256 dumps.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/views.md
 */
#ifndef HW_VIEWS_FINDINGS_LIFETIMES_H
#define HW_VIEWS_FINDINGS_LIFETIMES_H

#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"

struct hw_functions;
struct hw_profile;
struct hw_series_list;
struct hw_stack_mask;

#define HW_LIFETIME_BUCKETS 24u /* 1 us to some 3 days; the last one takes all above */

struct hw_lifetime {
    uint32_t function;
    int64_t alloc_space, alloc_objects, space; /* at the last dump */
    double mean_lifetime_s;
    double temporary_least, temporary_most; /* bytes */
    uint8_t bucket;
};

struct hw_lifetimes {
    HW_VEC(struct hw_lifetime) v; /* by descending alloc_space */
    double bytes[HW_LIFETIME_BUCKETS];
    double step_s; /* mean time between two dumps: the resolution of "temporary" */
    size_t n_dumps;
};

struct hw_lifetimes_query {
    const struct hw_profile *p;
    const struct hw_series_list *list;
    const struct hw_functions *fns;
    hw_upid upid;
    hw_str_id heap_name;        /* 0 = all heaps */
    int64_t start_ns;           /* of the recording: everything was 0 then */
    struct hw_stack_mask *mask; /* NULL = every callstack */
};

int hw_lifetimes_find(const struct hw_lifetimes_query *q, struct hw_lifetimes *out);
void hw_lifetimes_done(struct hw_lifetimes *l);
/* The lower bound of a bucket in seconds. */
double hw_lifetime_bucket_s(unsigned bucket);

#endif
