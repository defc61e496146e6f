/*
 * retained.h - what was allocated between two dumps and is still live at the second
 *
 * Why:     shows how much of what was allocated in an interval of the timeline was kept.
 * Shapes:  one figure for each shown dump of a series: the sum of each callstack's growth since the
 *          previous dump, where those that shrank count as 0. This is a lower bound: a trace says
 *          how much of a callstack was freed, not when it had been allocated. span.h gives the same
 *          figures for the same time range.
 * Units:   bytes.
 * Errors:  HW_ENOMEM.
 * Cost:    one pass over the series's rows; 8 bytes per callsite meanwhile.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/pages.md, "Endpoints"
 */
#ifndef HW_VIEWS_FINDINGS_RETAINED_H
#define HW_VIEWS_FINDINGS_RETAINED_H

#include <stdint.h>

#include "base/memory/vec.h"
#include "views/time/series.h"

typedef HW_VEC(int64_t) hw_retained;

/* out: empty at first; one figure for each of s->shown. */
int hw_retained_of(const struct hw_profile *p, const struct hw_series *s, hw_retained *out);

#endif
