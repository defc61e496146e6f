/*
 * A collection is an object whose class is, or derives from, one of those below. How many elements
 * it has, its own field says, except where none does: then what its array refers to is counted.
 */
#include "views/contents/heap_collections.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"
#include "views/contents/heap_fields.h"

#include "base/banned.h"

enum { MAX_CHAIN = 256, WIDE = 8, NARROW = 4 };

struct kind {
    const char *class, *size, *array; /* names of fields; NULL = none */
    int64_t per_element;              /* slots; 0 = 1 */
};

static const struct kind kinds[] = {
    {"java.util.HashMap", "java.util.HashMap.size", "java.util.HashMap.table", 0},
    {"java.util.concurrent.ConcurrentHashMap", NULL, "java.util.concurrent.ConcurrentHashMap.table",
     0},
    {"java.util.Hashtable", "java.util.Hashtable.count", "java.util.Hashtable.table", 0},
    {"java.util.WeakHashMap", "java.util.WeakHashMap.size", "java.util.WeakHashMap.table", 0},
    {"java.util.IdentityHashMap", "java.util.IdentityHashMap.size",
     "java.util.IdentityHashMap.table", 2},
    {"java.util.EnumMap", "java.util.EnumMap.size", "java.util.EnumMap.vals", 0},
    {"java.util.TreeMap", "java.util.TreeMap.size", NULL, 0},
    {"java.util.ArrayList", "java.util.ArrayList.size", "java.util.ArrayList.elementData", 0},
    {"java.util.Vector", "java.util.Vector.elementCount", "java.util.Vector.elementData", 0},
    {"java.util.LinkedList", "java.util.LinkedList.size", NULL, 0},
    {"java.util.ArrayDeque", NULL, "java.util.ArrayDeque.elements", 0},
    {"java.util.PriorityQueue", "java.util.PriorityQueue.size", "java.util.PriorityQueue.queue", 0},
    {"java.util.concurrent.PriorityBlockingQueue",
     "java.util.concurrent.PriorityBlockingQueue.size",
     "java.util.concurrent.PriorityBlockingQueue.queue", 0},
    {"java.util.concurrent.ArrayBlockingQueue", "java.util.concurrent.ArrayBlockingQueue.count",
     "java.util.concurrent.ArrayBlockingQueue.items", 0},
    {"java.util.concurrent.CopyOnWriteArrayList", NULL,
     "java.util.concurrent.CopyOnWriteArrayList.array", 0},
};
enum { N_KINDS = HW_ARRAY_LEN(kinds), CONCURRENT = 1 /* its size is in several fields */ };

struct names {
    hw_str_id size[N_KINDS], array[N_KINDS];
    hw_str_id base, cells, cell, set_map; /* of ConcurrentHashMap; HashSet.map */
};

static void find_names(const struct hw_profile *p, struct names *out)
{
    for (int k = 0; k < N_KINDS; k++) {
        out->size[k] = hw_heap_name_find(p, kinds[k].size ? kinds[k].size : "");
        out->array[k] = hw_heap_name_find(p, kinds[k].array ? kinds[k].array : "");
    }
    out->base = hw_heap_name_find(p, "java.util.concurrent.ConcurrentHashMap.baseCount");
    out->cells = hw_heap_name_find(p, "java.util.concurrent.ConcurrentHashMap.counterCells");
    out->cell = hw_heap_name_find(p, "java.util.concurrent.ConcurrentHashMap$CounterCell.value");
    out->set_map = hw_heap_name_find(p, "java.util.HashSet.map");
}

/* By class: its kind, N_KINDS = no collection. */
static int find_kinds(const struct hw_profile *p, const struct hw_heap_graph *g, uint8_t *kind_of)
{
    hw_autofree uint8_t *own = malloc((size_t)g->n_classes + 1);
    hw_str_id name[N_KINDS];
    if (!own)
        return HW_ENOMEM;
    for (int k = 0; k < N_KINDS; k++)
        name[k] = hw_heap_name_find(p, kinds[k].class);
    for (uint32_t c = 0; c < g->n_classes; c++) {
        own[c] = N_KINDS;
        for (uint8_t k = 0; k < N_KINDS; k++)
            if (name[k].v && g->classes[c].name.v == name[k].v)
                own[c] = k;
    }
    for (uint32_t c = 0; c < g->n_classes; c++) {
        uint32_t at = c;
        kind_of[c] = own[c];
        for (int i = 0; i < MAX_CHAIN && kind_of[c] == N_KINDS && at != HW_ID_NONE; i++) {
            kind_of[c] = own[at];
            at = g->classes[at].superclass;
        }
    }
    return HW_OK;
}

