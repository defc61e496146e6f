/*
 * heap_twins.h - strings and arrays with equal contents
 *
 * Why:     the same text a thousand times is memory that one copy would do for.
 * Shapes:  one row for each different content among reachable objects, by descending waste;
 *          wasted is what all but one of them hold. A string holds itself and the array behind it
 *          (field "value"); an array that several strings share is counted once. Arrays are equal
 *          if class, length and hash of the contents are.
 * Units:   bytes.
 * Owns:    its rows.
 * Errors:  HW_ENOMEM. No row when the dump has no contents.
 * Cost:    O(objects + rows × log).
 * Threads: pure; the profile must be frozen.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_TWINS_H
#define HW_VIEWS_OBJECTS_HEAP_TWINS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "model/profile.h"

struct hw_heap_twins_row {
    uint32_t first; /* the first object */
    uint32_t count;
    int64_t size, wasted;
};
typedef HW_VEC(struct hw_heap_twins_row) hw_heap_twins;

enum hw_twin_kind { HW_TWIN_STRINGS, HW_TWIN_ARRAYS };

int hw_heap_twins_find(const struct hw_profile *p, const struct hw_heap_graph *g,
                       enum hw_twin_kind kind, hw_heap_twins *out);
/* Whether two objects have the same contents. */
bool hw_heap_is_twin(const struct hw_heap_graph *g, uint32_t a, uint32_t b);

#endif
