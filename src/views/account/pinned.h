/*
 * pinned.h - the allocator's free memory: on pages that live blocks pin, and whole pages
 *
 * Why:     pinned memory is only returned once the blocks are freed; whole pages by malloc_trim,
 *          too.
 * Shapes:  the heap malloc.pinned (record --pinned) has pinned memory by callstack; whole pages are
 *          the rest of the account's free memory. The measurement nearest to the account's reading
 *          counts. If it is not of the same moment, `whole` is unknown; the same moment means
 *          within 60 ms, or without any allocation or free in between. In a sampled recording,
 *          pinned is an estimate with an error, and so is `whole`.
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
    double error;  /* of that: two standard errors; 0: all blocks were known */
    double missed; /* share of the blocks on pages that could not be read */
    uint64_t interval_bytes;
    double whole;     /* free, in pages without a live block; < 0 = unknown */
    hw_values values; /* what each callstack pins */
    hw_values live;   /* what was live there then: the account may be of another moment */
};

int hw_pinned_find(const struct hw_profile *p, const struct hw_series_list *list, hw_upid upid,
                   const struct hw_memory_parts *m, struct hw_pinned *out);
void hw_pinned_done(struct hw_pinned *x);

#endif
