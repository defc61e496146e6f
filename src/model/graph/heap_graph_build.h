/*
 * heap_graph_build.h - a heap graph out of objects, classes and roots in any order
 *
 * Why:     every dump format names objects and classes by numbers of its own (addresses mostly) and
 *          may refer to what it describes later, or never. The builder takes such numbers and makes
 *          the dense graph; what all formats have in common (references by a class's field lists,
 *          implicit roots, superclasses, what is reachable) happens here once.
 * Shapes:  an object's references follow it: hw_graph_object, then hw_graph_ref for each. Ids of
 *          objects are any number but 0 (null); ids of classes are any number. An object described
 *          twice stays as it was described first.
 * Owns:    everything until hw_graph_finish, which gives the graph away; fields and names are the
 *          caller's strings.
 * Errors:  HW_ENOMEM, HW_ELIMIT (more than 2^32 - 2 objects, references). What is wrong with the
 *          input is counted (struct hw_graph_faults), not an error.
 * Cost:    linear, but for a search of O(log) where ids are far from each other; 20 bytes an object
 *          and 8 a reference while objects come in, 12 where references bring their names; at most
 *          24 and 12 while the graph is made.
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
    uint64_t undescribed_classes; /* that objects have */
    uint64_t wrong_field_lists;   /* objects whose class has another number of reference fields */
};

/* Fields of references. */
#define HW_FIELD_NONE    0u           /* without a name: elements of arrays */
#define HW_FIELD_OF_LIST (HW_ID_NONE) /* as the class's list, and its superclasses', says */

struct hw_graph_class {
    hw_str_id name, location;
    uint64_t object_size; /* of its objects that do not tell theirs */
    uint64_t superclass;  /* id of a class */
    bool has_superclass;
    uint64_t classloader; /* id of an object; 0 = none */
    enum hw_class_kind kind;
    const uint32_t *fields; /* numbers of the reference fields it declares; copied */
    size_t n_fields;
};

struct hw_graph_object {
    uint64_t id, class_id;
    uint64_t self_size; /* 0 = its class's object_size */
    enum hw_heap_type heap_type;
};

/* strings: where names are looked up; borrowed. */
int hw_graph_builder_new(struct hw_strings *strings, struct hw_graph_builder **out);
void hw_graph_builder_free(struct hw_graph_builder *b); /* NULL is fine */

/* A new field; gives its number, from 1. Names may come later (hw_graph_field_set). */
int hw_graph_field(struct hw_graph_builder *b, hw_str_id name, hw_str_id type_name, uint32_t *out);
void hw_graph_field_set(struct hw_graph_builder *b, uint32_t field, hw_str_id name,
                        hw_str_id type_name);
/* A class; a later description of an id takes the place of the one before. */
int hw_graph_class(struct hw_graph_builder *b, uint64_t id, const struct hw_graph_class *c);
int hw_graph_object(struct hw_graph_builder *b, const struct hw_graph_object *o);
/* One more reference of the object before; target 0 = null. */
int hw_graph_ref(struct hw_graph_builder *b, uint64_t target, uint32_t field);
/* Several without names of their own (HW_FIELD_OF_LIST). `base` is added to all that are not 0. */
int hw_graph_refs(struct hw_graph_builder *b, const uint64_t *targets, size_t n, uint64_t base);
int hw_graph_root(struct hw_graph_builder *b, uint64_t object, enum hw_root_type type);

/* Objects get numbers in the order in which they were first mentioned, by themselves or by a reference;
 * else those that are only referred to come behind the others. */
void hw_graph_number_by_mention(struct hw_graph_builder *b);

/* Builds. The builder still answers hw_graph_find and must be freed after. */
int hw_graph_finish(struct hw_graph_builder *b, struct hw_heap_graph **out,
                    struct hw_graph_faults *faults);
/* The object with this id, once finished. */
bool hw_graph_find(const struct hw_graph_builder *b, uint64_t id, uint32_t *out);

#endif
