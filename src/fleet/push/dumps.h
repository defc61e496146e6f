/*
 * dumps.h - the dumps of a profile as a store wants them: one after the other, each with its time
 *
 * Shapes:  in order of time. What was asked for (alloc_space, alloc_objects, alloc_samples) counts
 *          from the dump before of the same heap, what is held is what was held. Dumps made of a
 *          maximum are left out: they would weigh as much as a regular one. So is the base of a
 *          period: it was told as the end of the period before. Of several dumps of a
 *          heap within a second the last one stays, as the time of a row is in seconds.
 * Units:   wall_ns since 1970.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND when the profile has no heap dump; HW_EINVAL when it does not
 *          say when it was recorded; what `visit` returns.
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
    int64_t since_ns;        /* of the dump before; of the recording's begin at the first */
    const hw_values *values; /* by callsite; borrowed for the call */
};

struct hw_fleet_dumps {
    const int64_t *wall_ns; /* of the last dump, for a profile that does not say; NULL */
    int (*visit)(void *ctx, const struct hw_fleet_dump *d, struct hw_error *err);
    void *ctx;
};

int hw_fleet_dumps_visit(const struct hw_profile *p, const struct hw_fleet_dumps *o,
                         struct hw_error *err);

#endif
