/*
 * allocs.h - the rows of heap_profile_allocation, packed
 *
 * Why:     a trace of 1 GB has 4 * 10^7 of these rows, more than of any other; as plain structs
 *          they took twice the size of the trace.
 * Shapes:  one column each, with 4 bytes per value until one does not fit, then 8. A column without
 *          information (no idle bytes, no types, no variances, no rounding, nothing temporary, counts
 *          that equal the samples) takes no memory. Which dump a row belongs to is kept per run of rows.
 * Units:   bytes; counts of allocations.
 * Owns:    its columns. Zero-initialised is empty.
 * Errors:  HW_ENOMEM from push and set: the rows are unchanged; from sort: they can only be freed.
 * Threads: one owner at a time; any number of readers once nothing is pushed any more.
 */
#ifndef HW_MODEL_ALLOCS_H
#define HW_MODEL_ALLOCS_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"

/* The change of one callsite at one dump. */
struct hw_alloc_row {
    uint32_t dump; /* index into the profile's dumps */
    hw_callsite_id callsite;
    hw_str_id type;  /* of what was allocated; 0 = not recorded */
    int64_t samples; /* recorded allocations, < 0 when freed */
    int64_t count; /* unbiased estimate of the number of allocations; = samples without estimate */
    int64_t size;  /* bytes, < 0 when freed */
    int64_t idle;  /* live bytes unused since the last dump; 0 */
    int64_t rounding; /* what the allocator adds to live bytes; the last row of a dump counts; 0 */
    double variance;  /* of the live bytes at this dump, with 24 bits; 0 = none is recorded */
    /* With HW_DUMP_ALL_VARIANCES: of the number of live allocations, and of all until this dump. */
    float variance_objects, variance_alloc_space, variance_alloc_objects;
    float variance_rounding; /* likewise; 0 = exact */
    /* With HW_DUMP_KNOWS_TEMPORARY: of what was freed, that within a second of its allocation, in one of the
     * callsite's two rows; and the variances of all of it until this dump. */
    int64_t temporary_space, temporary_objects;
    float variance_temporary_space, variance_temporary_objects;
};

struct hw_alloc_column {
    void *v;   /* owned; int32_t or int64_t. NULL: all have the column's default */
    bool wide; /* int64_t */
};

struct hw_alloc_run {
    uint32_t dump;
    size_t first; /* its rows end where the next run's begin */
};

struct hw_alloc_rows {
    size_t n, cap;
    uint32_t *callsite; /* owned */
    uint32_t *type;     /* owned; NULL: all 0 */
    float *variance;    /* owned; NULL: all 0 */
    /* Owned; all three or none (all 0). */
    float *variance_objects, *variance_alloc_space, *variance_alloc_objects;
    float *variance_rounding;                                     /* owned; NULL: all 0 */
    float *variance_temporary_space, *variance_temporary_objects; /* owned; both or none (all 0) */
    struct hw_alloc_column samples, count, size, idle, rounding, temporary_space, temporary_objects;
    HW_VEC(struct hw_alloc_run) runs;
    bool plain; /* three narrow columns, one or all variances, no idle bytes: push's fast path */
};

void hw_alloc_rows_done(struct hw_alloc_rows *a);
/* The part of hw_alloc_rows_push that is not worth inlining. */
int hw_alloc_rows_push_slow(struct hw_alloc_rows *a, const struct hw_alloc_row *row);
/* Replaces row i, except for its dump. */
int hw_alloc_rows_set(struct hw_alloc_rows *a, size_t i, const struct hw_alloc_row *row);
/* Renumbers dump d to new_index[d] and sorts the rows by the new numbers, stably. O(rows), or
 * O(dumps) if they are sorted already. */
int hw_alloc_rows_sort(struct hw_alloc_rows *a, const uint32_t *new_index);
/* The rows of one dump: [*first, *first + *n). Only after sort. O(log dumps) */
void hw_alloc_rows_of_dump(const struct hw_alloc_rows *a, uint32_t dump, size_t *first, size_t *n);
uint32_t hw_alloc_dump(const struct hw_alloc_rows *a, size_t i); /* O(log dumps) */

/*
 * A variance as rows keep it. What is no variance (not a number, negative, larger than a float can
 * be) says that the figure is uncertain, but not how much: infinite, which stays so in every sum.
 */
static inline float hw_alloc_variance_kept(double variance)
{
    if (variance > 0)
        return variance <= FLT_MAX ? (float)variance : INFINITY;
    return variance >= 0 ? 0 : INFINITY;
}

static inline bool hw_alloc_has_more(const struct hw_alloc_row *row)
{
    return row->variance_objects > 0 || row->variance_alloc_space > 0 ||
           row->variance_alloc_objects > 0;
}

static inline void hw_alloc_store_more(struct hw_alloc_rows *a, size_t i,
                                       const struct hw_alloc_row *row)
{
    a->variance_objects[i] = row->variance_objects;
    a->variance_alloc_space[i] = row->variance_alloc_space;
    a->variance_alloc_objects[i] = row->variance_alloc_objects;
}

static inline bool hw_alloc_has_temporary(const struct hw_alloc_row *row)
{
    return (row->temporary_space | row->temporary_objects) != 0;
}

static inline bool hw_alloc_has_temporary_variance(const struct hw_alloc_row *row)
{
    return row->variance_temporary_space > 0 || row->variance_temporary_objects > 0;
}

