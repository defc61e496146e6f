/*
 * hprof_layout.h - the fields each class declares, and their offsets in an instance
 *
 * Why:     a graph names the fields of every object; the file lists them once, in the declaring
 *          class, and an instance is a sequence of bytes.
 * Shapes:  the file has the graph's classes and those known only by their class object. Classes of
 *          class objects ("java.lang.Class<X>") are not in it: the file stores them as part of X.
 *          A field that occurs n times in an object has n slots.
 * Owns:    its tables; graph and profile are borrowed.
 * Errors:  HW_ENOMEM, HW_ELIMIT.
 */
#ifndef HW_EXPORT_HPROF_HPROF_LAYOUT_H
#define HW_EXPORT_HPROF_HPROF_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "model/profile.h"

enum hw_hprof_value { /* as the format numbers them */
                      HW_HV_REF = 2,
                      HW_HV_BOOLEAN = 4,
                      HW_HV_CHAR = 5,
                      HW_HV_FLOAT = 6,
                      HW_HV_DOUBLE = 7,
                      HW_HV_BYTE = 8,
                      HW_HV_SHORT = 9,
                      HW_HV_INT = 10,
                      HW_HV_LONG = 11,
                      HW_HV_COUNT
};

/* Slots of one field in the class that declares it. */
struct hw_hprof_slots {
    hw_str_id name; /* full and deobfuscated: "pkg.Class.field" */
    uint32_t offset, count;
    uint32_t next; /* of the class; HW_ID_NONE */
    uint8_t type;
};

struct hw_hprof_out_class {
    hw_str_id name;               /* as recorded */
    uint32_t row;                 /* of the graph; HW_ID_NONE: known only by its class object */
    uint32_t mirror;              /* its class object; HW_ID_NONE */
    uint32_t super;               /* index; HW_ID_NONE */
    uint32_t first, last;         /* struct hw_hprof_slots; HW_ID_NONE */
    uint32_t n_slots, own_bytes;  /* without padding */
    uint32_t padding;             /* bytes after its own fields */
    uint32_t all_bytes;           /* of an instance in the file, superclasses included */
    uint64_t in_memory;           /* of an instance, padding included, not rounded */
    int64_t min_bytes;            /* the smallest instance; -1 = none */
    uint8_t array_of;             /* enum hw_hprof_value; 0 = no array */
    bool is_class_class, is_done; /* is_class_class: of class objects, not in the file */
};

struct hw_hprof_layout {
    const struct hw_profile *p;
    const struct hw_heap_graph *g;
    HW_VEC(struct hw_hprof_out_class) classes; /* first those of the graph, by row */
    HW_VEC(struct hw_hprof_slots) slots;
    struct hw_map64 slots_of;       /* class << 32 | field -> declaring class << 32 | slots */
    struct hw_map64 primitives;     /* name << 8 | type -> field - g->n_fields */
    uint32_t *class_of_object;      /* of class objects: the class they are; else HW_ID_NONE */
    uint32_t *seen_in, *seen_times; /* by field: the last object with it, how often there */
    uint32_t n_seen;
    uint64_t left_out, total_bytes;
};

int hw_hprof_layout_init(struct hw_hprof_layout *l, const struct hw_profile *p,
                         const struct hw_heap_graph *g);
void hw_hprof_layout_done(struct hw_hprof_layout *l);

/* An object's primitive fields; *n of them. */
const struct hw_heap_primitive *hw_hprof_primitives_of(const struct hw_heap_graph *g, uint32_t o,
                                                       size_t *n);
uint8_t hw_hprof_type_of(const struct hw_heap_primitive *p); /* 0 = none */
/* Field number of a primitive; HW_ID_NONE = not laid out. */
uint32_t hw_hprof_primitive_field(const struct hw_hprof_layout *l,
                                  const struct hw_heap_primitive *p);
/* Call hw_hprof_object_begin, then hw_hprof_field_offset for each field of the object in order:
 * its offset in the instance's bytes, or HW_ID_NONE when it was left out. */
void hw_hprof_object_begin(struct hw_hprof_layout *l);
uint32_t hw_hprof_field_offset(struct hw_hprof_layout *l, uint32_t class, uint32_t field);

/* The number of elements of an array. */
uint64_t hw_hprof_elements(const struct hw_hprof_layout *l, uint32_t o);
unsigned hw_hprof_value_bytes(uint8_t type); /* in the file: references have 8 */

static inline bool hw_hprof_is_instance(const struct hw_hprof_layout *l, uint32_t o)
{
    return hw_object_is_described(l->g, o) && l->class_of_object[o] == HW_ID_NONE;
}

#endif
