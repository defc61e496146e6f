/*
 * sizes.h - how large the allocations were, by heap and allocating function
 *
 * Why:     many small blocks cost more than their bytes, and are a different problem from one large
 *          block.
 * Shapes:  classes by powers of two: class 0 holds sizes of 0 and 1 byte, class c those above
 *          2^(c-1) up to 2^c. A trace has sums, not sizes: a row for one recorded allocation has
 *          its exact size (`exact_objects` counts those); other rows count with their average size.
 *          What is live counts with the average of its callstack, because freed blocks may have
 *          other sizes than the allocated ones of the same row; so does what was freed within a second.
 * Units:   bytes, counts; averages are rounded to the nearest byte.
 * Errors:  HW_ENOMEM.
 * Cost:    one pass over the process's rows up to the moment.
 * Threads: pure; the profile must be frozen.
 */
#ifndef HW_VIEWS_FINDINGS_SIZES_H
#define HW_VIEWS_FINDINGS_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "model/ids.h"

struct hw_functions;
struct hw_profile;
struct hw_series_list;
struct hw_stack_mask;

#define HW_SIZE_CLASSES 64

struct hw_size_value {
    int64_t alloc_objects, alloc_space; /* ever; the sums over classes equal those of hw_value */
    int64_t exact_objects;              /* of alloc_objects */
    int64_t objects, space;             /* live */
    int64_t temporary_objects, temporary_space; /* freed within a second */
};

/* One class of one function's allocations on one heap; classes without any have no row. */
struct hw_size_row {
    uint32_t series;   /* the heap: index in the list */
    uint32_t function; /* the site (functions.h) */
    uint8_t class;
    bool summed; /* its heap is of the first kind (series.h) and part of sums over all heaps */
    struct hw_size_value v;
};

/* By series, then function, then class. */
typedef HW_VEC(struct hw_size_row) hw_size_rows;

struct hw_sizes_query {
    const struct hw_profile *p;
    const struct hw_series_list *list;
    const struct hw_functions *fns;
    hw_upid upid;
    int64_t ts_ns; /* a moment of views/time/process_view.h */
    bool at_max;
    struct hw_stack_mask *mask; /* NULL = every callstack */
};

int hw_sizes_find(const struct hw_sizes_query *q, hw_size_rows *out);

void hw_size_value_add(struct hw_size_value *to, const struct hw_size_value *v);
/* Sums the rows of one series and function to one histogram; HW_ID_NONE = any; any series: only
 * rows with `summed`. */
void hw_sizes_sum(const hw_size_rows *rows, uint32_t series, uint32_t function,
                  struct hw_size_value out[HW_SIZE_CLASSES]);
struct hw_size_value hw_sizes_total(const struct hw_size_value v[HW_SIZE_CLASSES]);

static inline uint64_t hw_size_up_to(unsigned class) /* the greatest size of the class */
{
    return UINT64_C(1) << class;
}

#endif
