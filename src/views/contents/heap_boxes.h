/*
 * heap_boxes.h - objects that only carry a number, and what they cost
 *
 * Why:     an Integer takes 16 bytes for 4, and each reference to it as many again: a map of boxed
 *          numbers, or a field that need not be boxed, is worth knowing.
 * Shapes:  rows by class, and by holder: the field that refers to the box, of several the reference
 *          with the lowest number. Only reachable objects. Largest bytes first.
 * Units:   bytes.
 * Owns:    the rows.
 * Errors:  HW_ENOMEM, HW_ENOTFOUND: the dump has no contents (hw_heap_data).
 * Cost:    O(objects + references), 4 bytes an object, and sorting 16 bytes a box.
 * Threads: pure.
 * Source:  doc/design/heap-graphs.md, "Collections and boxes"
 */
#ifndef HW_VIEWS_CONTENTS_HEAP_BOXES_H
#define HW_VIEWS_CONTENTS_HEAP_BOXES_H

#include "base/memory/vec.h"
#include "model/graph/heap_graph.h"
#include "model/profile.h"

struct hw_box_row {
    uint32_t class;        /* the first of its name */
    uint32_t field, owner; /* by holder: field, and class of who refers; HW_ID_NONE = a root */
    int64_t n, bytes;
    int64_t plain;  /* bytes of the numbers alone */
    int64_t copies; /* by class: bytes of boxes beside another one of the same value */
};

typedef HW_VEC(struct hw_box_row) hw_box_rows;

struct hw_heap_boxes {
    hw_box_rows by_class, by_holder;
};

int hw_heap_boxes_find(const struct hw_profile *p, const struct hw_heap_graph *g,
                       struct hw_heap_boxes *out);
void hw_heap_boxes_done(struct hw_heap_boxes *b);

#endif
