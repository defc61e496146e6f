/*
 * Superclasses that only the heap knows: a dump need not tell them, but each class has an object of
 * type java.lang.Class<Name>, and its field `superClass` refers to that of the superclass.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "model/graph/heap_graph_builder.h"

#include "base/banned.h"

static bool has_prefix(struct hw_bytes b, const char *prefix)
{
    size_t n = strlen(prefix);
    return b.n >= n && memcmp(b.p, prefix, n) == 0;
}

/* "java.lang.Class<a.B[]>" -> "a.B" */
static int plain_name(struct hw_graph_builder *b, hw_str_id name, hw_str_id *out)
{
    static const char prefix[] = "java.lang.Class<";
    struct hw_bytes s = hw_strings_get(b->strings, name);
    if (has_prefix(s, prefix)) {
        s.p += sizeof prefix - 1;
        s.n -= sizeof prefix - 1;
        if (s.n && s.p[s.n - 1] == '>')
            s.n--;
    }
    while (s.n >= 2 && s.p[s.n - 2] == '[' && s.p[s.n - 1] == ']')
        s.n -= 2;
    return hw_strings_intern(b->strings, s, out);
}

/* What an object's first reference with one of these fields refers to; HW_ID_NONE. */
static uint32_t follow(const struct hw_heap_graph *g, uint32_t o, const uint8_t *fields)
{
    for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++)
        if (fields[g->ref_field[r]])
            return g->ref_owned[r];
    return HW_ID_NONE;
}

/* The class objects' `superClass` fields: plain name -> plain name of the superclass. */
static int read_class_objects(struct hw_graph_builder *b, const struct hw_heap_graph *g,
                              const uint8_t *is_super, struct hw_map64 *super_of)
{
    hw_autofree uint8_t *is_class_object = calloc(g->n_classes + 1, 1);
    if (!is_class_object)
        return HW_ENOMEM;
    for (uint32_t c = 0; c < g->n_classes; c++)
        is_class_object[c] =
            has_prefix(hw_strings_get(b->strings, g->classes[c].name), "java.lang.Class<");
    for (uint32_t o = 0; o < g->n_described; o++) {
        if (!is_class_object[g->type[o]])
            continue;
        uint32_t super = follow(g, o, is_super);
        hw_str_id mine, its;
        if (super == HW_ID_NONE || !is_class_object[g->type[super]])
            continue;
        int rc = plain_name(b, g->classes[g->type[o]].name, &mine);
        if (rc == HW_OK)
            rc = plain_name(b, g->classes[g->type[super]].name, &its);
        if (rc == HW_OK && mine.v != its.v)
            rc = hw_map64_put(super_of, mine.v, its.v);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* The class with this name, at best from the same place. */
static uint32_t class_named(const struct hw_heap_graph *g, const struct hw_map64 *by_name,
                            const uint32_t *next, uint64_t name, hw_str_id location)
{
    uint64_t first;
    uint32_t found = HW_ID_NONE;
    if (!hw_map64_get(by_name, name, &first))
        return HW_ID_NONE;
    for (uint32_t c = (uint32_t)first; c != HW_ID_NONE; c = next[c]) {
        if (g->classes[c].location.v == location.v)
            return c;
        if (found == HW_ID_NONE)
            found = c;
    }
    return found;
}

static int set_superclasses(struct hw_graph_builder *b, struct hw_heap_graph *g,
                            const struct hw_map64 *super_of)
{
    struct hw_map64 by_name = {0};
    hw_autofree uint32_t *next = malloc((g->n_classes + 1) * sizeof *next);
    int rc = next ? HW_OK : HW_ENOMEM;
    for (uint32_t c = g->n_classes; rc == HW_OK && c-- > 0;) { /* chains begin with the first */
        uint64_t *at;
        bool fresh;
        rc = hw_map64_at(&by_name, g->classes[c].name.v, &at, &fresh);
        if (rc < 0)
            break;
        next[c] = fresh ? HW_ID_NONE : (uint32_t)*at;
        *at = c;
    }
    for (uint32_t c = 0; rc == HW_OK && c < g->n_classes; c++) {
        uint64_t super;
        hw_str_id mine;
        if (b->classes.v[c].has_superclass || g->classes[c].name.v == 0)
            continue;
        rc = plain_name(b, g->classes[c].name, &mine);
        if (rc == HW_OK && hw_map64_get(super_of, mine.v, &super)) {
            uint32_t s = class_named(g, &by_name, next, super, g->classes[c].location);
            g->classes[c].superclass = s == c ? HW_ID_NONE : s;
        }
    }
    hw_map64_done(&by_name);
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
