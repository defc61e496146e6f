/*
 * Superclasses from the heap itself: a dump need not record them, but each class has an object of
 * type java.lang.Class<Name>, whose field `superClass` refers to that of the superclass.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "model/graph/heap_graph_builder.h"

#include "base/banned.h"

#define CLASS_OF "java.lang.Class<"

static bool is_array(struct hw_bytes name)
{
    return hw_bytes_end_with(name, "[]");
}

/* "java.lang.Class<a.B>" -> "a.B"; n = 0: something else. */
static struct hw_bytes class_object_of(struct hw_bytes s)
{
    const size_t n = sizeof CLASS_OF - 1;
    if (!hw_bytes_start_with(s, CLASS_OF) || s.n < n + 2 || s.p[s.n - 1] != '>')
        return hw_bytes_of(s.p, 0);
    return hw_bytes_of(s.p + n, s.n - n - 1);
}

/* Classes of the same name but different locations are different. */
static uint64_t key_of(hw_str_id name, hw_str_id location)
{
    return (uint64_t)location.v << 32 | name.v;
}

/* The target of an object's first reference with one of these fields; HW_ID_NONE. */
static uint32_t follow(const struct hw_heap_graph *g, uint32_t o, const uint8_t *fields)
{
    for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++)
        if (fields[g->ref_field[r]])
            return g->ref_owned[r];
    return HW_ID_NONE;
}

/* Reads the class objects' `superClass` fields: key of a class -> key of its superclass. */
static int read_class_objects(struct hw_graph_builder *b, const struct hw_heap_graph *g,
                              const uint8_t *is_super, struct hw_map64 *super_of)
{
    hw_autofree uint64_t *key_of_type =
        calloc((size_t)g->n_classes + 1, sizeof *key_of_type); /* 0 = none */
    if (!key_of_type)
        return HW_ENOMEM;
    for (uint32_t c = 0; c < g->n_classes; c++) {
        struct hw_bytes name = class_object_of(hw_strings_get(b->strings, g->classes[c].name));
        hw_str_id id;
        int rc = name.n ? hw_strings_intern(b->strings, name, &id) : HW_OK;
        if (rc < 0)
            return rc;
        if (name.n)
            key_of_type[c] = key_of(id, g->classes[c].location);
    }
    for (uint32_t o = 0; o < g->n_objects; o++) {
        uint64_t own_key = key_of_type[g->type[o]];
        uint32_t super = own_key ? follow(g, o, is_super) : HW_ID_NONE;
        uint64_t super_key = super == HW_ID_NONE ? 0 : key_of_type[g->type[super]];
        int rc =
            super_key && super_key != own_key ? hw_map64_put(super_of, own_key, super_key) : HW_OK;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* Class objects and arrays get no superclass, nor does a class whose superclass has no row of that
 * name and location. */
static int set_superclasses(struct hw_graph_builder *b, struct hw_heap_graph *g,
                            const struct hw_map64 *super_of)
{
    struct hw_map64 by_key = {0};
    int rc = HW_OK;
    for (uint32_t c = g->n_classes; rc == HW_OK && c-- > 0;) /* backwards: the first one stays */
        rc = hw_map64_put(&by_key, key_of(g->classes[c].name, g->classes[c].location), c);
    for (uint32_t c = 0; rc == HW_OK && c < g->n_classes; c++) {
        struct hw_bytes name = hw_strings_get(b->strings, g->classes[c].name);
        uint64_t super, row;
        if (b->classes.v[c].has_superclass || name.n == 0 || is_array(name) ||
            class_object_of(name).n)
            continue;
        if (hw_map64_get(super_of, key_of(g->classes[c].name, g->classes[c].location), &super) &&
            hw_map64_get(&by_key, super, &row))
            g->classes[c].superclass = (uint32_t)row;
    }
    hw_map64_done(&by_key);
    return rc;
}

int hw_graph_imply_superclasses(struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    struct hw_map64 super_of = {0};
    hw_autofree uint8_t *is_super = calloc(g->n_fields + 1, 1);
    bool any = false;
    if (!is_super)
        return HW_ENOMEM;
    for (uint32_t f = 0; f < g->n_fields; f++) {
        is_super[f] = (uint8_t)hw_bytes_equal(hw_strings_get(b->strings, g->fields[f].name),
                                              hw_bytes_str("java.lang.Class.superClass"));
        any |= is_super[f];
    }
    int rc = any ? read_class_objects(b, g, is_super, &super_of) : HW_OK;
    if (rc == HW_OK && super_of.n)
        rc = set_superclasses(b, g, &super_of);
    hw_map64_done(&super_of);
    return rc;
}
