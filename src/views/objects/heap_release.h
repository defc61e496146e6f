/*
 * heap_release.h - what would be freed without some references
 *
 * Why:     retained sizes say what is freed with one object; before a fix one wants to know what is
 *          freed when this field is cleared, or these three.
 * Shapes:  references are numbers of the graph; not_root are objects that no longer count as roots.
 *          Lost are objects that are reachable now and would not be then.
 * Owns:    is_lost: one byte per object.
 * Errors:  HW_ENOMEM.
 * Cost:    O(objects + references).
 * Threads: pure.
 */
#ifndef HW_VIEWS_OBJECTS_HEAP_RELEASE_H
#define HW_VIEWS_OBJECTS_HEAP_RELEASE_H

#include <stddef.h>
#include <stdint.h>

#include "views/objects/heap_classes.h"

struct hw_heap_release {
    struct hw_heap_sum lost;
    uint8_t *is_lost; /* by object */
};

int hw_heap_release_find(const struct hw_heap_graph *g, const uint32_t *refs, size_t n_refs,
                         const uint32_t *not_root, size_t n_not_root, struct hw_heap_release *out);
void hw_heap_release_done(struct hw_heap_release *r);

#endif
