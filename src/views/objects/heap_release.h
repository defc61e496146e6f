/*
 * heap_release.h - what would be free if some references were gone
 *
 * Why:     retained sizes tell what goes with one object; before a fix one wants to know what goes
 *          when this field is cleared, or these three.
 * Shapes:  references are numbers of the graph; not_root are objects whose being a root does not
 *          count. Lost are objects that roots reach now and would not reach then.
 * Owns:    lost: one byte an object.
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
