/*
 * sites.h - the allocating functions, ranked, and the history of each
 *
 * Why:     the answer to "who holds my memory" is the code that allocated it, not malloc.
 * Shapes:  one row per site function (functions.h). A table is filled with the values of up to
 *          three moments: now, the previous dump, the peak.
 * Owns:    its rows.
 * Errors:  HW_ENOMEM.
 * Cost:    add O(callstacks); rank O(n log n); history one pass over the process's rows.
 */
#ifndef HW_VIEWS_FINDINGS_SITES_H
#define HW_VIEWS_FINDINGS_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/flame/functions.h"
#include "views/time/process_view.h"
#include "views/time/series.h"
#include "views/time/values.h"

struct hw_site {
    uint32_t function;
    struct hw_value now;
    int64_t before_space; /* live at the previous dump */
    struct hw_value peak; /* at the peak */
    uint32_t callsite;    /* its largest callstack now */
    int64_t callsite_space;
};

typedef HW_VEC(struct hw_site) hw_sites;

enum hw_sites_moment { HW_SITES_NOW, HW_SITES_BEFORE, HW_SITES_PEAK };

int hw_sites_init(hw_sites *s, const struct hw_functions *fns);
void hw_sites_add(hw_sites *s, const struct hw_functions *fns, const hw_values *values,
                  enum hw_sites_moment moment);
/* Drops empty rows and sorts by descending metric, then function id. Nothing may be added later. */
void hw_sites_rank(hw_sites *s, enum hw_metric by);

/* The first n_sites rows at each of v->moments: [site * v->moments.n + moment]; the caller zeroes
 * it. */
struct hw_sites_history {
    double *live;     /* bytes */
    double *turnover; /* bytes allocated and freed until then (trend.h) */
};

int hw_sites_history(const struct hw_profile *p, const struct hw_series_list *list,
                     const struct hw_functions *fns, const struct hw_process_view *v,
                     const hw_sites *s, size_t n_sites, const struct hw_sites_history *out);

#endif