/* ---- one collection ---- */

static int64_t count_targets(const struct hw_heap_graph *g, uint32_t array)
{
    int64_t n = 0;
    for (uint32_t r = g->first_ref[array]; r < g->first_ref[array + 1]; r++)
        n += g->ref_owned[r] != HW_ID_NONE;
    return n;
}

static int64_t length_of(const struct hw_heap_graph *g, uint32_t array)
{
    const struct hw_heap_data *d = array == HW_ID_NONE ? NULL : hw_object_data(g, array);
    return d ? d->element_count : -1;
}

/* How wide references are: any array with some elements says it. */
static int64_t width_of_refs(const struct hw_heap_graph *g)
{
    for (uint32_t o = 0; o < g->n_objects; o++) {
        int64_t n = length_of(g, o);
        if (n >= WIDE && g->classes[g->type[o]].kind == HW_KIND_ARRAY)
            return hw_object_weight(g, o) / n >= WIDE ? WIDE : NARROW;
    }
    return NARROW;
}

/* -1 = the dump does not tell. */
static int64_t concurrent_size(const struct hw_heap_graph *g, const struct names *names, uint32_t o)
{
    const struct hw_heap_primitive *v = hw_heap_primitive_of(g, o, names->base);
    uint32_t cells = hw_heap_target_of(g, o, names->cells);
    if (!v)
        return -1;
    int64_t sum = v->integer;
    for (uint32_t r = cells == HW_ID_NONE ? 0 : g->first_ref[cells];
         cells != HW_ID_NONE && r < g->first_ref[cells + 1]; r++) {
        v = g->ref_owned[r] == HW_ID_NONE ? NULL
                                          : hw_heap_primitive_of(g, g->ref_owned[r], names->cell);
        sum = v ? hw_sat_add(sum, v->integer) : sum;
    }
    return sum < 0 ? 0 : sum; /* as the map itself does */
}

static int64_t size_of(const struct hw_heap_graph *g, const struct names *names, int kind,
                       uint32_t o, uint32_t array)
{
    if (kind == CONCURRENT)
        return concurrent_size(g, names, o);
    if (!kinds[kind].size)
        return array == HW_ID_NONE ? -1 : count_targets(g, array);
    const struct hw_heap_primitive *v = hw_heap_primitive_of(g, o, names->size[kind]);
    return v ? v->integer : -1;
}

/* ---- rows ---- */

struct search {
    const struct hw_heap_graph *g;
    const struct names *names;
    const uint32_t *holder; /* by object: a reference */
    uint8_t *counted;       /* by object: arrays */
    int64_t width;
    struct hw_map64 by_class, by_holder; /* → row */
};

/* A set is a map inside: who refers to the set is asked for. */
static void holder_of(const struct search *s, uint32_t o, uint32_t *field, uint32_t *owner)
{
    uint32_t ref = s->holder[o];
    *field = *owner = HW_ID_NONE;
    if (ref == HW_ID_NONE)
        return;
    uint32_t by = hw_ref_owner(s->g, ref);
    if (s->names->set_map.v && s->g->fields[s->g->ref_field[ref]].name.v == s->names->set_map.v) {
        ref = s->holder[by];
        if (ref == HW_ID_NONE)
            return;
        by = hw_ref_owner(s->g, ref);
    }
    *field = s->g->ref_field[ref];
    *owner = s->g->type[by];
}

static void add(struct hw_collection_row *to, const struct hw_collection_row *one)
{
    to->n += one->n;
    to->n_empty += one->n_empty;
    to->n_ones += one->n_ones;
    to->elements = hw_sat_add(to->elements, one->elements);
    to->slots = hw_sat_add(to->slots, one->slots);
    to->bytes = hw_sat_add(to->bytes, one->bytes);
    to->unused = hw_sat_add(to->unused, one->unused);
}

