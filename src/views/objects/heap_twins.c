#include "views/objects/heap_twins.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "model/callsites.h"
#include "views/time/values.h"

#include "base/banned.h"

static bool has_elements(const struct hw_heap_data *d)
{
    return d->element_count > 0 && d->data_hash != 0;
}

bool hw_heap_is_twin(const struct hw_heap_graph *g, uint32_t a, uint32_t b)
{
    const struct hw_heap_data *x = hw_object_data(g, a), *y = hw_object_data(g, b);
    if (!x || !y || g->type[a] != g->type[b])
        return false;
    if (x->has_string || y->has_string)
        return x->has_string && y->has_string && x->string.v == y->string.v;
    return has_elements(x) && x->element_count == y->element_count && x->data_hash == y->data_hash;
}

/* The array behind a string; HW_ID_NONE. is_value: by field. */
static uint32_t value_of(const struct hw_heap_graph *g, const uint8_t *is_value, uint32_t o)
{
    for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++)
        if (is_value[g->ref_field[r]])
            return g->ref_owned[r];
    return HW_ID_NONE;
}

static void find_value_fields(const struct hw_profile *p, const struct hw_heap_graph *g,
                              uint8_t *is_value)
{
    for (uint32_t f = 0; f < g->n_fields; f++)
        is_value[f] = strcmp(hw_strings_cstr(hw_callsites_strings(p->callsites), g->fields[f].name),
                             "java.lang.String.value") == 0;
}

struct search {
    const struct hw_heap_graph *g;
    enum hw_twin_kind kind;
    uint64_t seed;        /* so that no file can be made whose contents all share one hash slot */
    struct hw_map64 rows; /* content -> row */
    uint8_t *is_value;    /* by field */
    uint8_t *counted;     /* by object: whether an array was counted with a string */
    hw_heap_twins v;
};

/* Contents are compared; if different ones have the same key, the next key is tried. */
static int row_of(struct search *s, uint32_t o, uint64_t key, struct hw_heap_twins_row **out)
{
    for (;; key = hw_hash_u64(key + 1) >> 1) {
        uint64_t *at;
        bool fresh;
        int rc = hw_map64_at(&s->rows, key, &at, &fresh);
        if (rc < 0)
            return rc;
        if (fresh) {
            *at = s->v.n;
            if (hw_vec_push(&s->v, (struct hw_heap_twins_row){.first = o}) < 0)
                return HW_ENOMEM;
        }
        *out = &s->v.v[*at];
        if (fresh || hw_heap_is_twin(s->g, (*out)->first, o))
            return HW_OK;
    }
}

static int add(struct search *s, uint32_t o)
{
    const struct hw_heap_data *d = hw_object_data(s->g, o);
    struct hw_heap_twins_row *row;
    if (!d || !hw_object_is_reachable(s->g, o) ||
        (s->kind == HW_TWIN_STRINGS ? !d->has_string : d->has_string || !has_elements(d)))
        return HW_OK;
    uint64_t key = hw_hash_mix(s->seed, s->g->type[o]);
    if (s->kind == HW_TWIN_STRINGS)
        key = hw_hash_mix(key, d->string.v);
    else
        key = hw_hash_mix(hw_hash_mix(key, (uint64_t)d->data_hash), (uint64_t)d->element_count);
    int rc = row_of(s, o, key >> 1, &row);
    if (rc < 0)
        return rc;
    row->count++;
    row->size = hw_sat_add(row->size, hw_object_weight(s->g, o));
    uint32_t array = s->kind == HW_TWIN_STRINGS ? value_of(s->g, s->is_value, o) : HW_ID_NONE;
    if (array != HW_ID_NONE && !s->counted[array]) {
        s->counted[array] = 1;
        row->size = hw_sat_add(row->size, hw_object_weight(s->g, array));
    }
    return HW_OK;
}

static int by_waste(const void *pa, const void *pb)
{
    const struct hw_heap_twins_row *a = pa, *b = pb;
    if (a->wasted != b->wasted)
        return a->wasted > b->wasted ? -1 : 1;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

int hw_heap_twins_find(const struct hw_profile *p, const struct hw_heap_graph *g,
                       enum hw_twin_kind kind, hw_heap_twins *out)
{
    hw_autofree uint8_t *is_value = calloc((size_t)g->n_fields + 1, 1);
    hw_autofree uint8_t *counted = calloc((size_t)g->n_objects + 1, 1);
    struct search s = {
        .g = g, .kind = kind, .seed = hw_hash_seed(), .is_value = is_value, .counted = counted};
    int rc = is_value && counted ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK)
        find_value_fields(p, g, is_value);
    for (uint32_t o = 0; rc == HW_OK && g->data_of && o < g->n_objects; o++)
        rc = add(&s, o);
    hw_map64_done(&s.rows);
    if (rc < 0) {
        hw_vec_done(&s.v);
        return rc;
    }
    for (size_t i = 0; i < s.v.n; i++)
        s.v.v[i].wasted = s.v.v[i].size - s.v.v[i].size / s.v.v[i].count;
    if (s.v.n)
        qsort(s.v.v, s.v.n, sizeof *s.v.v, by_waste);
    *out = s.v;
    return HW_OK;
}
