/*
 * callsite_totals.h - totals per callsite of one heap, as the trace shows them
 *
 * Why:     a feed counts per stack number; two of them may be one callstack (the same code mapped
 *          again), and each dump only brings what changed. Here they are added up.
 * Shapes:  rows are dense from 0 in order of appearance; `touched` lists those changed since they were
 *          last written. Values only grow.
 *          A stack's callsite is always the same.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_DAEMON_BOOKS_CALLSITE_TOTALS_H
#define HW_DAEMON_BOOKS_CALLSITE_TOTALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "daemon/books/books.h"
#include "model/ids.h"

#define HW_TOTALS_STACKS 0x3fffffffu /* more than there can be: ring_consumer.c */

struct hw_callsite_totals_row {
    hw_callsite_id callsite;
    uint32_t stack : 30; /* the first that led here; while not shared, the only one */
    uint32_t shared : 1, touched : 1;
    struct hw_totals t;
};

struct hw_callsite_totals {
    HW_VEC(struct hw_callsite_totals_row) rows;
    HW_VEC(uint32_t) touched;
    struct hw_map64 by_callsite;
    HW_VEC(struct hw_totals) parts; /* what each stack of a shared row added */
    struct hw_map64 part_of_stack;  /* index in parts */
};

void hw_callsite_totals_done(struct hw_callsite_totals *t);
/* Replaces what stack adds to its callsite. */
int hw_callsite_totals_set(struct hw_callsite_totals *t, uint32_t stack, hw_callsite_id callsite,
                           const struct hw_totals *now);
size_t hw_callsite_totals_bytes(const struct hw_callsite_totals *t); /* of memory */

#endif
