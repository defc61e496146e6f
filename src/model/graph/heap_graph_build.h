/*
 * heap_graph_build.h - builds a heap graph from objects, classes and roots in any order
 *
 * Why:     every dump format has its own ids of objects and classes (mostly addresses) and may
 *          refer to what it describes later, or never. The builder turns these into the dense graph
 *          and does what all formats need (references by a class's field lists, implicit roots,
 *          superclasses, reachability).
 * Shapes:  an object's references follow it: hw_graph_object, then hw_graph_ref for each. Ids of
 *          objects are any number but 0 (null); ids of classes are any number. If an object is
 *          described twice, the first description counts.
 * Owns:    everything until hw_graph_finish, which hands over the graph; names are the caller's
 *          strings.
 * Errors:  HW_ENOMEM, HW_ELIMIT (more than 2^32 - 2 objects, references). Faults of the
 *          input are counted (struct hw_graph_faults), not errors.
 * Cost:    linear, with lookups of O(log) if ids are sparse; 20 bytes per object and 8 per
 *          reference (12 with names) during input; at most 24 and 12 while the graph is built.
 */
#ifndef HW_MODEL_GRAPH_HEAP_GRAPH_BUILD_H
#define HW_MODEL_GRAPH_HEAP_GRAPH_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/strings.h"
#include "model/graph/heap_graph.h"

struct hw_graph_builder;

struct hw_graph_faults {
    uint64_t duplicate_objects;
    uint64_t undescribed_classes; /* of objects */
    uint64_t wrong_field_lists;   /* objects with more or fewer references than fields */
};

/* Fields of references. */
#define HW_FIELD_NONE    0u           /* no name: elements of arrays */
#define HW_FIELD_OF_LIST (HW_ID_NONE) /* by the lists of the class and its superclasses */

struct hw_graph_class {
    hw_str_id name, location;
    uint64_t object_size; /* of its objects without a self_size */
    uint64_t superclass;  /* id of a class */
    bool has_superclass;
    uint64_t classloader; /* id of an object; 0 = none */
    uint64_t held;        /* id of the class object that its objects hold; 0 = none */
    enum hw_class_kind kind;
    const uint32_t *fields; /* numbers of the reference fields it declares; copied */
    size_t n_fields;
};

struct hw_graph_object {
    uint64_t id, class_id;
    uint64_t self_size; /* 0 = its class's object_size */
    enum hw_heap_type heap_type;
};

/* strings: of all names; borrowed. */
int hw_graph_builder_new(struct hw_strings *strings, struct hw_graph_builder **out);
void hw_graph_builder_free(struct hw_graph_builder *b); /* NULL is fine */

/* Adds a field and gives its number, from 1. Names may be set later (hw_graph_field_set). */
int hw_graph_field(struct hw_graph_builder *b, hw_str_id name, hw_str_id type_name, uint32_t *out);
void hw_graph_field_set(struct hw_graph_builder *b, uint32_t field, hw_str_id name,
                        hw_str_id type_name);
/* Adds a class; a later description of the same id replaces it. */
int hw_graph_class(struct hw_graph_builder *b, uint64_t id, const struct hw_graph_class *c);
int hw_graph_object(struct hw_graph_builder *b, const struct hw_graph_object *o);
/* Adds a reference of the last object; target 0 = null. */
int hw_graph_ref(struct hw_graph_builder *b, uint64_t target, uint32_t field);
/* Adds several with HW_FIELD_OF_LIST. `base` is added to all that are not 0. */
int hw_graph_refs(struct hw_graph_builder *b, const uint64_t *targets, size_t n, uint64_t base);
int hw_graph_root(struct hw_graph_builder *b, uint64_t object, enum hw_root_type type);

/* Numbers objects in the order of their first mention, as an object or by a reference. Otherwise
 * objects are numbered in the order of their descriptions, undescribed ones last. */
void hw_graph_number_by_mention(struct hw_graph_builder *b);

/* Builds the graph. Afterwards the builder still serves hw_graph_find and must be freed. */
int hw_graph_finish(struct hw_graph_builder *b, struct hw_heap_graph **out,
                    struct hw_graph_faults *faults);
/* The object with this id; only after hw_graph_finish. */
bool hw_graph_find(const struct hw_graph_builder *b, uint64_t id, uint32_t *out);

#endif
