/*
 * tally.h - totals per callsite of one heap, as the trace shows them
 *
 * Why:     a feed counts per stack number; two of them may be one callstack (the same code mapped
 *          again), and each dump only brings what changed. Here they are added up.
 * Shapes:  rows dense from 0 in order of first sight; `touched` lists those changed since the last
 *          hw_tally_clear_touched. Values only grow.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_DAEMON_TALLY_H
#define HW_DAEMON_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map64.h"
#include "base/vec.h"
#include "daemon/books.h"
#include "model/ids.h"

struct hw_tally_row {
    hw_callsite_id callsite;
    bool touched;
    struct hw_totals t;
};

struct hw_tally {
    HW_VEC(struct hw_tally_row) rows;
    HW_VEC(uint32_t) touched;
    struct hw_map64 by_callsite;
    HW_VEC(struct hw_totals) stacks; /* by stack number: what was added for it */
};

void hw_tally_done(struct hw_tally *t);
/* Replaces what stack adds to its callsite. */
int hw_tally_set(struct hw_tally *t, uint32_t stack, hw_callsite_id callsite,
                 const struct hw_totals *now);
size_t hw_tally_bytes(const struct hw_tally *t); /* of memory */
void hw_tally_clear_touched(struct hw_tally *t);

#endif
