/*
 * random_heap.h - small random heap graphs, and what is reached in them, the slow way
 *
 * Shapes:  some objects have no bytes, some are never described, two classes share a name, objects
 *          of some classes hold a class object. reached:
 *          by object, when the object `without` is not there (HW_ID_NONE: all are).
 */
#ifndef HW_TESTS_UNIT_VIEWS_RANDOM_HEAP_H
#define HW_TESTS_UNIT_VIEWS_RANDOM_HEAP_H

#include "test.h"

#include "base/bytes.h"
#include "model/graph/heap_graph_build.h"
#include "model/profile.h"

enum { MAX_OBJECTS = 40, N_CLASSES = 6 };

static uint64_t state = 88172645463325252u;

static inline uint32_t pick(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

static inline hw_str_id str(struct hw_profile *p, const char *s)
{
    hw_str_id id;
    assert_int_equal(hw_profile_str(p, hw_bytes_str(s), &id), 0);
    return id;
}

/* Ids are scattered and described in any order; some are never described. */
static inline const struct hw_heap_graph *random_graph(struct hw_profile *p)
{
    static const char *const names[N_CLASSES] = {"C", "A", "Weak", "B", "A", "D"};
    struct hw_graph_builder *b;
    struct hw_heap_graph *g;
    uint32_t n = 1 + pick(MAX_OBJECTS), density = 1 + pick(4), referent;
    uint64_t ids[MAX_OBJECTS];
    assert_int_equal(hw_graph_builder_new(hw_callsites_strings(p->callsites), &b), 0);
    assert_int_equal(
        hw_graph_field(b, str(p, "java.lang.ref.Reference.referent"), (hw_str_id){0}, &referent),
        0);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = 16 * (uint64_t)(i + 1) + 100000 * pick(3);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = pick(n);
        uint64_t swap = ids[i];
        ids[i] = ids[k];
        ids[k] = swap;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct hw_graph_object o = {.id = ids[i],
                                    .class_id = pick(N_CLASSES),
                                    .self_size = pick(12),
                                    .heap_type = pick(20) ? HW_HEAP_TYPE_APP : HW_HEAP_TYPE_ZYGOTE};
        assert_int_equal(hw_graph_object(b, &o), 0);
        for (uint32_t k = pick(density + 1); k > 0; k--) {
            uint64_t to = pick(12) ? ids[pick(n)] : pick(3) ? 0 : 7 + pick(3);
            assert_int_equal(hw_graph_ref(b, to, pick(3) ? HW_FIELD_NONE : referent), 0);
        }
    }
    for (uint32_t i = 0; i < N_CLASSES; i++) {
        struct hw_graph_class c = {.name = str(p, names[i]),
                                   .kind = i == 2 ? HW_KIND_WEAK_REFERENCE : HW_KIND_NORMAL,
                                   .held = pick(5) == 0 ? ids[pick(n)] : pick(20) == 0};
        assert_int_equal(hw_graph_class(b, i, &c), 0);
    }
    for (uint32_t k = pick(4); k > 0; k--)
        assert_int_equal(hw_graph_root(b, ids[pick(n)], (enum hw_root_type)pick(HW_ROOT_COUNT)), 0);
    assert_int_equal(hw_graph_finish(b, &g, NULL), 0);
    for (uint32_t i = 0; i < n; i++) { /* what was said of an object is said of its number */
        uint32_t o;
        assert_true(hw_graph_find(b, ids[i], &o));
        assert_int_equal(o, i);
    }
    for (uint32_t o = 0; o < g->n_objects; o++)
        if (pick(6) == 0) {
            g->flags[o] |= HW_OBJECT_NATIVE;
            struct hw_heap_native native = {o, 1 + pick(100)};
            assert_int_equal(hw_vec_push(&g->native, native), 0);
        }
    hw_graph_builder_free(b);
    assert_int_equal(hw_profile_add_graph(p, g), 0);
    return g;
}

/* ---- reachability without one object ---- */

static inline bool keeps(const struct hw_heap_graph *g, uint32_t from, uint32_t to)
{
    for (uint32_t r = g->first_ref[from]; r < g->first_ref[from + 1]; r++)
        if (g->ref_owned[r] == to && hw_ref_is_strong(g, from, r))
            return true;
    return g->classes[g->type[from]].held == to;
}

static inline void reach(const struct hw_heap_graph *g, uint32_t without, uint8_t *reached)
{
    bool again = true;
    for (uint32_t o = 0; o < g->n_objects; o++)
        reached[o] = o != without && hw_object_is_root(g, o);
    while (again) {
        again = false;
        for (uint32_t o = 0; o < g->n_objects; o++)
            for (uint32_t to = 0; reached[o] && to < g->n_objects; to++)
                if (to != without && !reached[to] && keeps(g, o, to))
                    again = (reached[to] = 1) != 0;
    }
}

#endif
