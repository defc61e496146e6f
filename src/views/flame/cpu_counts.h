/*
 * cpu_counts.h - how often each callstack was seen executing
 *
 * Owns:    nothing.
 * Errors:  HW_ENOMEM.
 * Cost:    O(samples + callsites).
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/sql.md, "CPU samples"
 */
#ifndef HW_VIEWS_FLAME_CPU_COUNTS_H
#define HW_VIEWS_FLAME_CPU_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"
#include "views/flame/native_tree.h"

struct hw_cpu_query {
    int64_t from_ns, to_ns;  /* both times included */
    const int64_t *times_ns; /* only samples of these times; n_times 0 = all */
    size_t n_times;
    const hw_upid *upids; /* only these processes; n_upids 0 = all */
    size_t n_upids;
};

/* The process of a sample; HW_ID_NONE when its processor was idle. */
hw_upid hw_cpu_sample_process(const struct hw_profile *p, const struct hw_cpu_sample *s);
/* Adds 1 to counts[callsite] for each selected sample with a callstack; gives how many. */
size_t hw_cpu_sample_counts(const struct hw_profile *p, const struct hw_cpu_query *q,
                            int64_t *counts);
/* The same merged as native_tree.h merges allocations; count and size are numbers of samples. */
int hw_cpu_tree_build(const struct hw_profile *p, const struct hw_cpu_query *q, const char *focus,
                      hw_native_tree *out);

#endif
