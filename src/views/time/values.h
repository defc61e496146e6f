/*
 * values.h - what each callstack holds and has allocated at one dump, with its error
 *
 * Why:     the model stores changes; readers ask for values. A running sum adds the changes up dump
 *          after dump, so that all dumps of a trace cost one pass over its rows.
 * Shapes:  space, objects: live. alloc_space, alloc_objects: everything ever asked for,
 *          including what was freed; temporary_space, temporary_objects: of that what was freed again
 *          within a second, 0 also where no dump knows it. objects are the unbiased estimate if the trace has it, samples
 *          and alloc_samples always the recorded allocations behind the figures.
 * Units:   bytes, counts; variances in their squares.
 * Errors:  HW_ENOMEM; HW_EINVAL when hw_sum_advance would go back.
 * Cost:    advance O(new rows); values O(callstacks seen × log) (sorted by callsite).
 * Threads: a sum has one owner; the profile must be frozen.
 * Source:  doc/design/estimates.md
 */
#ifndef HW_VIEWS_TIME_VALUES_H
#define HW_VIEWS_TIME_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/saturate.h"
#include "base/memory/vec.h"
#include "model/ids.h"
#include "model/profile.h"
#include "views/time/series.h"

enum hw_metric {
    HW_METRIC_SPACE,
    HW_METRIC_OBJECTS,
    HW_METRIC_ALLOC_SPACE,
    HW_METRIC_ALLOC_OBJECTS,
    HW_METRIC_USUAL, /* how many every trace has */
    HW_METRIC_TEMPORARY_SPACE = HW_METRIC_USUAL,
    HW_METRIC_TEMPORARY_OBJECTS,
    HW_METRIC_COUNT
};

struct hw_value {
    int64_t space, objects, alloc_space, alloc_objects;
    int64_t temporary_space, temporary_objects;
    int64_t samples, alloc_samples; /* recorded allocations: live, ever */
    int64_t idle;     /* live bytes untouched since the previous dump; 0 = not recorded */
    int64_t rounding; /* what the allocator adds to space; 0 also if it is not recorded */
    double variance;  /* of space; 0 = exact, infinite: uncertain by an unknown amount */
    /* The same for other metrics, valid unless lacks_variances: some values are of a trace
     * without. */
    float variance_objects, variance_alloc_space, variance_alloc_objects;
    float variance_rounding, variance_temporary_space, variance_temporary_objects;
    bool lacks_variances;
    bool knows_temporary; /* some dump of it does */
    /* For processes chosen by chance: the variance of every figure x is x² times this larger. It is
     * not part of the variances above, as all callstacks have it in common. */
    float choice;
};

struct hw_callsite_value {
    hw_callsite_id callsite;
    struct hw_value v;
};

typedef HW_VEC(struct hw_callsite_value) hw_values;

struct hw_sum;

int hw_sum_new(const struct hw_profile *p, const struct hw_series *s, struct hw_sum **out);
void hw_sum_free(struct hw_sum *t);
/* Adds the series' dumps up to and including `dump` (one of s->all; never an earlier one). */
int hw_sum_advance(struct hw_sum *t, uint32_t dump);
/* Every callstack with a row so far, sorted by callsite, even if its values are 0 now. */
int hw_sum_values(const struct hw_sum *t, hw_values *out);
struct hw_value hw_sum_total(const struct hw_sum *t);

/*
 * For seeking back and forth: keeps copies of the sum as it grows, up to this many bytes in all.
 * Seeking back then costs only the rows since the nearest copy.
 */
void hw_sum_keep_marks(struct hw_sum *t, size_t max_bytes);
/* Moves the sum to `dump`, earlier or later. After an error it is unusable. */
int hw_sum_seek(struct hw_sum *t, uint32_t dump);
size_t hw_sum_bytes(const struct hw_sum *t);
/* The callstacks with a row so far, in order of their first row: the i-th is the same at every
 * dump. */
size_t hw_sum_count(const struct hw_sum *t);
struct hw_callsite_value hw_sum_get(const struct hw_sum *t, size_t i);

/* The same for one dump in one call, peaks included. */
int hw_values_at(const struct hw_profile *p, const struct hw_series *s, uint32_t dump,
                 hw_values *out);

void hw_value_add(struct hw_value *to, const struct hw_value *v);
/* Subtracts `before`; what shrank is 0, variances add. */
void hw_value_since(struct hw_value *now, const struct hw_value *before);
/* The variance of what was allocated since: that of both moments' totals. Not of live figures. */
float hw_variance_since(float now, float before);
/* 0 in every metric: no graph shows such a callstack. */
bool hw_value_is_zero(const struct hw_value *v);
static inline int64_t hw_value_get(const struct hw_value *v, enum hw_metric m)
{
    switch (m) {
    case HW_METRIC_SPACE:
        return v->space;
    case HW_METRIC_OBJECTS:
        return v->objects;
    case HW_METRIC_ALLOC_SPACE:
        return v->alloc_space;
    case HW_METRIC_ALLOC_OBJECTS:
        return v->alloc_objects;
    case HW_METRIC_TEMPORARY_SPACE:
        return v->temporary_space;
    case HW_METRIC_TEMPORARY_OBJECTS:
        return v->temporary_objects;
    case HW_METRIC_COUNT:
        break;
    }
    return 0;
}
/* Recorded allocations behind a metric; of temporary ones an estimate. */
int64_t hw_value_samples(const struct hw_value *v, enum hw_metric m);
/* Variance of space per byte: the interval if all was sampled, 0 if all is exact. */
double hw_value_step(const struct hw_value *v, uint64_t interval_bytes);
/* Half the width of the 95 % interval (two standard errors), in the metric's unit.
 * interval: bytes between samples; at 1 everything is exact. Infinite: the error is unknown, as the
 * trace has a variance that is none. */
double hw_value_error(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes);
/*
 * The same of a figure that is shown by itself and added to no other: a count's has the variance of
 * one more sample. Small blocks are sampled rarely and stand for many, so that samples which
 * happened to come say too little of those that did not. Its weight is taken from all that was
 * allocated, of which more is seen: the mean of an allocation's, or the root of the mean square of
 * a sample's.
 */
double hw_figure_error(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes);
/* Based on fewer than ten samples, or dominated by a few of them: only an order of magnitude. */
bool hw_value_is_rough(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes);
/* The variance of a metric; < 0: unknown, then hw_value_error estimates. */
double hw_value_variance(const struct hw_value *v, enum hw_metric m);

/* How many of the metrics are known of it, HW_METRIC_USUAL or all; of a list: of any of them. */
static inline enum hw_metric hw_value_metrics(const struct hw_value *v)
{
    return v->knows_temporary ? HW_METRIC_COUNT : HW_METRIC_USUAL;
}
enum hw_metric hw_values_metrics(const hw_values *values);

static inline bool hw_metric_is_bytes(enum hw_metric m)
{
    return m == HW_METRIC_SPACE || m == HW_METRIC_ALLOC_SPACE || m == HW_METRIC_TEMPORARY_SPACE;
}

/* Of what is live, not of all until then. */
static inline bool hw_metric_is_live(enum hw_metric m)
{
    return m == HW_METRIC_SPACE || m == HW_METRIC_OBJECTS;
}
const char *hw_metric_name(enum hw_metric m); /* "space", … */
/* Name → metric; false when there is none of that name. "temporary" is short for temporary_space. */
bool hw_metric_find(const char *name, enum hw_metric *out);

#endif
