/*
 * The roots of a heap graph, and what they reach by strong references. An object that several roots
 * name keeps the kind with the lowest rank.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/error.h"
#include "model/graph/heap_graph_builder.h"

#include "base/banned.h"

enum { AHEAD = 16 };

static int root_rank(enum hw_root_type t)
{
    return t == HW_ROOT_STICKY_CLASS ? 0
           : t == HW_ROOT_JNI_GLOBAL ? 1
           : t == HW_ROOT_JNI_LOCAL  ? 2
                                     : 3;
}

static void make_root(struct hw_heap_graph *g, uint32_t o, enum hw_root_type type)
{
    if (hw_object_is_root(g, o) && root_rank(hw_object_root_type(g, o)) <= root_rank(type))
        return;
    unsigned others = g->flags[o] & ~(unsigned)HW_OBJECT_ROOT;
    g->flags[o] = (uint16_t)(others | ((unsigned)type + 1));
}

void hw_graph_make_roots(const struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    uint32_t o;
    for (size_t i = 0; i < b->roots.n; i++)
        if (b->roots.v[i].type != HW_ROOT_COMPILED_CODE &&
            hw_graph_find(b, b->roots.v[i].object, &o))
            make_root(g, o, b->roots.v[i].type);
    for (o = 0; o < g->n_objects; o++) { /* those only referred to are in no heap */
        enum hw_heap_type t = hw_object_heap_type(g, o);
        if (t == HW_HEAP_TYPE_ZYGOTE || t == HW_HEAP_TYPE_BOOT_IMAGE)
            make_root(g, o, HW_ROOT_VM_INTERNAL);
    }
}

/*
 * What was reached and not yet looked into, in the order in which it was. The lines of memory that
 * an object takes are asked for when it is some steps away: they lie anywhere.
 */
struct marking {
    struct hw_heap_graph *g;
    bool any_referent; /* else every reference is strong */
    uint32_t *queue;   /* owned; room for all objects */
    size_t head, tail;
    uint32_t met[AHEAD]; /* targets of references, whose flags are on their way; a ring */
    size_t n_met;
};

static void reach(struct marking *m, uint32_t o)
{
    if (hw_object_is_reachable(m->g, o))
        return;
    m->g->flags[o] |= HW_OBJECT_REACHABLE;
    m->queue[m->tail++] = o;
}

static void meet(struct marking *m, uint32_t o)
{
    uint32_t *slot = &m->met[m->n_met % AHEAD];
    hw_prefetch_write(&m->g->flags[o]);
    if (m->n_met++ >= AHEAD)
        reach(m, *slot);
    *slot = o;
}

static void reach_all_met(struct marking *m)
{
    size_t n = m->n_met < AHEAD ? m->n_met : AHEAD;
    for (size_t i = m->n_met - n; i < m->n_met; i++)
        reach(m, m->met[i % AHEAD]);
    m->n_met = 0;
}

static void fetch_ahead(const struct marking *m)
{
    const struct hw_heap_graph *g = m->g;
    if (m->head + 2 * AHEAD >= m->tail)
        return;
    uint32_t far = m->queue[m->head + 2 * AHEAD], near = m->queue[m->head + AHEAD];
    __builtin_prefetch(&g->first_ref[far]);
    if (m->any_referent)
        __builtin_prefetch(&g->type[far]);
    __builtin_prefetch(&g->ref_owned[g->first_ref[near]]);
}

static void look_into(struct marking *m, uint32_t o)
{
    const struct hw_heap_graph *g = m->g;
    bool may_be_weak = m->any_referent && g->classes[g->type[o]].is_weak;
    for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++)
        if (g->ref_owned[r] != HW_ID_NONE && (!may_be_weak || hw_ref_is_strong(g, o, r)))
            meet(m, g->ref_owned[r]);
}

int hw_graph_mark_reachable(struct hw_heap_graph *g)
{
    struct marking m = {.g = g};
    m.queue = malloc(((size_t)g->n_objects + 1) * sizeof *m.queue);
    if (!m.queue)
        return HW_ENOMEM;
    for (uint32_t f = 0; f < g->n_fields; f++)
        m.any_referent |= g->fields[f].is_referent;
    for (uint32_t o = 0; o < g->n_objects; o++)
        if (hw_object_is_root(g, o))
            reach(&m, o);
    while (m.head < m.tail) {
        fetch_ahead(&m);
        look_into(&m, m.queue[m.head++]);
        if (m.head == m.tail)
            reach_all_met(&m);
    }
    free(m.queue);
    return HW_OK;
}

int hw_graph_mark_named_by_code(const struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    uint32_t o;
    bool any = false;
    for (size_t i = 0; i < b->roots.n; i++)
        if (b->roots.v[i].type == HW_ROOT_COMPILED_CODE &&
            hw_graph_find(b, b->roots.v[i].object, &o) && !hw_object_is_reachable(g, o)) {
            make_root(g, o, HW_ROOT_COMPILED_CODE);
            any = true;
        }
    return any ? hw_graph_mark_reachable(g) : HW_OK;
}
