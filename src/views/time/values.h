/*
 * values.h - what each callstack holds and has allocated at one dump, with its error
 *
 * Why:     the model stores changes; readers ask for values. A running sum adds the changes up dump
 *          after dump, so that all dumps of a trace cost one pass over its rows.
 * Shapes:  space, objects: live. alloc_space, alloc_objects: everything ever asked for, what was
 *          freed again included. objects are the unbiased estimate where the trace carries it,
 *          samples and alloc_samples always the recorded allocations behind the figures.
 * Units:   bytes, counts; variances in their squares.
 * Errors:  HW_ENOMEM; HW_EINVAL when a sum is asked to go back.
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
    HW_METRIC_COUNT
};

struct hw_value {
    int64_t space, objects, alloc_space, alloc_objects;
    int64_t samples, alloc_samples; /* recorded allocations: live, ever */
    int64_t idle;     /* live bytes untouched since the dump before; 0 = not recorded */
    int64_t rounding; /* what the allocator adds to space; 0 also where it is not recorded */
    double variance;  /* of space; 0 = exact */
    /* The same of the others, unless some of what is in here comes from a trace without them. */
    float variance_objects, variance_alloc_space, variance_alloc_objects;
    float variance_rounding;
    bool lacks_variances;
    /* Of processes chosen by chance: every figure x has x² times this more. It is no part of the
     * variances above, as all callstacks have it in common. */
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
/* Adds the series' dumps up to and with `dump` (one of s->all; equal or later than before). */
int hw_sum_advance(struct hw_sum *t, uint32_t dump);
/* Every callstack with a row so far, sorted by callsite, also those whose values are 0 by now. */
int hw_sum_values(const struct hw_sum *t, hw_values *out);
struct hw_value hw_sum_total(const struct hw_sum *t);

/*
 * For moving back and forth: from now on copies of the sum are kept as it grows, up to this many
 * bytes in all. Going back then costs the rows since the previous copy.
 */
void hw_sum_keep_marks(struct hw_sum *t, size_t max_bytes);
/* Moves the sum to `dump`, earlier or later. After an error it is unusable. */
int hw_sum_seek(struct hw_sum *t, uint32_t dump);
size_t hw_sum_bytes(const struct hw_sum *t);
/* The callstacks with a row so far, in order of their first: the i-th is the same wherever the sum
 * stands. */
size_t hw_sum_count(const struct hw_sum *t);
struct hw_callsite_value hw_sum_get(const struct hw_sum *t, size_t i);

/* The same for one dump in one call, peaks included. */
int hw_values_at(const struct hw_profile *p, const struct hw_series *s, uint32_t dump,
                 hw_values *out);

void hw_value_add(struct hw_value *to, const struct hw_value *v);
/* Leaves what came since `before`; what shrank is 0, variances add. */
void hw_value_since(struct hw_value *now, const struct hw_value *before);
/* In every metric: such a callstack is in no graph. */
bool hw_value_is_zero(const struct hw_value *v);
int64_t hw_value_get(const struct hw_value *v, enum hw_metric m);
/* Recorded allocations behind a metric. */
int64_t hw_value_samples(const struct hw_value *v, enum hw_metric m);
/* Variance of space, a byte: the interval where all was sampled, 0 where all is exact. */
double hw_value_step(const struct hw_value *v, uint64_t interval_bytes);
/* Half the width of the 95 % interval (two standard errors), in the metric's unit.
 * interval: bytes between samples; at 1 everything is exact. */
double hw_value_error(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes);
/* Fewer than ten samples make the figure, or few of many that weigh most: an order of magnitude. */
bool hw_value_is_rough(const struct hw_value *v, enum hw_metric m, uint64_t interval_bytes);
/* As hw_value_error knows it; < 0: it does not, and estimates. */
double hw_value_variance(const struct hw_value *v, enum hw_metric m);

const char *hw_metric_name(enum hw_metric m); /* "space", … */
/* Name → metric; false when there is none of that name. */
bool hw_metric_find(const char *name, enum hw_metric *out);

#endif
