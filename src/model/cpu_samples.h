/*
 * cpu_samples.h - CPU samples of threads, and the counters that triggered them
 *
 * Why:     a CPU profiler writes its samples with the same callstacks into the same trace.
 * Shapes:  a session is one writer of samples; it counts one event that triggers them (the
 *          timebase) and others as well; a track is one of these on one processor. Samples and
 *          counts are in the order of their times once the profile is frozen.
 * Owns:    its rows; strings and callstacks belong to the profile.
 * Errors:  HW_ENOMEM.
 * Source:  doc/formats/trace.md, "CPU samples"; proto/perf.proto
 */
#ifndef HW_MODEL_CPU_SAMPLES_H
#define HW_MODEL_CPU_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"

struct hw_cpu_sample {
    int64_t ts_ns;
    hw_callsite_id callsite; /* HW_ID_NONE: no stack was taken */
    uint32_t thread;         /* row + 1 of the profile's threads; 0 = an idle processor */
    uint32_t cpu, session;
    uint8_t mode, unwind_error; /* Profiling.CpuMode, Profiling.StackUnwindError; 0, 1 = none */
    uint32_t counter_set;       /* HW_ID_NONE: without counters */
};

struct hw_cpu_track {
    uint32_t session, cpu;
    hw_str_id name;
    bool is_timebase;
};

struct hw_cpu_count {
    int64_t ts_ns;
    uint32_t track, set; /* set: the counters of one sample; in order from 0 once frozen */
    double value;
};

struct hw_cpu_samples {
    HW_VEC(struct hw_cpu_sample) samples;
    HW_VEC(struct hw_cpu_track) tracks;
    HW_VEC(struct hw_cpu_count) counts;
    uint32_t n_sessions, n_sets;
};

void hw_cpu_samples_done(struct hw_cpu_samples *c);
int hw_cpu_samples_sort(struct hw_cpu_samples *c);
/* "user", "kernel"…; "unknown" for invalid numbers. */
const char *hw_cpu_mode_name(uint8_t mode);
/* NULL when there was none. */
const char *hw_unwind_error_name(uint8_t unwind_error);

#endif
