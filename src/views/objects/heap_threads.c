/*
 * A thread's retained set is what a node of its own, above its roots, would dominate. Such nodes are
 * directly below our root, so no tree is needed: an object is below the thread's node if no other
 * root reaches it. Colours spread along references: 0 = not reached, MANY, or FIRST + thread. What a
 * second colour reaches becomes MANY, and so does all that it refers to. Colours only rise, so each
 * object spreads at most two.
 */
#include "views/objects/heap_threads.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/saturate.h"

#include "base/banned.h"

enum { MANY = 1, FIRST = 2 };

struct spread {
    const struct hw_heap_graph *g;
    uint32_t *colour;         /* by object */
    HW_VEC(uint32_t) waiting; /* of the colour that spreads */
    HW_VEC(uint32_t) shared;  /* became MANY meanwhile */
};

/* The thread that alone holds a root. A kind of root without a holder is held by somebody else. */
static uint32_t owner_of(const struct hw_heap_graph *g, uint32_t o)
{
    size_t n;
    const struct hw_heap_holder *h = hw_object_holders(g, o, &n);
    bool is_kind_held = false;
    for (size_t i = 0; i < n; i++) {
        is_kind_held |= h[i].root_type == hw_object_root_type(g, o);
        if (h[i].thread == HW_ID_NONE || h[i].thread != h[0].thread)
            return MANY;
    }
    return is_kind_held ? FIRST + h[0].thread : MANY;
}

static int reach(struct spread *s, uint32_t o, uint32_t colour)
{
    uint32_t *has = &s->colour[o];
    if (*has == colour || *has == MANY)
        return HW_OK;
    if (*has == 0 || colour == MANY) {
        *has = colour;
        return hw_vec_push(&s->waiting, o) < 0 ? HW_ENOMEM : HW_OK;
    }
    *has = MANY;
    return hw_vec_push(&s->shared, o) < 0 ? HW_ENOMEM : HW_OK;
}

static int spread(struct spread *s, uint32_t colour)
{
    int rc = HW_OK;
    while (rc == HW_OK && s->waiting.n) {
        uint32_t o = s->waiting.v[--s->waiting.n];
        if (s->colour[o] != colour)
            continue; /* shared meanwhile */
        for (uint32_t r = s->g->first_ref[o]; rc == HW_OK && r < s->g->first_ref[o + 1]; r++)
            if (hw_ref_is_strong(s->g, o, r))
                rc = reach(s, s->g->ref_owned[r], colour);
        uint32_t class_object = hw_object_held_class(s->g, o);
        if (rc == HW_OK && class_object != HW_ID_NONE)
            rc = reach(s, class_object, colour);
    }
    return rc;
}

struct owned_root {
    uint32_t colour, object;
};

static int by_colour(const void *pa, const void *pb)
{
    const struct owned_root *a = pa, *b = pb;
    if (a->colour != b->colour)
        return a->colour < b->colour ? -1 : 1;
    return (a->object > b->object) - (a->object < b->object);
}

static int spread_all(struct spread *s)
{
    HW_VEC(struct owned_root) roots = {0};
    int rc = HW_OK;
    for (uint32_t o = 0; rc == HW_OK && o < s->g->n_objects; o++)
        if (hw_object_is_root(s->g, o) &&
            hw_vec_push(&roots, (struct owned_root){owner_of(s->g, o), o}) < 0)
            rc = HW_ENOMEM;
    if (roots.n)
        qsort(roots.v, roots.n, sizeof *roots.v, by_colour);
    for (size_t i = 0; rc == HW_OK && i < roots.n;) { /* MANY comes first: most objects have it */
        uint32_t colour = roots.v[i].colour;
        for (; rc == HW_OK && i < roots.n && roots.v[i].colour == colour; i++)
            rc = reach(s, roots.v[i].object, colour);
        rc = rc < 0 ? rc : spread(s, colour);
    }
    hw_vec_done(&roots);
    for (size_t i = 0; rc == HW_OK && i < s->shared.n; i++)
        rc = hw_vec_push(&s->waiting, s->shared.v[i]) < 0 ? HW_ENOMEM : HW_OK;
    return rc < 0 ? rc : spread(s, MANY);
}

/* ---- rows ---- */

static int64_t dominated(const struct hw_dominators *d, uint32_t o)
{
    uint32_t at = d->position[o];
    return d->native ? hw_sat_add(d->size[at], d->native[at]) : d->size[at];
}

