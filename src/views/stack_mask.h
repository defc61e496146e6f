/*
 * stack_mask.h - which callstacks filters let through, for views that show no stacks
 *
 * Why:     sizes, lifetimes and leaks are of the same selection as the flamegraph: what filters
 *          drop there does not count here. Filters on frames drop no stack and change nothing.
 * Shapes:  one answer a callstack, found when it is first asked for.
 * Owns:    its answers; the question's parts are borrowed.
 * Errors:  HW_ENOMEM, once, by hw_stack_mask_error: what could not be found out counts as dropped.
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

/* flags: HW_FLAME_SITES as in the graph that is meant. matches may be of no filters at all. */
int hw_stack_mask_new(const struct hw_profile *p, const struct hw_functions *fns,
                      const struct hw_filter_matches *matches, unsigned flags,
                      struct hw_stack_mask **out);
void hw_stack_mask_free(struct hw_stack_mask *m); /* NULL is fine */
/* NULL lets everything through, in all of them. */
bool hw_stack_mask_keeps(struct hw_stack_mask *m, hw_callsite_id c);
bool hw_stack_mask_keeps_heap(const struct hw_stack_mask *m, const struct hw_series *s);
void hw_stack_mask_apply(struct hw_stack_mask *m, hw_values *values); /* drops the others */
int hw_stack_mask_error(const struct hw_stack_mask *m);

#endif
