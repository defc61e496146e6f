/*
 * hprof_classes.h - names, classes and their layouts in a Java heap dump file
 *
 * Why:     an instance is only bytes; its class and all superclasses tell which of them are
 *          references, their names, and how much memory the object took.
 * Shapes:  add every record of a file once; then link; then look up.
 * Units:   sizes in bytes: hprof_sizes.h; Android's are in the file.
 * Owns:    its tables; names are the profile's strings.
 * Errors:  HW_ENOMEM, HW_ELIMIT.
 * Source:  doc/design/heap-graphs.md, ".hprof files"
 */
#ifndef HW_IMPORT_HPROF_HPROF_CLASSES_H
#define HW_IMPORT_HPROF_HPROF_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "import/hprof/hprof_file.h"
#include "import/hprof/hprof_sizes.h"
#include "model/graph/heap_graph_build.h"
#include "model/profile.h"

struct hw_hprof_field {
    hw_str_id name;  /* "java.util.HashMap.table" */
    uint32_t number; /* of the builder's field; 0 = no reference */
    uint8_t type;    /* enum hw_hprof_type */
};

/* A value in an instance's bytes. */
struct hw_hprof_slot {
    uint32_t offset;
    uint32_t field; /* index into hw_hprof_classes.fields */
};

struct hw_hprof_class {
    uint64_t id, super_id;
    hw_str_id name;
    struct hw_hprof_cursor body; /* of the class's record; p = NULL: only its name is known */
    uint64_t declared_size;      /* of an instance, according to the file */
    size_t first_field, n_fields;
    size_t first_slot, n_slots; /* of an instance, with those of the superclasses */
    uint64_t data_bytes;        /* of an instance in the file */
    uint64_t size;              /* of an instance in memory */
    enum hw_class_kind kind;
};

struct hw_hprof_classes {
    struct hw_profile *p;               /* borrowed */
    struct hw_graph_builder *b;         /* borrowed */
    const struct hw_hprof_file *file;   /* borrowed */
    const struct hw_hprof_sizes *sizes; /* borrowed; decided before the classes are linked */
    struct hw_map64 text_of_id;         /* id -> index of texts */
    HW_VEC(struct hw_bytes) texts;
    struct hw_map64 class_of_id, class_of_serial; /* -> index of classes */
    HW_VEC(struct hw_hprof_class) classes;
    HW_VEC(struct hw_hprof_field) fields;
    HW_VEC(struct hw_hprof_slot) slots;
    uint64_t class_class;                      /* id of java.lang.Class; 0 = not seen */
    uint64_t mirror_size;                      /* of a class object without its static fields */
    uint64_t array_class[HW_HPROF_TYPE_COUNT]; /* by type of primitives; 0 = not loaded */
    uint64_t name_bytes;                       /* see hw_hprof_name */
};

void hw_hprof_classes_done(struct hw_hprof_classes *c);
int hw_hprof_classes_add(struct hw_hprof_classes *c, const struct hw_hprof_record *r);
/* Computes the classes' layouts and adds them to the builder. */
int hw_hprof_classes_link(struct hw_hprof_classes *c);
/* NULL: unknown. */
const struct hw_hprof_class *hw_hprof_class_find(const struct hw_hprof_classes *c, uint64_t id);
/* Interns a name made of texts of the file. HW_ELIMIT: the names are many times as large as the
 * file, as when a long text is the class of each field. */
int hw_hprof_name(struct hw_hprof_classes *c, const struct hw_strbuf *name, hw_str_id *out);
struct hw_bytes hw_hprof_text(const struct hw_hprof_classes *c, uint64_t id);

/* Iterates over the static fields in a class's record, references or not. */
struct hw_hprof_statics {
    struct hw_hprof_cursor body;
    uint64_t super_id, loader_id, signers_id, domain_id, n_left;
};
void hw_hprof_statics_begin(const struct hw_hprof_class *c, struct hw_hprof_statics *out);
/* False at the end. */
bool hw_hprof_statics_next(struct hw_hprof_statics *s, uint64_t *name_id, uint8_t *type,
                           struct hw_hprof_cursor *value);

/* Class of a class object: an id that no class of the file has. */
static inline uint64_t hw_hprof_mirror_class(uint64_t class_id)
{
    return ~class_id;
}

/* Class of an array of primitives: the file's, or a number below any address. */
static inline uint64_t hw_hprof_array_class(const struct hw_hprof_classes *c, uint64_t type)
{
    return type < HW_HPROF_TYPE_COUNT && c->array_class[type] ? c->array_class[type] : type;
}

const char *hw_hprof_type_name(uint64_t type); /* "int"; "" = no such type */

#endif
