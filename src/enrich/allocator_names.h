/*
 * allocator_names.h - the type in the name of an allocator's function
 *
 * Why:     containers allocate through std::allocator<T>, so the function that calls operator new
 *          says what for: with symbols alone, and when it was inlined with debug info.
 */
#ifndef HW_ENRICH_ALLOCATOR_NAMES_H
#define HW_ENRICH_ALLOCATOR_NAMES_H

#include <stdbool.h>

#include "base/bytes.h"

/* "std::__new_allocator<T>::allocate(…)" and its likes, demangled: T, borrowed. */
bool hw_allocator_type(struct hw_bytes function, struct hw_bytes *out);

#endif
