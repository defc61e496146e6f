/*
 * The roots of a heap graph, and what they reach by strong references. An object with several kinds
 * of roots gets the kind with the lowest rank.
 */
#include "base/bytes.h"
#include "base/error.h"
#include "base/side_thread.h"
#include "model/graph/heap_graph_builder.h"

#include "base/banned.h"

enum { AHEAD = 64 }; /* as HW_GRAPH_AHEAD */

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

static void make_heap_roots(void *ctx, size_t from, size_t end)
{
    struct hw_heap_graph *g = ctx;
    for (size_t o = from; o < end; o++) { /* undescribed objects are in no heap */
        enum hw_heap_type t = hw_object_heap_type(g, (uint32_t)o);
        if (t == HW_HEAP_TYPE_ZYGOTE || t == HW_HEAP_TYPE_BOOT_IMAGE)
            make_root(g, (uint32_t)o, HW_ROOT_VM_INTERNAL);
    }
}

void hw_graph_make_roots(const struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    uint32_t o;
    for (size_t i = 0; i < b->roots.n; i++)
        if (b->roots.v[i].type != HW_ROOT_COMPILED_CODE &&
            hw_graph_find(b, b->roots.v[i].object, &o))
            make_root(g, o, b->roots.v[i].type);
    hw_in_halves(g->n_objects, make_heap_roots, g);
}

/*
 * Most references lead to objects with larger numbers, as numbers follow the first mention: one
 * pass in the order of numbers visits most objects after something has reached them. Objects that
 * are reached after the pass has visited them go on a stack and are visited at once.
 */
struct marking {
    struct hw_heap_graph *g;
    bool any_referent;      /* else every reference is strong */
    uint32_t at;            /* the pass is at this object */
    HW_VEC(uint32_t) stack; /* objects before `at`, to visit */
};

static int reach(struct marking *m, uint32_t to)
{
    if (hw_object_is_reachable(m->g, to))
        return HW_OK;
    m->g->flags[to] |= HW_OBJECT_REACHABLE;
    return to < m->at && hw_vec_push(&m->stack, to) < 0 ? HW_ENOMEM : HW_OK;
}

static int visit(struct marking *m, uint32_t o)
{
    struct hw_heap_graph *g = m->g;
    uint32_t class_object = hw_object_held_class_below(g, o);
    bool may_be_weak = m->any_referent && g->classes[g->type[o]].is_weak;
    for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++) {
        uint32_t to = g->ref_owned[r];
        if (r + AHEAD < g->n_refs && g->ref_owned[r + AHEAD] != HW_ID_NONE)
            hw_prefetch_write(&g->flags[g->ref_owned[r + AHEAD]]);
        if (to == HW_ID_NONE || (may_be_weak && !hw_ref_is_strong(g, o, r)))
            continue;
        if (reach(m, to) < 0)
            return HW_ENOMEM;
    }
    return class_object == HW_ID_NONE ? HW_OK : reach(m, class_object);
}

static int visit_stack(struct marking *m)
{
    int rc = HW_OK;
    while (rc == HW_OK && m->stack.n)
        rc = visit(m, m->stack.v[--m->stack.n]);
    return rc;
}

static void begin_marking(struct marking *m, struct hw_heap_graph *g)
{
    *m = (struct marking){.g = g};
    for (uint32_t f = 0; f < g->n_fields; f++)
        m->any_referent |= g->fields[f].is_referent;
}

int hw_graph_mark_reachable(struct hw_heap_graph *g)
{
    struct marking m;
    int rc = HW_OK;
    begin_marking(&m, g);
    for (uint32_t o = 0; rc == HW_OK && o < g->n_objects; o++) {
        m.at = o;
        if (hw_object_is_root(g, o))
            g->flags[o] |= HW_OBJECT_REACHABLE; /* may be set already */
        if (hw_object_is_reachable(g, o))
            rc = visit(&m, o);
        if (m.stack.n)
            rc = rc < 0 ? rc : visit_stack(&m);
    }
    hw_vec_done(&m.stack);
    return rc;
}

int hw_graph_mark_named_by_code(const struct hw_graph_builder *b, struct hw_heap_graph *g)
{
    uint32_t o;
    struct marking m;
    int rc = HW_OK;
    begin_marking(&m, g);
    m.at = g->n_objects; /* the pass is over */
    for (size_t i = 0; rc == HW_OK && i < b->roots.n; i++)
        if (b->roots.v[i].type == HW_ROOT_COMPILED_CODE &&
            hw_graph_find(b, b->roots.v[i].object, &o) && !hw_object_is_reachable(g, o)) {
            make_root(g, o, HW_ROOT_COMPILED_CODE);
            if (hw_vec_push(&m.stack, o) < 0)
                rc = HW_ENOMEM;
        }
    for (size_t i = 0; i < m.stack.n; i++)
        g->flags[m.stack.v[i]] |= HW_OBJECT_REACHABLE;
    if (rc == HW_OK)
        rc = visit_stack(&m);
    hw_vec_done(&m.stack);
    return rc;
}
