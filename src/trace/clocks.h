/*
 * clocks.h - converts time stamps to the trace's clock
 *
 * Why:     heap dumps carry CLOCK_MONOTONIC_COARSE; everything else of a trace is on one time axis.
 * Shapes:  add all snapshots, then convert: by the latest snapshot that has both clocks and is not
 *          after the time stamp (the earliest for older ones), via other clocks if necessary.
 * Errors:  hw_clocks_convert returns a positive enum hw_clock_failure if there is no conversion.
 * Threads: one owner at a time.
 * Source:  doc/formats/trace.md, "Clocks"
 */
#ifndef HW_TRACE_CLOCKS_H
#define HW_TRACE_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"

enum hw_clock_failure {
    HW_CLOCK_OK,
    HW_CLOCK_UNKNOWN_SOURCE,
    HW_CLOCK_UNKNOWN_TARGET,
    HW_CLOCK_NO_PATH
};

struct hw_clock_point {
    uint64_t clock; /* id, or sequence << 8 | id for 64..127 */
    uint32_t snapshot;
    int64_t ns;
};

struct hw_clock_pair {
    int64_t from_ns, to_ns;
};

/* The unit and encoding of a sequence-scoped clock's time stamps. */
struct hw_clock_scale {
    uint64_t clock;
    uint64_t unit_ns;
    bool incremental;
    int64_t last; /* incremental: the value so far, in units */
};

struct hw_clocks {
    HW_VEC(struct hw_clock_point) points; /* in order of snapshots */
    HW_VEC(struct hw_clock_scale) scales;
    uint32_t n_snapshots;
    uint32_t trace_clock; /* 0 = in no snapshot */

    uint64_t cached_from, cached_to; /* of pairs */
    HW_VEC(struct hw_clock_pair) pairs;
};

void hw_clocks_done(struct hw_clocks *c);
int hw_clocks_add(struct hw_clocks *c, struct hw_bytes snapshot, uint64_t sequence);
/* An incremental clock counts from its latest snapshot: call for each one while converting. */
void hw_clocks_pass(struct hw_clocks *c, struct hw_bytes snapshot, uint64_t sequence);
/* enum hw_clock_failure, or < 0. clock_id 0 = the trace's clock already. */
int hw_clocks_convert(struct hw_clocks *c, uint32_t clock_id, uint64_t sequence, uint64_t value,
                      int64_t *out);
uint32_t hw_clocks_trace_clock(const struct hw_clocks *c);

#endif
