/*
 * pinned.h - free memory of the allocator, divided: on pages that live blocks pin, and in whole pages
 *
 * Why:     the first kind no call returns, only the blocks' end; the second one malloc_trim returns.
 * Shapes:  the heap malloc.pinned (record --pinned) has the first kind by callstack; the second is what it
 *          leaves of the account's free memory. Of measurements the one next to the account's reading counts; of
 *          one that is not of the same moment the rest is not told (whole < 0): both within 60 ms, or with no
 *          allocation and no free in between.
 *          Of a recording that is sampled, pinned is an estimate with an error, and so is what it leaves.
 * Units:   bytes.
 * Owns:    values, live; hw_pinned_done frees them.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND: it was not measured.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/accounting.md
 */
#ifndef HW_VIEWS_ACCOUNT_PINNED_H
#define HW_VIEWS_ACCOUNT_PINNED_H

#include <stdint.h>

#include "views/account/memory_parts.h"
#include "views/time/series.h"
#include "views/time/values.h"

struct hw_pinned {
    int64_t ts_ns; /* of the measurement */
    double pinned; /* by live blocks */
    double error;  /* of that: two standard errors; 0: every block was known */
    double missed; /* of a sample: the share of its blocks on pages that could not be looked at */
    uint64_t interval_bytes;
    double whole;     /* free, in pages without a live block; < 0 = not known */
    hw_values values; /* what each callstack pins */
    hw_values live;   /* what was live there then: the account may be of another moment */
};

int hw_pinned_find(const struct hw_profile *p, const struct hw_series_list *list, hw_upid upid,
                   const struct hw_memory_parts *m, struct hw_pinned *out);
void hw_pinned_done(struct hw_pinned *x);

#endif
