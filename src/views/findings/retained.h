/*
 * retained.h - what was allocated between two dumps and still lives at the second
 *
 * Why:     shows how much of what was allocated in an interval of the timeline was kept.
 * Shapes:  one figure for each shown dump of a series: the growth since the dump before, callstack
 *          by callstack, those that shrank as 0. That is the least it can be: a trace tells how
 *          much of a callstack was freed, not when that had been allocated. It is what span.h has
 *          for the same stretch of time.
 * Units:   bytes.
 * Errors:  HW_ENOMEM.
 * Cost:    one pass over the series's rows; 8 bytes a callsite meanwhile.
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/pages.md, "Endpoints"
 */
#ifndef HW_VIEWS_FINDINGS_RETAINED_H
#define HW_VIEWS_FINDINGS_RETAINED_H

#include <stdint.h>

#include "base/memory/vec.h"
#include "views/time/series.h"

typedef HW_VEC(int64_t) hw_retained;

/* out: begins empty; one figure for each of s->shown. */
int hw_retained_of(const struct hw_profile *p, const struct hw_series *s, hw_retained *out);

#endif