static int by_place(const void *pa, const void *pb)
{
    const struct hw_thread_variable *a = pa, *b = pb;
    if (a->holder->thread != b->holder->thread)
        return a->holder->thread < b->holder->thread ? -1 : 1;
    if (a->holder->depth != b->holder->depth)
        return a->holder->depth < b->holder->depth ? -1 : 1;
    if (a->retained != b->retained)
        return a->retained > b->retained ? -1 : 1;
    if (a->holder->object != b->holder->object)
        return a->holder->object < b->holder->object ? -1 : 1;
    return (a->holder > b->holder) - (a->holder < b->holder);
}

static bool is_same_place(const struct hw_thread_variable *a, const struct hw_thread_variable *b)
{
    return a->holder->thread == b->holder->thread && a->holder->depth == b->holder->depth &&
           a->holder->object == b->holder->object;
}

static int list_variables(const struct spread *s, const struct hw_dominators *d,
                          struct hw_thread_heaps *out)
{
    const struct hw_heap_graph *g = s->g;
    size_t n = 0;
    for (size_t i = 0; i < g->holders.n; i++) {
        const struct hw_heap_holder *h = &g->holders.v[i];
        if (h->thread == HW_ID_NONE || !hw_object_is_root(g, h->object))
            continue;
        struct hw_thread_variable v = {h, dominated(d, h->object),
                                       s->colour[h->object] == FIRST + h->thread};
        if (hw_vec_push(&out->variables, v) < 0)
            return HW_ENOMEM;
    }
    if (out->variables.n)
        qsort(out->variables.v, out->variables.n, sizeof *out->variables.v, by_place);
    for (size_t i = 0; i < out->variables.n; i++)
        if (!n || !is_same_place(&out->variables.v[n - 1], &out->variables.v[i]))
            out->variables.v[n++] = out->variables.v[i];
    out->variables.n = n;
    return HW_OK;
}

static void sum_up(const struct spread *s, struct hw_heap_sum *by_thread)
{
    for (uint32_t o = 0; o < s->g->n_objects; o++) {
        if (s->colour[o] < FIRST)
            continue;
        struct hw_heap_sum *sum = &by_thread[s->colour[o] - FIRST];
        sum->count++;
        sum->size = hw_sat_add(sum->size, hw_object_weight(s->g, o));
        sum->native = hw_sat_add(sum->native, hw_object_native_size(s->g, o));
    }
}

static int by_retained(const void *pa, const void *pb)
{
    const struct hw_thread_heap *a = pa, *b = pb;
    int64_t x = hw_sat_add(a->retained.size, a->retained.native),
            y = hw_sat_add(b->retained.size, b->retained.native);
    if (x != y)
        return x > y ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Variables are sorted by thread; a thread without any has no row. */
static int list_threads(const struct spread *s, struct hw_thread_heaps *out)
{
    hw_autofree struct hw_heap_sum *sums = calloc(s->g->threads.n + 1, sizeof *sums);
    size_t end;
    if (!sums)
        return HW_ENOMEM;
    sum_up(s, sums);
    for (size_t i = 0; i < out->variables.n; i = end) {
        uint32_t thread = out->variables.v[i].holder->thread;
        for (end = i; end < out->variables.n && out->variables.v[end].holder->thread == thread;)
            end++;
        struct hw_thread_heap row = {thread, sums[thread], i, end - i};
        if (hw_vec_push(&out->v, row) < 0)
            return HW_ENOMEM;
    }
    if (out->v.n)
        qsort(out->v.v, out->v.n, sizeof *out->v.v, by_retained);
    return HW_OK;
}

int hw_heap_threads_find(const struct hw_heap_graph *g, const struct hw_dominators *d,
                         struct hw_thread_heaps *out)
{
    hw_autofree uint32_t *colour = calloc((size_t)g->n_objects + 1, sizeof *colour);
    struct spread s = {.g = g, .colour = colour};
    *out = (struct hw_thread_heaps){0};
    int rc = colour ? spread_all(&s) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = list_variables(&s, d, out);
    if (rc == HW_OK)
        rc = list_threads(&s, out);
    hw_vec_done(&s.waiting);
    hw_vec_done(&s.shared);
    if (rc < 0)
        hw_heap_threads_done(out);
    return rc;
}

void hw_heap_threads_done(struct hw_thread_heaps *t)
{
    hw_vec_done(&t->v);
    hw_vec_done(&t->variables);
    *t = (struct hw_thread_heaps){0};
}
