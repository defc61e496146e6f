/*
 * classes.h - the classes of a JVM as its table gives them: names, kinds, fields by number
 *
 * Why:     a walk names a reference's field by a number that counts through a class's interfaces
 *          and superclasses; readers want "java.util.HashMap.table", and one list of reference
 *          fields for each class instead of names with each object.
 * Shapes:  classes are numbered 1..n as in the table; 0 is one that was not in it. A *slot* is a
 *          reference field's place among all of an object: its class's own first, then its
 *          superclass's, in the order of declaration.
 * Owns:    everything; names live as long as the table.
 * Errors:  HW_EFORMAT (the table is the target's), HW_ELIMIT, HW_ENOMEM.
 * Source:  java/protocol.h; JVMTI's jvmtiHeapReferenceInfoField
 */
#ifndef HW_JAVA_CLASSES_H
#define HW_JAVA_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_java_classes;

enum hw_java_kind {
    HW_JAVA_KIND_NORMAL,
    HW_JAVA_KIND_NO_REFERENCES,
    HW_JAVA_KIND_STRING,
    HW_JAVA_KIND_ARRAY,
    HW_JAVA_KIND_CLASS,
    HW_JAVA_KIND_LOADER,
    HW_JAVA_KIND_SOFT,
    HW_JAVA_KIND_WEAK,
    HW_JAVA_KIND_FINALIZER,
    HW_JAVA_KIND_PHANTOM,
    HW_JAVA_KIND_COUNT
};

#define HW_JAVA_NO_SLOT UINT32_MAX

struct hw_java_field {
    struct hw_bytes name, signature; /* borrowed */
    uint32_t of;                     /* class that declares it */
    uint32_t slot;                   /* HW_JAVA_NO_SLOT: static, or not a reference */
    bool is_static;
};

int hw_java_classes_parse(struct hw_bytes table, struct hw_java_classes **out,
                          struct hw_error *err);
void hw_java_classes_free(struct hw_java_classes *c);
size_t hw_java_classes_count(const struct hw_java_classes *c); /* n */

/* "java.util.Map$Entry", "int[][]"; "<unknown class>" for 0 and invalid numbers. */
const char *hw_java_class_name(const struct hw_java_classes *c, uint32_t number);
uint32_t hw_java_class_super(const struct hw_java_classes *c, uint32_t number); /* 0 = none */
enum hw_java_kind hw_java_class_kind(const struct hw_java_classes *c, uint32_t number);
/* Slots of its objects, those of superclasses included; 0 for arrays. */
uint32_t hw_java_class_slots(const struct hw_java_classes *c, uint32_t number);
/* The fields that it declares. */
const struct hw_java_field *hw_java_class_fields(const struct hw_java_classes *c, uint32_t number,
                                                 size_t *n);
/* The field that an object of this class calls `index`, its slot in *slot; NULL = there is none. */
const struct hw_java_field *hw_java_class_field(struct hw_java_classes *c, uint32_t number,
                                                uint32_t index, uint32_t *slot);
/* Whether a field may refer to an object of this class, by its declared type. True if that is
 * unknown: types that are not in the table, interfaces (the JVM does not check those). */
bool hw_java_class_fits(struct hw_java_classes *c, const struct hw_java_field *field,
                        uint32_t number);
/* The JVM numbers fields: if objects of a class refer to what its fields cannot hold, its fields
 * are not numbered as we think, and get no names any more. */
void hw_java_class_doubt(struct hw_java_classes *c, uint32_t number);
bool hw_java_class_is_doubtful(const struct hw_java_classes *c, uint32_t number);
size_t hw_java_classes_doubtful(const struct hw_java_classes *c);
/* By its name; 0 = there is none. */
uint32_t hw_java_class_find(struct hw_java_classes *c, const char *name);
/* "int[]" out of "[I". */
struct hw_strbuf;
void hw_java_type_name(struct hw_bytes signature, struct hw_strbuf *out);

#endif
