/*
 * parts_series.h - the account over time, and which of its parts grow
 *
 * Why:     a process that grows while its live heap does not leaks elsewhere: free memory between
 *          blocks that stay, mappings, stacks, files. Verdicts on sites cannot see that.
 * Shapes:  a point for each reading by owner, at most HW_PARTS_POINTS of them, chosen evenly with
 *          the first and the last. A part grows when all of this holds: at least HW_PARTS_LEAST
 *          readings; the trend is "growing" (findings/trend.h: not flat since the start, nor in the
 *          last third); Mann-Kendall tau > 0.7, p < 0.05; the growth exceeds 1 MiB, a twentieth of
 *          resident memory, and twice the error of the live bytes if the part depends on them. Live
 *          memory and rounding have no verdict here (leaks.h has one by site), nor has the
 *          profiler's memory.
 * Units:   bytes, resident; seconds since the first reading.
 * Owns:    v; hw_parts_series_done frees it.
 * Errors:  HW_ENOMEM. Without readings there are no points.
 * Cost:    HW_PARTS_POINTS passes over the process's rows.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/accounting.md
 */
#ifndef HW_VIEWS_FINDINGS_PARTS_SERIES_H
#define HW_VIEWS_FINDINGS_PARTS_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/account/memory_parts.h"
#include "views/time/process_view.h"

#define HW_PARTS_POINTS 64u
#define HW_PARTS_LEAST  6u

struct hw_parts_point {
    int64_t ts_ns;
    double rss, live_error;
    double parts[HW_PART_COUNT];
};

struct hw_parts_growth {
    bool grows;
    double grown; /* last minus first */
    double slope; /* bytes a second */
    double tau, p;
};

struct hw_parts_series {
    HW_VEC(struct hw_parts_point) v;
    struct hw_parts_growth growth[HW_PART_COUNT];
};

int hw_parts_series_find(const struct hw_profile *p, const struct hw_series_list *list,
                         const struct hw_process_view *view, struct hw_parts_series *out);
void hw_parts_series_done(struct hw_parts_series *s);

#endif
