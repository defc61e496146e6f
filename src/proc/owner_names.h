/*
 * owner_names.h - names of memory that nothing tells apart, and as many names as a trace is worth
 *
 * Shapes:  nameless memory is glibc's only where its headers show it (NULL), another allocator's, or, in a
 *          program with Go's heap and no allocator, of Go's runtime. Of more than HW_OWNERS_MAX_NAMES, those with the least memory become one of each kind:
 *          "[other files]", "[anon:other]", "/memfd:other". Names are literals then; no figure
 *          changes.
 * Errors:  HW_ENOMEM.
 * Threads: pure.
 */
#ifndef HW_PROC_OWNER_NAMES_H
#define HW_PROC_OWNER_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "proc/memory_owner.h"

struct hw_smaps_entry;

extern const char hw_owner_go[];
bool hw_owner_is_go_heap(const struct hw_smaps_entry *e);
const char *hw_owner_of_rest(const struct hw_smaps *s, enum hw_owner_allocator allocator);

int hw_owner_names_limit(struct hw_smaps_entry *entries, size_t n);

#endif
