/*
 * java_reach.h - class objects that only their instances keep alive
 *
 * Why:     the trace's format has no reference from an object to its class. In a JVM an object
 *          holds its class, and that its loader, its statics, and the loader's other classes: a
 *          reader would take all of it for garbage if nothing else refers to the class. Such class
 *          objects become roots.
 * Shapes:  ids are those of a walk's objects, dense from 1. Weak referents are not followed.
 * Owns:    its copy of the references: 2 to 5 bytes each, usually 3; a bit an object at the end.
 * Errors:  HW_ENOMEM; HW_ELIMIT: the references take more than max_bytes.
 * Source:  doc/design/java.md, "What holds a class"
 */
#ifndef HW_DAEMON_JAVA_JAVA_REACH_H
#define HW_DAEMON_JAVA_JAVA_REACH_H

#include <stdint.h>

#include "java/classes.h"
#include "java/graph.h"

struct hw_java_reach;

int hw_java_reach_new(uint64_t max_bytes, struct hw_java_reach **out);
void hw_java_reach_free(struct hw_java_reach *r); /* NULL is fine */

int hw_java_reach_object(struct hw_java_reach *r, const struct hw_java_classes *classes,
                         const struct hw_java_object *o);
int hw_java_reach_root(struct hw_java_reach *r, uint64_t id);
/* Gives each class object that no root reaches, ascending. Once. */
int hw_java_reach_end(struct hw_java_reach *r, uint64_t n_objects,
                      int (*give)(void *ctx, uint64_t class_object), void *ctx);

#endif
