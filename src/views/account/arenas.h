/*
 * arenas.h - the arenas of glibc's malloc at a reading: what each has in use, free and cached
 *
 * Why:     "free inside the allocator" is one sum. Memory in the free lists of many arenas, in
 *          threads' caches and in whole pages comes back by different settings.
 * Shapes:  rows of the reading nearest to the moment, as arenas are not read each time; the main arena first. Sums are of the known ones only; n_unknown of
 *          them lack all figures but what they have from the system.
 * Units:   bytes. free_resident: free lists, tops and fastbins of an arena, as far as it is in memory.
 * Owns:    nothing: rows are the profile's.
 * Errors:  none; n == 0: the trace has none of this reading.
 * Threads: pure; the profile must be frozen.
 * Source:  proc/heaps/glibc_arenas.h; doc/design/accounting.md
 */
#ifndef HW_VIEWS_ACCOUNT_ARENAS_H
#define HW_VIEWS_ACCOUNT_ARENAS_H

#include <stdbool.h>
#include <stddef.h>

#include "model/profile.h"

struct hw_arenas {
    const struct hw_malloc_arena *v; /* borrowed */
    size_t n, n_unknown;
    int64_t ts_ns;
    struct hw_malloc_arena sum; /* of all that are known */
    double free_resident;       /* likewise */
    double most_free_resident;  /* of one of them */
};

void hw_arenas_find(const struct hw_profile *p, hw_upid upid, int64_t ts_ns, struct hw_arenas *out);

/* Several, or so much that is not in use that it is worth a table. */
bool hw_arenas_are_worth_a_table(const struct hw_arenas *a);
/* rows: room for a->n; the arena with the most that is not in use first. */
void hw_arenas_by_unused(const struct hw_arenas *a, const struct hw_malloc_arena **rows);

/* Why an arena's figures are not known; "" = they are. */
const char *hw_arena_why(const struct hw_malloc_arena *a);

#endif
