/*
 * stack_mask.h - which callstacks pass the filters, for views that show no stacks
 *
 * Why:     sizes, lifetimes and leaks have the same selection as the flamegraph: stacks that
 *          filters drop there do not count here. Filters on frames drop no stacks and have no
 *          effect.
 * Shapes:  one result per callstack, computed on first use.
 * Owns:    its results; the query's parts are borrowed.
 * Errors:  HW_ENOMEM, once, by hw_stack_mask_error: undecided stacks count as dropped.
 * Cost:    O(depth) the first time.
 * Threads: one owner.
 */
#ifndef HW_VIEWS_STACK_MASK_H
#define HW_VIEWS_STACK_MASK_H

#include <stdbool.h>

#include "views/filter.h"
#include "views/flame/flame.h"
#include "views/time/series.h"

struct hw_stack_mask;

/* flags: HW_FLAME_SITES as in the corresponding graph. matches may have no filters at all. */
int hw_stack_mask_new(const struct hw_profile *p, const struct hw_functions *fns,
                      const struct hw_filter_matches *matches, unsigned flags,
                      struct hw_stack_mask **out);
void hw_stack_mask_free(struct hw_stack_mask *m); /* NULL is fine */
/* NULL passes everything, in all functions. */
bool hw_stack_mask_keeps(struct hw_stack_mask *m, hw_callsite_id c);
bool hw_stack_mask_keeps_heap(const struct hw_stack_mask *m, const struct hw_series *s);
void hw_stack_mask_apply(struct hw_stack_mask *m, hw_values *values); /* drops the others */
int hw_stack_mask_error(const struct hw_stack_mask *m);

#endif
