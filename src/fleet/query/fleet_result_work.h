/*
 * fleet_result_work.h - the state of building an answer
 */
#ifndef HW_FLEET_QUERY_FLEET_RESULT_WORK_H
#define HW_FLEET_QUERY_FLEET_RESULT_WORK_H

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "fleet/query/fleet_result.h"

struct hw_rows;

struct hw_fleet_result_sum {
    uint32_t step;
    uint64_t stack;
    int64_t space, objects, alloc_space, alloc_objects; /* of all rows */
    double variance, variance_objects, variance_alloc_space, variance_alloc_objects;
    hw_callsite_id callsite;
};

typedef HW_VEC(struct hw_fleet_result_sum) hw_fleet_result_sums;

struct hw_fleet_result_work {
    const struct hw_fleet_source *from;
    const struct hw_fleet_where *w;
    struct hw_fleet_result *out;
    struct hw_error *err;
    struct hw_profile *p;
    struct hw_strbuf reply;
    hw_fleet_result_sums sums;
    struct hw_map64 callsites; /* hash of a callstack -> callsite; absent: unknown */
    hw_callsite_id rest;       /* for callstacks beyond the limit */
    HW_VEC(hw_frame_id) path;
    HW_VEC(struct hw_fleet_counts) steps; /* by step; n_dumps 0: nothing was recorded */
    double carry[2];                      /* rounding errors carried on: bytes, objects */
};

int hw_fleet_result_end_profile(struct hw_fleet_result_work *k);
int hw_fleet_result_no_rows(const struct hw_fleet_result_work *k);
double hw_fleet_result_mean_variance_alloc(double sum, double n);
int hw_fleet_result_finish(struct hw_fleet_result_work *k, int rc);
int hw_fleet_result_add_dump(struct hw_fleet_result_work *k, int64_t ts_s, uint32_t interval);
/* Queries the sums of `ask`, begins a profile, and adds their callstacks. */
int hw_fleet_result_get_stacks(struct hw_fleet_result_work *k,
                               const struct hw_fleet_query_args *ask);
int hw_fleet_result_by_stack(const void *a, const void *b);
int64_t hw_fleet_result_samples_of(double space, double variance, int64_t objects);
double hw_fleet_result_mean_variance(double sum, const struct hw_fleet_counts *n);
struct hw_fleet_counts hw_fleet_result_read_counts(struct hw_rows *r);
int64_t hw_fleet_result_round(double v);

#endif
