/*
 * heap_fields.h - fields of a heap graph's objects by their names
 *
 * Shapes:  names as in the graph: "java.util.HashMap.size". A primitive that the dump does not have
 *          is NULL. Holders: by object, the lowest-numbered strong reference of a reachable object
 *          to it; HW_ID_NONE = none.
 * Threads: pure.
 */
#ifndef HW_VIEWS_CONTENTS_HEAP_FIELDS_H
#define HW_VIEWS_CONTENTS_HEAP_FIELDS_H

#include "model/graph/heap_graph.h"
#include "model/profile.h"

/* The string's number, 0 = no name of this profile is equal. For comparing names by number. */
hw_str_id hw_heap_name_find(const struct hw_profile *p, const char *name);
const struct hw_heap_primitive *hw_heap_primitive_of(const struct hw_heap_graph *g, uint32_t object,
                                                     hw_str_id name);
/* What a field refers to; HW_ID_NONE. */
uint32_t hw_heap_target_of(const struct hw_heap_graph *g, uint32_t object, hw_str_id name);
/* malloc'ed, n_objects; NULL = no memory. */
uint32_t *hw_heap_first_holders(const struct hw_heap_graph *g);
/* For rows by class name and holder: field and class of who refers, HW_ID_NONE = none. Fields without
 * a name, of elements, differ by who refers. */
uint64_t hw_heap_row_key(const struct hw_heap_graph *g, uint32_t class, uint32_t field,
                         uint32_t owner);

#endif
