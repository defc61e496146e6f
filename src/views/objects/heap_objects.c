/* The best offset + limit objects so far are in a binary heap whose top is the worst of them. */
#include "views/objects/heap_objects.h"

#include <stdlib.h>

#include "base/error.h"
#include "views/time/values.h"

#include "base/banned.h"

struct row {
    int64_t key;
    uint32_t object;
};

struct best {
    HW_VEC(struct row) v;
    size_t max_rows;
    bool down;
};

struct hw_heap_sum hw_object_retained(const struct hw_dominators *d, uint32_t object)
{
    uint32_t at = d->position[object];
    if (at == HW_ID_NONE)
        return (struct hw_heap_sum){0};
    return (struct hw_heap_sum){d->count[at], d->size[at], d->native ? d->native[at] : 0};
}

static int64_t key_of(const struct hw_objects_query *q, uint32_t o)
{
    const struct hw_heap_graph *g = q->g;
    switch (q->by) {
    case HW_OBJECTS_BY_NUMBER:
    case HW_OBJECTS_ORDER_COUNT:
        return o;
    case HW_OBJECTS_BY_CLASS:
        return q->class_rank ? q->class_rank[g->type[o]] : g->type[o];
    case HW_OBJECTS_BY_SIZE:
        return hw_object_weight(g, o);
    case HW_OBJECTS_BY_NATIVE:
        return hw_object_native_size(g, o);
    case HW_OBJECTS_BY_RETAINED:
        return hw_object_retained(q->dominators, o).size;
    case HW_OBJECTS_BY_RETAINED_NATIVE:
        return hw_object_retained(q->dominators, o).native;
    case HW_OBJECTS_BY_RETAINED_COUNT:
        return hw_object_retained(q->dominators, o).count;
    case HW_OBJECTS_BY_REACHABLE:
        return hw_object_is_reachable(g, o);
    case HW_OBJECTS_BY_HEAP:
        return hw_object_heap_type(g, o);
    case HW_OBJECTS_BY_ROOT:
        return g->flags[o] & HW_OBJECT_ROOT;
    }
    return 0;
}

/* Whether x comes before y. */
static bool before(const struct best *b, const struct row *x, const struct row *y)
{
    if (x->key != y->key)
        return (x->key > y->key) == b->down;
    return x->object < y->object;
}

static void sift_down(struct best *b, size_t i, size_t n)
{
    struct row x = b->v.v[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(b, &b->v.v[child], &b->v.v[child + 1]))
            child++;
        if (!before(b, &x, &b->v.v[child]))
            break;
        b->v.v[i] = b->v.v[child];
    }
    b->v.v[i] = x;
}

static int insert(struct best *b, struct row x)
{
    if (b->v.n == b->max_rows) {
        if (b->max_rows && before(b, &x, &b->v.v[0])) {
            b->v.v[0] = x;
            sift_down(b, 0, b->v.n);
        }
        return HW_OK;
    }
    if (hw_vec_push(&b->v, x) < 0)
        return HW_ENOMEM;
    size_t i = b->v.n - 1;
    for (; i > 0 && before(b, &b->v.v[(i - 1) / 2], &x); i = (i - 1) / 2)
        b->v.v[i] = b->v.v[(i - 1) / 2];
    b->v.v[i] = x;
    return HW_OK;
}

static int add_object(const struct hw_objects_query *q, struct best *b, uint32_t o,
                      struct hw_objects *out)
{
    if (q->keep && !q->keep(q->ctx, o))
        return HW_OK;
    out->n_all++;
    out->sum.count++;
    out->sum.size = hw_sat_add(out->sum.size, hw_object_weight(q->g, o));
    out->sum.native = hw_sat_add(out->sum.native, hw_object_native_size(q->g, o));
    return insert(b, (struct row){key_of(q, o), o});
}

int hw_objects_find(const struct hw_objects_query *q, struct hw_objects *out)
{
    struct best b = {.max_rows = q->limit > SIZE_MAX - q->offset ? SIZE_MAX : q->offset + q->limit,
                     .down = q->down};
    struct hw_objects found = {0};
    int rc = HW_OK;
    if (q->dominated)
        for (uint32_t i = q->dominated->first[q->below];
             rc == HW_OK && i < q->dominated->first[q->below + 1]; i++)
            rc = add_object(q, &b, q->dominators->object[q->dominated->item[i]], &found);
    else
        for (uint32_t o = 0; rc == HW_OK && o < q->g->n_objects; o++)
            rc = add_object(q, &b, o, &found);
    /* Heap sort: moves the worst to the end repeatedly. */
    for (size_t n = b.v.n; n > 1; n--) {
        struct row last = b.v.v[0];
        b.v.v[0] = b.v.v[n - 1];
        b.v.v[n - 1] = last;
        sift_down(&b, 0, n - 1);
    }
    for (size_t i = q->offset; rc == HW_OK && i < b.v.n; i++)
        rc = hw_vec_push(&found.v, b.v.v[i].object) < 0 ? HW_ENOMEM : HW_OK;
    hw_vec_done(&b.v);
    if (rc < 0) {
        hw_objects_done(&found);
        return rc;
    }
    *out = found;
    return HW_OK;
}

void hw_objects_done(struct hw_objects *o)
{
    hw_vec_done(&o->v);
}