static int add_row(struct hw_map64 *rows, const struct hw_heap_graph *g, hw_collection_rows *out,
                   const struct hw_collection_row *one)
{
    uint64_t *row;
    bool fresh;
    if (hw_map64_at(rows, hw_heap_row_key(g, one->class, one->field, one->owner), &row, &fresh) < 0)
        return HW_ENOMEM;
    if (!fresh) {
        add(&out->v[*row], one);
        return HW_OK;
    }
    *row = out->n;
    return hw_vec_push(out, *one) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_both(struct search *s, struct hw_heap_collections *out,
                    struct hw_collection_row *one, uint32_t o)
{
    one->field = one->owner = HW_ID_NONE;
    int rc = add_row(&s->by_class, s->g, &out->by_class, one);
    holder_of(s, o, &one->field, &one->owner);
    return rc < 0 ? rc : add_row(&s->by_holder, s->g, &out->by_holder, one);
}

static int add_collection(struct search *s, struct hw_heap_collections *out, int kind, uint32_t o)
{
    const struct hw_heap_graph *g = s->g;
    uint32_t array = hw_heap_target_of(g, o, s->names->array[kind]);
    int64_t size = size_of(g, s->names, kind, o, array), length = length_of(g, array);
    if (size < 0) {
        out->n_unknown++;
        return HW_OK;
    }
    struct hw_collection_row one = {.class = g->type[o],
                                    .n = 1,
                                    .n_empty = size == 0,
                                    .n_ones = size == 1,
                                    .elements = size,
                                    .bytes = hw_object_weight(g, o)};
    /* One array of no elements serves all empty lists. */
    if (length > 0 && !s->counted[array]) {
        int64_t free_slots = length - count_targets(g, array);
        s->counted[array] = 1;
        one.slots = kinds[kind].per_element ? length / kinds[kind].per_element : length;
        one.bytes = hw_sat_add(one.bytes, hw_object_weight(g, array));
        one.unused = free_slots > 0 ? free_slots * s->width : 0;
    }
    return add_both(s, out, &one, o);
}

static int by_bytes(const void *pa, const void *pb)
{
    const struct hw_collection_row *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    return a->field != b->field ? (a->field < b->field ? -1 : 1)
                                : (a->owner > b->owner) - (a->owner < b->owner);
}

static int search(struct search *s, const uint8_t *kind_of, struct hw_heap_collections *out)
{
    int rc = HW_OK;
    for (uint32_t o = 0; rc == HW_OK && o < s->g->n_objects; o++)
        if (hw_object_is_reachable(s->g, o) && kind_of[s->g->type[o]] < N_KINDS)
            rc = add_collection(s, out, kind_of[s->g->type[o]], o);
    hw_map64_done(&s->by_class);
    hw_map64_done(&s->by_holder);
    if (out->by_class.n)
        qsort(out->by_class.v, out->by_class.n, sizeof *out->by_class.v, by_bytes);
    if (out->by_holder.n)
        qsort(out->by_holder.v, out->by_holder.n, sizeof *out->by_holder.v, by_bytes);
    return rc;
}

int hw_heap_collections_find(const struct hw_profile *p, const struct hw_heap_graph *g,
                             struct hw_heap_collections *out)
{
    struct names names;
    *out = (struct hw_heap_collections){0};
    if (g->primitives.n == 0)
        return HW_ENOTFOUND;
    hw_autofree uint8_t *kind_of = malloc((size_t)g->n_classes + 1);
    hw_autofree uint32_t *holder = hw_heap_first_holders(g);
    hw_autofree uint8_t *counted = calloc((size_t)g->n_objects + 1, 1);
    struct search s = {
        .g = g, .names = &names, .holder = holder, .counted = counted, .width = width_of_refs(g)};
    int rc = kind_of && holder && counted ? find_kinds(p, g, kind_of) : HW_ENOMEM;
    if (rc == HW_OK)
        find_names(p, &names);
    if (rc == HW_OK)
        rc = search(&s, kind_of, out);
    if (rc < 0)
        hw_heap_collections_done(out);
    return rc;
}

void hw_heap_collections_done(struct hw_heap_collections *c)
{
    hw_vec_done(&c->by_class);
    hw_vec_done(&c->by_holder);
}
