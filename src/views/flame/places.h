/*
 * places.h - the line of each function that most of its memory comes from
 *
 * Why:     a row of a function names one place in the source: the line to change.
 * Shapes:  by function: its line that asked for most; if it only calls others, the line that most
 *          came through. All frames of a line are added up, whatever called them: two hundred small
 *          stacks of one line outweigh a larger one of another.
 * Owns:    *out is the caller's; file names are the profile's strings.
 * Errors:  HW_ENOMEM.
 * Cost:    O(frames + callsites + values).
 * Threads: pure.
 */
#ifndef HW_VIEWS_FLAME_PLACES_H
#define HW_VIEWS_FLAME_PLACES_H

#include "views/flame/functions.h"
#include "views/time/values.h"

/* hw_functions_count of them; without file and line where they are unknown. Compares the metric,
 * then what was ever allocated. The caller frees *out. */
int hw_places_find(const struct hw_callsites *cs, const struct hw_functions *fns,
                   const hw_values *values, enum hw_metric by, struct hw_function_at **out);

#endif
