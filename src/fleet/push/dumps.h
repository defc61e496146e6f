/*
 * dumps.h - the dumps of a profile in the form that stores take, each with its time
 *
 * Shapes:  in order of time. Allocations (alloc_space, alloc_objects, alloc_samples) are since the
 *          previous dump of the same heap, live memory is as it was. Dumps of a maximum are left
 *          out: they would weigh as much as a regular one. So is the base of a period, which was
 *          the end of the previous period. Of several dumps of a heap within a second only the
 *          last one is kept, as rows have their time in seconds.
 * Units:   wall_ns since 1970.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND: the profile has no heap dump; HW_EINVAL: its time of recording
 *          is unknown; what `visit` returns.
 */
#ifndef HW_FLEET_PUSH_DUMPS_H
#define HW_FLEET_PUSH_DUMPS_H

#include <stdint.h>

#include "model/profile.h"
#include "views/time/values.h"

struct hw_error;

struct hw_fleet_dump {
    const struct hw_heap_dump *dump;
    int64_t wall_ns;
    int64_t since_ns;        /* the previous dump, or the start of the recording */
    const hw_values *values; /* by callsite; borrowed for the call */
};

struct hw_fleet_dumps {
    const int64_t *wall_ns; /* of the last dump, for a profile without wall time; NULL */
    int (*visit)(void *ctx, const struct hw_fleet_dump *d, struct hw_error *err);
    void *ctx;
};

int hw_fleet_dumps_visit(const struct hw_profile *p, const struct hw_fleet_dumps *o,
                         struct hw_error *err);

#endif
