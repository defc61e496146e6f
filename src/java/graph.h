/*
 * graph.h - the bytes of a walk → objects with their references
 *
 * Why:     the library in the JVM sends what is reported to it, in that order; here
 *          objects get numbers from 1, in the order in which they are first mentioned, and each is
 *          given once, with all of its references.
 * Shapes:  feed bytes as they come, then end. The sink is called from both. Objects whose class is
 *          known by name alone (class 0) count as stale.
 * Owns:    two words and a map's slot for each object, and the references of the present one; no
 *          more than max_bytes of that and of the sink's roots, since the target says how many
 *          there are.
 * Errors:  HW_EFORMAT (the bytes are the target's), HW_ENOMEM, HW_ELIMIT (max_bytes), and what the
 *          sink gives.
 *          End: HW_ETRUNCATED when objects were announced and never described.
 */
#ifndef HW_JAVA_GRAPH_H
#define HW_JAVA_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_java_classes;
struct hw_java_field;
struct hw_java_graph;

struct hw_java_ref {
    uint64_t id;
    uint32_t kind;                     /* enum hw_jvm_reference */
    uint32_t index;                    /* FIELD, STATIC: as the JVM numbers it */
    const struct hw_java_field *field; /* the same; NULL = not known */
    uint32_t slot;                     /* FIELD; else HW_JAVA_NO_SLOT */
};

struct hw_java_value {
    uint32_t role;                     /* enum hw_java_value_role */
    const struct hw_java_field *field; /* NULL: role says it */
    uint64_t value;
};

struct hw_java_object {
    uint64_t id;
    uint32_t of_class;
    uint32_t stands_for; /* a class object: its class; else 0 */
    uint64_t bytes;
    const struct hw_java_ref *refs; /* none twice in one slot */
    size_t n_refs;
    const struct hw_java_value *values; /* of objects that stand for other memory */
    size_t n_values;
};

/* Whose root it is, of the kinds that have it: hw_jvm_has_holder(). */
struct hw_java_holder {
    uint32_t thread;    /* number; 0 = unknown */
    uint64_t thread_id; /* as Java numbers it; 0 = unknown */
    int32_t depth;      /* 0 = the innermost method; -1 = none */
    uint32_t frame;     /* number; 0 = none */
    int32_t slot;       /* -1 = none */
};

struct hw_java_sink {
    void *ctx;
    int (*object)(void *ctx, const struct hw_java_object *o);
    /* kind: enum hw_jvm_reference. Before the object. by: NULL = the kind has none */
    int (*root)(void *ctx, uint64_t id, uint32_t kind, const struct hw_java_holder *by);
};

/* classes is borrowed. */
int hw_java_graph_new(struct hw_java_classes *classes, const struct hw_java_sink *sink,
                      uint64_t max_bytes, struct hw_java_graph **out);
void hw_java_graph_free(struct hw_java_graph *g);
int hw_java_graph_feed(struct hw_java_graph *g, struct hw_bytes bytes, struct hw_error *err);
int hw_java_graph_end(struct hw_java_graph *g, struct hw_error *err);

uint32_t hw_java_graph_class_of(const struct hw_java_graph *g, uint64_t id); /* 0 = unknown */
bool hw_java_graph_is_class_object(const struct hw_java_graph *g, uint64_t id);
uint64_t hw_java_graph_objects(const struct hw_java_graph *g);
uint64_t hw_java_graph_stale(const struct hw_java_graph *g); /* of unknown class */

#endif
