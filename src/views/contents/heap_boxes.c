#include "views/contents/heap_boxes.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"
#include "views/contents/heap_fields.h"

#include "base/banned.h"

static const struct {
    const char *class, *value;
    int64_t bytes;
} kinds[] = {
    {"java.lang.Boolean", "java.lang.Boolean.value", 1},
    {"java.lang.Byte", "java.lang.Byte.value", 1},
    {"java.lang.Character", "java.lang.Character.value", 2},
    {"java.lang.Short", "java.lang.Short.value", 2},
    {"java.lang.Integer", "java.lang.Integer.value", 4},
    {"java.lang.Float", "java.lang.Float.value", 4},
    {"java.lang.Long", "java.lang.Long.value", 8},
    {"java.lang.Double", "java.lang.Double.value", 8},
};
enum { N_KINDS = HW_ARRAY_LEN(kinds) };

struct box {
    uint32_t kind, object;
    int64_t value; /* or the bits of it */
};

struct search {
    const struct hw_heap_graph *g;
    const uint32_t *holder; /* by object: a reference */
    struct hw_map64 by_class, by_holder;
    HW_VEC(struct box) boxes;
};

static int add_row(struct hw_map64 *rows, const struct hw_heap_graph *g, hw_box_rows *out,
                   const struct hw_box_row *one)
{
    uint64_t *row;
    bool fresh;
    if (hw_map64_at(rows, hw_heap_row_key(g, one->class, one->field, one->owner), &row, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        *row = out->n;
        return hw_vec_push(out, *one) < 0 ? HW_ENOMEM : HW_OK;
    }
    struct hw_box_row *to = &out->v[*row];
    to->n += one->n;
    to->bytes = hw_sat_add(to->bytes, one->bytes);
    to->plain = hw_sat_add(to->plain, one->plain);
    return HW_OK;
}

static int64_t value_of(const struct hw_heap_primitive *v)
{
    int64_t bits = v->integer;
    if (v->type == 'F' || v->type == 'D')
        memcpy(&bits, &v->real, sizeof bits);
    return bits;
}

static int add_box(struct search *s, struct hw_heap_boxes *out, uint32_t kind, uint32_t o,
                   const struct hw_heap_primitive *v)
{
    const struct hw_heap_graph *g = s->g;
    struct hw_box_row one = {.class = g->type[o],
                             .field = HW_ID_NONE,
                             .owner = HW_ID_NONE,
                             .n = 1,
                             .bytes = hw_object_weight(g, o),
                             .plain = kinds[kind].bytes};
    int rc = add_row(&s->by_class, g, &out->by_class, &one);
    if (s->holder[o] != HW_ID_NONE) {
        one.field = g->ref_field[s->holder[o]];
        one.owner = g->type[hw_ref_owner(g, s->holder[o])];
    }
    if (rc == HW_OK)
        rc = add_row(&s->by_holder, g, &out->by_holder, &one);
    if (rc == HW_OK && hw_vec_push(&s->boxes, (struct box){kind, o, value_of(v)}) < 0)
        rc = HW_ENOMEM;
    return rc;
}

static int by_value(const void *pa, const void *pb)
{
    const struct box *a = pa, *b = pb;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return (a->object > b->object) - (a->object < b->object);
}

/* All boxes of a kind are in one row by class: their class has that name. */
static void count_copies(struct search *s, struct hw_heap_boxes *out)
{
    uint64_t row;
    if (s->boxes.n)
        qsort(s->boxes.v, s->boxes.n, sizeof *s->boxes.v, by_value);
    for (size_t i = 1; i < s->boxes.n; i++) {
        const struct box *b = &s->boxes.v[i];
        if (b[-1].kind == b->kind && b[-1].value == b->value &&
            hw_map64_get(&s->by_class,
                         hw_heap_row_key(s->g, s->g->type[b->object], HW_ID_NONE, HW_ID_NONE),
                         &row))
            out->by_class.v[row].copies =
                hw_sat_add(out->by_class.v[row].copies, hw_object_weight(s->g, b->object));
    }
}

static int by_bytes(const void *pa, const void *pb)
{
    const struct hw_box_row *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    return a->field != b->field ? (a->field < b->field ? -1 : 1)
                                : (a->owner > b->owner) - (a->owner < b->owner);
}

static int search(const struct hw_profile *p, struct search *s, struct hw_heap_boxes *out)
{
    hw_str_id class[N_KINDS], value[N_KINDS];
    int rc = HW_OK;
    for (uint32_t k = 0; k < N_KINDS; k++) {
        class[k] = hw_heap_name_find(p, kinds[k].class);
        value[k] = hw_heap_name_find(p, kinds[k].value);
    }
    for (uint32_t o = 0; rc == HW_OK && o < s->g->n_objects; o++)
        for (uint32_t k = 0; rc == HW_OK && k < N_KINDS; k++) {
            if (!class[k].v || s->g->classes[s->g->type[o]].name.v != class[k].v ||
                !hw_object_is_reachable(s->g, o))
                continue;
            const struct hw_heap_primitive *v = hw_heap_primitive_of(s->g, o, value[k]);
            rc = v ? add_box(s, out, k, o, v) : HW_OK;
        }
    if (rc == HW_OK)
        count_copies(s, out);
    if (out->by_class.n)
        qsort(out->by_class.v, out->by_class.n, sizeof *out->by_class.v, by_bytes);
    if (out->by_holder.n)
        qsort(out->by_holder.v, out->by_holder.n, sizeof *out->by_holder.v, by_bytes);
    return rc;
}

int hw_heap_boxes_find(const struct hw_profile *p, const struct hw_heap_graph *g,
                       struct hw_heap_boxes *out)
{
    *out = (struct hw_heap_boxes){0};
    if (g->primitives.n == 0)
        return HW_ENOTFOUND;
    hw_autofree uint32_t *holder = hw_heap_first_holders(g);
    struct search s = {.g = g, .holder = holder};
    int rc = holder ? search(p, &s, out) : HW_ENOMEM;
    hw_map64_done(&s.by_class);
    hw_map64_done(&s.by_holder);
    hw_vec_done(&s.boxes);
    if (rc < 0)
        hw_heap_boxes_done(out);
    return rc;
}

void hw_heap_boxes_done(struct hw_heap_boxes *b)
{
    hw_vec_done(&b->by_class);
    hw_vec_done(&b->by_holder);
}
