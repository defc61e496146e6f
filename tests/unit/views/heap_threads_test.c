/* What threads retain in random graphs, against the definition: without a thread's roots, what is no longer reached. */
#include <string.h>

#include "test.h"

#include "model/profile.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_threads.h"

#include "views/random_heap.h"

enum { N_GRAPHS = 3000, N_THREADS = 4 };

static struct hw_heap_graph *random_threads(struct hw_profile *p)
{
    struct hw_heap_graph *g = p->graphs.v[p->graphs.n - 1];
    for (uint32_t i = 0; i < N_THREADS; i++) {
        struct hw_heap_thread t = {.object = HW_ID_NONE, .callsite = {HW_ID_NONE}};
        assert_int_equal(hw_vec_push(&g->threads, t), 0);
    }
    for (uint32_t o = 0; o < g->n_objects; o++)
        for (uint32_t k = hw_object_is_root(g, o) ? pick(4) : pick(12) == 0; k > 0; k--) {
            struct hw_heap_holder h = {.object = o,
                                       .root_type = HW_ROOT_JAVA_FRAME,
                                       .thread = pick(6) ? pick(N_THREADS) : HW_ID_NONE,
                                       .depth = pick(3) ? pick(2) : HW_ID_NONE,
                                       .frame = {HW_ID_NONE},
                                       .slot = (int32_t)pick(3) - 1};
            if (hw_object_is_root(g, o) && pick(8))
                h.root_type = hw_object_root_type(g, o);
            if (pick(2)) /* many of one thread, else few roots are its own */
                h.thread = o % N_THREADS;
            assert_int_equal(hw_vec_push(&g->holders, h), 0);
        }
    hw_heap_graph_sort_holders(g);
    return g;
}

/* The roots that thread t holds, and nobody else. */
static bool is_root_of(const struct hw_heap_graph *g, uint32_t o, uint32_t t)
{
    bool is_held = false;
    if (!hw_object_is_root(g, o))
        return false;
    for (size_t i = 0; i < g->holders.n; i++) {
        const struct hw_heap_holder *h = &g->holders.v[i];
        if (h->object == o && h->thread != t)
            return false;
        is_held |= h->object == o && h->root_type == hw_object_root_type(g, o);
    }
    return is_held;
}

/* reached: without the thread's roots. */
static struct hw_heap_sum lost_without(struct hw_heap_graph *g, uint32_t t, uint8_t *reached)
{
    struct hw_heap_sum lost = {0};
    uint16_t flags[MAX_OBJECTS * 2];
    memcpy(flags, g->flags, g->n_objects * sizeof *flags);
    for (uint32_t o = 0; o < g->n_objects; o++)
        if (is_root_of(g, o, t))
            flags[o] &= (uint16_t)~HW_OBJECT_ROOT;
    uint16_t *kept = g->flags;
    g->flags = flags;
    reach(g, HW_ID_NONE, reached);
    g->flags = kept;
    for (uint32_t o = 0; o < g->n_objects; o++)
        if (hw_object_is_reachable(g, o) && !reached[o]) {
            lost.count++;
            lost.size += hw_object_weight(g, o);
            lost.native += hw_object_native_size(g, o);
        }
    return lost;
}

static size_t count_places(const struct hw_heap_graph *g, uint32_t t)
{
    size_t n = 0;
    for (size_t i = 0; i < g->holders.n; i++) {
        const struct hw_heap_holder *h = &g->holders.v[i];
        bool is_new = h->thread == t && hw_object_is_root(g, h->object);
        for (size_t k = 0; k < i; k++)
            is_new &= g->holders.v[k].object != h->object || g->holders.v[k].thread != t ||
                      g->holders.v[k].depth != h->depth;
        n += is_new;
    }
    return n;
}

static void check_thread(struct hw_heap_graph *g, const struct hw_dominators *d,
                         const struct hw_thread_heaps *found, uint32_t t)
{
    uint8_t reached[MAX_OBJECTS * 2];
    struct hw_heap_sum lost = lost_without(g, t, reached);
    const struct hw_thread_heap *row = NULL;
    for (size_t i = 0; i < found->v.n; i++)
        if (found->v.v[i].thread == t)
            row = &found->v.v[i];
    if (!row) {
        assert_int_equal(lost.count, 0);
        assert_int_equal(count_places(g, t), 0);
        return;
    }
    assert_memory_equal(&row->retained, &lost, sizeof lost);
    assert_int_equal(row->n_variables, count_places(g, t));
    for (size_t i = 0; i < row->n_variables; i++) {
        const struct hw_thread_variable *x = &found->variables.v[row->first_variable + i];
        uint32_t at = d->position[x->holder->object];
        assert_int_equal(x->holder->thread, t);
        assert_int_equal(x->retained, d->size[at] + (d->native ? d->native[at] : 0));
        assert_int_equal(x->is_only, !reached[x->holder->object]);
        if (i == 0)
            continue;
        const struct hw_thread_variable *above = x - 1;
        assert_true(above->holder->depth < x->holder->depth ||
                    (above->holder->depth == x->holder->depth && above->retained >= x->retained));
    }
}

static void random_graphs(void **unused)
{
    (void)unused;
    size_t n_retaining = 0, n_only_reached = 0;
    for (int i = 0; i < N_GRAPHS; i++) {
        struct hw_profile *p;
        struct hw_dominators d;
        struct hw_thread_heaps found;
        assert_int_equal(hw_profile_new(&p), 0);
        (void)random_graph(p);
        struct hw_heap_graph *g = random_threads(p);
        assert_int_equal(hw_dominators_build(g, &d), 0);
        assert_int_equal(hw_heap_threads_find(g, &d, &found), 0);
        for (uint32_t t = 0; t < N_THREADS; t++)
            check_thread(g, &d, &found, t);
        for (size_t k = 0; k < found.v.n; k++) {
            n_retaining += found.v.v[k].retained.count > 0;
            n_only_reached += found.v.v[k].retained.count > (int64_t)found.v.v[k].n_variables;
            if (k)
                assert_true(found.v.v[k - 1].retained.size + found.v.v[k - 1].retained.native >=
                            found.v.v[k].retained.size + found.v.v[k].retained.native);
        }
        hw_heap_threads_done(&found);
        hw_dominators_done(&d);
        hw_profile_free(p);
    }
    assert_true(n_retaining > 500 && n_only_reached > 200);
}

HW_TEST_MAIN(cmocka_unit_test(random_graphs))
