/*
 * values_by_type.h - what each (callstack, type) of a heap holds at one dump
 *
 * Why:     memory-infra breaks a heap down by two dimensions; the other views have only stacks.
 * Shapes:  a sum follows one series, dump by dump; a peak (HW_DUMP_AT_MAX) is independent. Values
 *          are self values, in no particular order, without empty rows.
 * Units:   bytes; counts as the estimate of objects.
 * Errors:  HW_ENOMEM; HW_EINVAL when a sum would go back.
 * Cost:    O(new rows) to advance, O(rows seen) to list.
 * Threads: one owner; the profile must be frozen.
 */
#ifndef HW_VIEWS_INFRA_VALUES_BY_TYPE_H
#define HW_VIEWS_INFRA_VALUES_BY_TYPE_H

#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "model/profile.h"
#include "views/time/series.h"

struct hw_value_by_type {
    hw_callsite_id callsite;
    hw_str_id type; /* 0 = not recorded */
    int64_t size, count;
};

typedef HW_VEC(struct hw_value_by_type) hw_values_by_type;

/* Zero-initialised: before the first dump. */
struct hw_type_sum {
    hw_values_by_type v;
    struct hw_map64 at; /* callsite << 32 | type → index */
    size_t n_done;      /* dumps of the series' list `all` */
};

void hw_type_sum_done(struct hw_type_sum *t);
/* out: the values at the dump, one of s->all (never an earlier one) or of s->peaks. */
int hw_type_sum_at(struct hw_type_sum *t, const struct hw_profile *p, const struct hw_series *s,
                   uint32_t dump, hw_values_by_type *out);

#endif
