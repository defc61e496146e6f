#include "views/contents/heap_fields.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

hw_str_id hw_heap_name_find(const struct hw_profile *p, const char *name)
{
    struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes text = hw_bytes_str(name);
    hw_str_id id = {0};
    /* It is there, so nothing is added. */
    if (!hw_strings_has(strings, text) || hw_strings_intern(strings, text, &id) < 0)
        return (hw_str_id){0};
    return id;
}

const struct hw_heap_primitive *hw_heap_primitive_of(const struct hw_heap_graph *g, uint32_t object,
                                                     hw_str_id name)
{
    const struct hw_heap_data *d = hw_object_data(g, object);
    if (!d || d->field_set == HW_ID_NONE || !name.v)
        return NULL;
    size_t i = HW_LOWER_BOUND(k, 0, g->primitives.n, g->primitives.v[k].set < d->field_set);
    for (; i < g->primitives.n && g->primitives.v[i].set == d->field_set; i++)
        if (g->primitives.v[i].field_name.v == name.v)
            return &g->primitives.v[i];
    return NULL;
}

uint32_t hw_heap_target_of(const struct hw_heap_graph *g, uint32_t object, hw_str_id name)
{
    for (uint32_t r = g->first_ref[object]; name.v && r < g->first_ref[object + 1]; r++)
        if (g->fields[g->ref_field[r]].name.v == name.v)
            return g->ref_owned[r];
    return HW_ID_NONE;
}

uint32_t *hw_heap_first_holders(const struct hw_heap_graph *g)
{
    uint32_t *first = malloc(((size_t)g->n_objects + 1) * sizeof *first);
    if (!first)
        return NULL;
    for (uint32_t o = 0; o < g->n_objects; o++)
        first[o] = HW_ID_NONE;
    for (uint32_t o = 0; o < g->n_objects; o++)
        for (uint32_t r = g->first_ref[o]; hw_object_is_reachable(g, o) && r < g->first_ref[o + 1];
             r++)
            if (hw_ref_is_strong(g, o, r) && first[g->ref_owned[r]] == HW_ID_NONE)
                first[g->ref_owned[r]] = r;
    return first;
}

uint64_t hw_heap_row_key(const struct hw_heap_graph *g, uint32_t class, uint32_t field,
                         uint32_t owner)
{
    const uint32_t of_element = 0x80000000u; /* names have smaller numbers */
    uint32_t by = HW_ID_NONE;
    if (field != HW_ID_NONE)
        by = g->fields[field].name.v ? g->fields[field].name.v
                                     : of_element | hw_class_shown_name(&g->classes[owner]).v;
    return (uint64_t)hw_class_shown_name(&g->classes[class]).v << 32 | by;
}
