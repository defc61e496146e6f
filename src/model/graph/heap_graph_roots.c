/*
 * The roots of a heap graph, and what they reach by strong references. An object that several roots
 * name keeps the kind with the lowest rank.
 */
#include "base/error.h"
#include "base/memory/vec.h"
#include "model/graph/heap_graph_builder.h"

#include "base/banned.h"

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

int hw_graph_mark_reachable(struct hw_heap_graph *g)
{
    HW_VEC(uint32_t) open = {0};
    int rc = HW_OK;
    for (uint32_t root = 0; rc == HW_OK && root < g->n_objects; root++) {
        if (!hw_object_is_root(g, root) || hw_object_is_reachable(g, root))
            continue;
        g->flags[root] |= HW_OBJECT_REACHABLE;
        if (hw_vec_push(&open, root) < 0)
            rc = HW_ENOMEM;
        while (rc == HW_OK && open.n) {
            uint32_t o = open.v[--open.n];
            for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++) {
                uint32_t to = g->ref_owned[r];
                if (to == HW_ID_NONE || hw_object_is_reachable(g, to) || !hw_ref_is_strong(g, o, r))
                    continue;
                g->flags[to] |= HW_OBJECT_REACHABLE;
                if (hw_vec_push(&open, to) < 0)
                    rc = HW_ENOMEM;
            }
        }
    }
    hw_vec_done(&open);
    return rc;
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