/* False: they do not fit as the columns are. */
static inline bool hw_alloc_store_temporary(struct hw_alloc_rows *a, size_t i,
                                            const struct hw_alloc_row *row)
{
    if (a->temporary_space.v && a->temporary_objects.v) {
        ((int32_t *)a->temporary_space.v)[i] = (int32_t)row->temporary_space;
        ((int32_t *)a->temporary_objects.v)[i] = (int32_t)row->temporary_objects;
    } else if (hw_alloc_has_temporary(row)) {
        return false;
    }
    if (a->variance_temporary_space) {
        a->variance_temporary_space[i] = row->variance_temporary_space;
        a->variance_temporary_objects[i] = row->variance_temporary_objects;
    } else if (hw_alloc_has_temporary_variance(row)) {
        return false;
    }
    return true;
}

static inline int hw_alloc_rows_push(struct hw_alloc_rows *a, const struct hw_alloc_row *row)
{
    /* Almost all rows of our own traces: the columns exist, are narrow, and the values fit. */
    const uint64_t bias = 0x80000000u;
    uint64_t odd = ((uint64_t)row->samples + bias) | ((uint64_t)row->count + bias) |
                   ((uint64_t)row->size + bias) | ((uint64_t)row->rounding + bias) |
                   ((uint64_t)row->temporary_space + bias) |
                   ((uint64_t)row->temporary_objects + bias);
    size_t i = a->n;
    if (!a->plain || odd >> 32 || row->idle || row->dump != a->runs.v[a->runs.n - 1].dump ||
        i >= a->cap || (!a->variance_objects && hw_alloc_has_more(row)) ||
        (!a->rounding.v && row->rounding) ||
        (!a->variance_rounding && row->variance_rounding > 0) ||
        !hw_alloc_store_temporary(a, i, row))
        return hw_alloc_rows_push_slow(a, row);
    a->callsite[i] = row->callsite.v;
    ((int32_t *)a->samples.v)[i] = (int32_t)row->samples;
    ((int32_t *)a->count.v)[i] = (int32_t)row->count;
    ((int32_t *)a->size.v)[i] = (int32_t)row->size;
    a->variance[i] = hw_alloc_variance_kept(row->variance);
    if (a->variance_objects)
        hw_alloc_store_more(a, i, row);
    if (a->rounding.v)
        ((int32_t *)a->rounding.v)[i] = (int32_t)row->rounding;
    if (a->variance_rounding)
        a->variance_rounding[i] = row->variance_rounding;
    a->n = i + 1;
    return 0;
}

static inline int64_t hw_alloc_value(const struct hw_alloc_column *c, size_t i)
{
    return c->wide ? ((const int64_t *)c->v)[i] : ((const int32_t *)c->v)[i];
}

static inline int64_t hw_alloc_size(const struct hw_alloc_rows *a, size_t i)
{
    return a->size.v ? hw_alloc_value(&a->size, i) : 0;
}

static inline int64_t hw_alloc_samples(const struct hw_alloc_rows *a, size_t i)
{
    return a->samples.v ? hw_alloc_value(&a->samples, i) : 0;
}

static inline int64_t hw_alloc_count(const struct hw_alloc_rows *a, size_t i)
{
    return a->count.v ? hw_alloc_value(&a->count, i) : hw_alloc_samples(a, i);
}

static inline int64_t hw_alloc_idle(const struct hw_alloc_rows *a, size_t i)
{
    return a->idle.v ? hw_alloc_value(&a->idle, i) : 0;
}

static inline int64_t hw_alloc_temporary_space(const struct hw_alloc_rows *a, size_t i)
{
    return a->temporary_space.v ? hw_alloc_value(&a->temporary_space, i) : 0;
}

static inline int64_t hw_alloc_temporary_objects(const struct hw_alloc_rows *a, size_t i)
{
    return a->temporary_objects.v ? hw_alloc_value(&a->temporary_objects, i) : 0;
}

static inline int64_t hw_alloc_rounding(const struct hw_alloc_rows *a, size_t i)
{
    return a->rounding.v ? hw_alloc_value(&a->rounding, i) : 0;
}

/* Row i, if its dump is already known (hw_alloc_rows_of_dump). */
static inline struct hw_alloc_row hw_alloc_row_of(const struct hw_alloc_rows *a, uint32_t dump,
                                                  size_t i)
{
    struct hw_alloc_row row = {.dump = dump,
                               .callsite = {a->callsite[i]},
                               .type = {a->type ? a->type[i] : 0},
                               .samples = hw_alloc_samples(a, i),
                               .count = hw_alloc_count(a, i),
                               .size = hw_alloc_size(a, i),
                               .idle = hw_alloc_idle(a, i),
                               .rounding = hw_alloc_rounding(a, i),
                               .temporary_space = hw_alloc_temporary_space(a, i),
                               .temporary_objects = hw_alloc_temporary_objects(a, i),
                               .variance = a->variance ? (double)a->variance[i] : 0};
    if (a->variance_objects) {
        row.variance_objects = a->variance_objects[i];
        row.variance_alloc_space = a->variance_alloc_space[i];
        row.variance_alloc_objects = a->variance_alloc_objects[i];
    }
    if (a->variance_rounding)
        row.variance_rounding = a->variance_rounding[i];
    if (a->variance_temporary_space) {
        row.variance_temporary_space = a->variance_temporary_space[i];
        row.variance_temporary_objects = a->variance_temporary_objects[i];
    }
    return row;
}

static inline struct hw_alloc_row hw_alloc_row_get(const struct hw_alloc_rows *a, size_t i)
{
    return hw_alloc_row_of(a, hw_alloc_dump(a, i), i);
}

#endif
