/*
 * series.h - which dumps a profile has, heap by heap
 *
 * Why:     a reader asks "what did this heap look like over time"; the trace has a flat list of
 * dumps in which checkpoints, peaks and several dumps of one moment are mixed. Shapes:  a series is
 * one heap of one process. `all` holds the dumps whose rows add up (everything but peaks) in order
 * of time; `shown` those of them a reader is shown: the last of each moment, and a checkpoint only
 * when it is the series' end. `peaks` holds dumps made of a maximum (HW_DUMP_AT_MAX): each stands
 * alone, its rows are the live values of that moment. A dump that says only "rejected" has no
 * values and is in none of them. Units:   ids are indices into hw_profile.dumps. Owns:    its
 * lists, nothing of the profile. Errors:  HW_ENOMEM. Cost:    O(dumps × series); a profile has few
 * series. Threads: pure; the profile must be frozen.
 */
#ifndef HW_VIEWS_SERIES_H
#define HW_VIEWS_SERIES_H

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "model/ids.h"
#include "model/profile.h"

typedef HW_VEC(uint32_t) hw_dump_list;

struct hw_series {
    hw_upid upid;
    hw_str_id heap_name;
    hw_dump_list all, shown, peaks;
};

struct hw_series_list {
    HW_VEC(struct hw_series) v; /* in order of first appearance */
};

/* One profile as other tools see it: a moment of a series. */
struct hw_moment {
    uint32_t series; /* index into the list */
    uint32_t dump;
};

typedef HW_VEC(struct hw_moment) hw_moment_list;

int hw_series_list_init(struct hw_series_list *list, const struct hw_profile *p);
void hw_series_list_done(struct hw_series_list *list);

/* All shown dumps and peaks of all series in order of time, then process, then series. */
int hw_moments(const struct hw_profile *p, const struct hw_series_list *list, hw_moment_list *out);

#endif
