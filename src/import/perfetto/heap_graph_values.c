#include "import/perfetto/heap_graph_values.h"

#include <stdlib.h>

#include "base/error.h"
#include "model/graph/heap_graph_build.h"
#include "schema/fields.h"

#include "base/banned.h"

static const struct known {
    uint32_t field;
    const char *name;
    char type;
} known[] = {
    {HW_F_HeapGraphObject_bitmap_width_field, "android.graphics.Bitmap.mWidth", 'I'},
    {HW_F_HeapGraphObject_bitmap_height_field, "android.graphics.Bitmap.mHeight", 'I'},
    {HW_F_HeapGraphObject_bitmap_id_field, "android.graphics.Bitmap.mId", 'J'},
    {HW_F_HeapGraphObject_bitmap_source_id_field, "android.graphics.Bitmap.mSourceId", 'J'},
    {HW_F_HeapGraphObject_application_info_long_version_code_field,
     "android.content.pm.ApplicationInfo.longVersionCode", 'J'},
};

static const struct known *find(uint32_t field)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(known); i++)
        if (known[i].field == field)
            return &known[i];
    return NULL;
}

bool hw_heap_graph_is_value(uint32_t field)
{
    return find(field) != NULL;
}

/* Makes a set of values for an object; *fresh is false if it has one. */
static int add_set(struct hw_heap_graph *g, uint32_t object, uint32_t *n_sets, bool *fresh)
{
    struct hw_heap_data d = {.field_set = *n_sets, .element_count = -1, .data_id = -1};
    *fresh = g->data_of[object] == HW_ID_NONE;
    if (!*fresh)
        return HW_OK;
    g->data_of[object] = (uint32_t)g->data.n;
    ++*n_sets;
    return hw_vec_push(&g->data, d) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_heap_graph_add_values(struct hw_profile *p, const struct hw_graph_builder *b,
                             const hw_field_values *values, struct hw_heap_graph *g)
{
    uint32_t n_sets = 0, object = HW_ID_NONE;
    uint64_t id = 0;
    bool fresh = false;
    if (values->n == 0)
        return HW_OK;
    g->data_of = malloc(((size_t)g->n_objects + 1) * sizeof *g->data_of);
    if (!g->data_of)
        return HW_ENOMEM;
    for (uint32_t o = 0; o <= g->n_objects; o++)
        g->data_of[o] = HW_ID_NONE;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < values->n; i++) {
        const struct hw_field_value *v = &values->v[i];
        const struct known *k = find(v->field);
        struct hw_heap_primitive row = {.type = k->type, .integer = v->value};
        if (v->object != id) { /* a repeated object keeps its first values */
            id = v->object;
            fresh = false;
            if (hw_graph_find(b, id, &object))
                rc = add_set(g, object, &n_sets, &fresh);
        }
        if (rc < 0 || !fresh)
            continue;
        row.set = n_sets - 1;
        rc = hw_profile_str(p, hw_bytes_str(k->name), &row.field_name);
        if (rc == HW_OK)
            rc = hw_profile_str(p, hw_bytes_str(k->type == 'I' ? "int" : "long"), &row.field_type);
        if (rc == HW_OK && hw_vec_push(&g->primitives, row) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}
