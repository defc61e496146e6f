/* Views of heap graphs against slow twins that follow the definitions, on random graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "model/profile.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_links.h"
#include "views/objects/heap_objects.h"
#include "views/objects/heap_paths.h"
#include "views/objects/heap_release.h"
#include "views/objects/heap_tree.h"

#include "views/random_heap.h"

enum { N_GRAPHS = 3000 };

/* without[d][o]: whether o is reached when d is not there. */
static uint8_t without[MAX_OBJECTS * 2][MAX_OBJECTS * 2];

static bool dominates(const struct hw_heap_graph *g, uint32_t d, uint32_t o)
{
    return hw_object_is_reachable(g, o) && hw_object_is_reachable(g, d) && !without[d][o];
}

static void check_dominators(const struct hw_heap_graph *g, const struct hw_dominators *d)
{
    for (uint32_t o = 0; o < g->n_objects; o++) {
        uint32_t at = d->position[o], n_above = 0, nearest = HW_ID_NONE;
        assert_int_equal(at != HW_ID_NONE, hw_object_is_reachable(g, o));
        if (at == HW_ID_NONE)
            continue;
        assert_int_equal(d->object[at], o);
        struct hw_heap_sum s = {0};
        for (uint32_t x = 0; x < g->n_objects; x++) {
            if (dominates(g, o, x)) {
                s.count++;
                s.size += hw_object_weight(g, x);
                s.native += hw_object_native_size(g, x);
            }
            if (x != o && dominates(g, x, o)) {
                n_above++;
                if (nearest == HW_ID_NONE || dominates(g, nearest, x))
                    nearest = x;
            }
        }
        assert_int_equal(d->depth[at], n_above + 1);
        assert_int_equal(d->count[at], s.count);
        assert_int_equal(d->size[at], s.size);
        assert_int_equal(d->native ? d->native[at] : 0, s.native);
        uint32_t up = d->idom[at];
        assert_true(up == HW_ID_NONE || up < at);
        assert_int_equal(up == HW_ID_NONE ? HW_ID_NONE : d->object[up], nearest);
    }
}

static void check_classes(const struct hw_heap_graph *g, const struct hw_dominators *d)
{
    struct hw_class_sum sums[N_CLASSES + 1];
    assert_true(g->n_classes <= N_CLASSES + 1);
    assert_int_equal(hw_heap_class_sums(g, d, sums), 0);
    for (uint32_t c = 0; c < g->n_classes; c++) {
        struct hw_class_sum want = {0};
        for (uint32_t o = 0; o < g->n_objects; o++) {
            bool below = false;
            for (uint32_t x = 0; x < g->n_objects; x++)
                below |= g->type[x] == c && dominates(g, x, o);
            want.dominated.count += below;
            want.dominated.size += below ? hw_object_weight(g, o) : 0;
            want.all.count += g->type[o] == c;
            want.reachable.count += g->type[o] == c && hw_object_is_reachable(g, o);
        }
        assert_int_equal(sums[c].all.count, want.all.count);
        assert_int_equal(sums[c].reachable.count, want.reachable.count);
        assert_int_equal(sums[c].dominated.count, want.dominated.count);
        assert_int_equal(sums[c].dominated.size, want.dominated.size);
    }
}

/* ---- the flamegraph by a walk in depth over falling distances ---- */

static uint32_t distance[MAX_OBJECTS * 2];
static uint8_t visited[MAX_OBJECTS * 2];
static hw_heap_tree twin;

static void find_distances(const struct hw_heap_graph *g)
{
    for (uint32_t o = 0; o < g->n_objects; o++)
        distance[o] = hw_object_is_root(g, o) ? 0 : HW_ID_NONE;
    for (uint32_t pass = 0; pass < g->n_objects; pass++)
        for (uint32_t o = 0; o < g->n_objects; o++)
            for (uint32_t to = 0; distance[o] == pass && to < g->n_objects; to++)
                if (distance[to] > pass + 1 && keeps(g, o, to))
                    distance[to] = pass + 1;
}

static uint32_t twin_node(const struct hw_profile *p, const struct hw_heap_graph *g,
                          uint32_t parent, uint32_t o, bool is_native)
{
    struct hw_heap_node like = {.parent = parent,
                                .depth = parent == HW_ID_NONE ? 0 : twin.v[parent].depth + 1,
                                .class = g->type[o],
                                .root = g->flags[o] & HW_OBJECT_ROOT,
                                .is_native = is_native};
    struct hw_strbuf want = {0}, have = {0};
    size_t i;
    hw_heap_node_name(p, g, &like, HW_FOLD_FLAME, &want);
    for (i = 0; i < twin.n; i++) {
        hw_strbuf_clear(&have);
        hw_heap_node_name(p, g, &twin.v[i], HW_FOLD_FLAME, &have);
        if (twin.v[i].parent == parent && strcmp(have.p, want.p) == 0)
            break;
    }
    if (i == twin.n)
        assert_int_equal(hw_vec_push(&twin, like), 0);
    hw_strbuf_done(&want);
    hw_strbuf_done(&have);
    return (uint32_t)i;
}

static void twin_walk(const struct hw_profile *p, const struct hw_heap_graph *g, uint32_t parent,
                      uint32_t o)
{
    uint32_t node = twin_node(p, g, parent, o, false);
    visited[o] = 1;
    twin.v[node].count++;
    twin.v[node].size += hw_object_weight(g, o);
    if (hw_object_native_size(g, o)) {
        uint32_t native = twin_node(p, g, node, o, true);
        twin.v[native].count++;
        twin.v[native].size += hw_object_native_size(g, o);
    }
    for (uint32_t to = 0; to < g->n_objects; to++)
        if (!visited[to] && distance[to] == distance[o] + 1 && keeps(g, o, to))
            twin_walk(p, g, node, to);
}

static const char *class_name(const struct hw_profile *p, const struct hw_heap_graph *g, uint32_t o)
{
    return hw_strings_cstr(hw_callsites_strings(p->callsites), g->classes[g->type[o]].name);
}

static void make_twin(const struct hw_profile *p, const struct hw_heap_graph *g)
{
    memset(visited, 0, sizeof visited);
    hw_vec_clear(&twin);
    find_distances(g);
    for (;;) {
        uint32_t best = HW_ID_NONE;
        for (uint32_t o = 0; o < g->n_objects; o++)
            if (hw_object_is_root(g, o) && !visited[o] &&
                (best == HW_ID_NONE || strcmp(class_name(p, g, o), class_name(p, g, best)) < 0))
                best = o;
        if (best == HW_ID_NONE)
            break;
        twin_walk(p, g, HW_ID_NONE, best);
    }
}

static void check_flame(const struct hw_profile *p, const struct hw_heap_graph *g)
{
    hw_heap_tree tree;
    assert_int_equal(hw_heap_tree_flame(p, g, NULL, &tree), 0);
    make_twin(p, g);
    assert_int_equal(tree.n, twin.n);
    int64_t total = 0, cumulative = 0;
    for (size_t i = 0; i < tree.n; i++) {
        assert_int_equal(tree.v[i].parent, twin.v[i].parent);
        assert_int_equal(tree.v[i].depth, twin.v[i].depth);
        assert_int_equal(tree.v[i].root, twin.v[i].root);
        assert_int_equal(tree.v[i].is_native, twin.v[i].is_native);
        assert_int_equal(tree.v[i].count, twin.v[i].count);
        assert_int_equal(tree.v[i].size, twin.v[i].size);
        total += tree.v[i].size;
        if (tree.v[i].parent == HW_ID_NONE)
            cumulative += tree.v[i].cumulative_size;
    }
    assert_int_equal(total, cumulative);
    struct hw_class_sum sum = hw_heap_graph_sum(g);
    assert_int_equal(total, sum.reachable.size + sum.reachable.native);
    hw_vec_done(&tree);
}

/* Every object once, below or beside one of its class; the sums are those of all. */
static void check_folded(const struct hw_heap_graph *g, const struct hw_dominators *d)
{
    hw_heap_tree tree;
    struct hw_class_sum sum = hw_heap_graph_sum(g);
    int64_t count = 0, size = 0;
    assert_int_equal(hw_heap_tree_fold(g, d->object, d->idom, d->n, HW_FOLD_CLASSES, &tree), 0);
    for (size_t i = 0; i < tree.n; i++) {
        const struct hw_heap_node *n = &tree.v[i];
        assert_true(n->parent == HW_ID_NONE || n->parent < i);
        if (n->parent != HW_ID_NONE && !n->is_native)
            assert_true(tree.v[n->parent].class != n->class);
        count += n->is_native ? 0 : n->count;
        size += n->size;
    }
    assert_int_equal(count, sum.reachable.count);
    assert_int_equal(size, sum.reachable.size + sum.reachable.native);
    hw_vec_done(&tree);
}

/* ---- lists ---- */

static void check_links(const struct hw_heap_graph *g, const struct hw_dominators *d)
{
    struct hw_heap_links in, below;
    uint32_t n = 0;
    assert_int_equal(hw_heap_referrers(g, &in), 0);
    for (uint32_t o = 0; o < g->n_objects; o++) {
        uint32_t k = in.first[o];
        for (uint32_t r = 0; r < g->n_refs; r++)
            if (g->ref_owned[r] == o)
                assert_int_equal(in.item[k++], r);
        assert_int_equal(k, in.first[o + 1]);
    }
    hw_heap_links_done(&in);
    assert_int_equal(hw_heap_children(d->idom, d->n, &below), 0);
    for (size_t above = 0; above <= d->n; above++)
        for (uint32_t k = below.first[above]; k < below.first[above + 1]; k++, n++)
            assert_int_equal(d->idom[below.item[k]], above == d->n ? HW_ID_NONE : (uint32_t)above);
    assert_int_equal(n, d->n);
    hw_heap_links_done(&below);
}

static bool keep_some(void *ctx, uint32_t o)
{
    return o % *(uint32_t *)ctx != 0;
}

static int64_t size_for(const struct hw_heap_graph *g, const struct hw_dominators *d, uint32_t o,
                        enum hw_object_order by)
{
    return by == HW_OBJECTS_BY_RETAINED ? hw_object_retained(d, o).size : hw_object_weight(g, o);
}

/* Every object that passes stands before those that follow, and nobody is missing. */
static void check_objects(const struct hw_heap_graph *g, const struct hw_dominators *d)
{
    uint32_t divisor = 2 + pick(3), n = 0;
    struct hw_objects_query q = {.g = g,
                                 .dominators = d,
                                 .keep = keep_some,
                                 .ctx = &divisor,
                                 .by = pick(2) ? HW_OBJECTS_BY_RETAINED : HW_OBJECTS_BY_SIZE,
                                 .down = pick(2),
                                 .offset = pick(4),
                                 .limit = pick(12)};
    struct hw_objects found;
    assert_int_equal(hw_objects_find(&q, &found), 0);
    for (uint32_t o = 0; o < g->n_objects; o++) {
        size_t place = 0;
        if (!keep_some(&divisor, o))
            continue;
        n++;
        for (uint32_t x = 0; x < g->n_objects; x++) {
            int64_t a = size_for(g, d, x, q.by), b = size_for(g, d, o, q.by);
            place += keep_some(&divisor, x) && (a != b ? (a > b) == q.down : x < o);
        }
        if (place >= q.offset && place - q.offset < q.limit)
            assert_int_equal(found.v.v[place - q.offset], o);
    }
    size_t left = n > q.offset ? n - q.offset : 0;
    assert_int_equal(found.n_all, n);
    assert_int_equal(found.v.n, left < q.limit ? left : q.limit);
    hw_objects_done(&found);
}

/* Some references are cut, some roots are none: who is reached then, by the slow way. */
static void check_release(struct hw_heap_graph *g)
{
    struct hw_heap_release r;
    uint32_t refs[3], roots[2], kept[3];
    uint8_t reached[MAX_OBJECTS * 2];
    uint16_t flags[MAX_OBJECTS * 2];
    size_t n_refs = g->n_refs ? pick(4) : 0, n_roots = pick(3);
    struct hw_heap_sum lost = {0};
    for (size_t i = 0; i < n_refs; i++)
        refs[i] = pick(g->n_refs);
    for (size_t i = 0; i < n_roots; i++)
        roots[i] = pick(g->n_objects);
    assert_int_equal(hw_heap_release_find(g, refs, n_refs, roots, n_roots, &r), 0);
    memcpy(flags, g->flags, g->n_objects * sizeof *flags);
    for (size_t i = 0; i < n_roots; i++)
        g->flags[roots[i]] &= (uint16_t)~HW_OBJECT_ROOT;
    for (size_t i = 0; i < n_refs; i++) {
        kept[i] = g->ref_owned[refs[i]];
        g->ref_owned[refs[i]] = HW_ID_NONE;
    }
    reach(g, HW_ID_NONE, reached);
    for (size_t i = n_refs; i-- > 0;)
        g->ref_owned[refs[i]] = kept[i];
    memcpy(g->flags, flags, g->n_objects * sizeof *flags);
    for (uint32_t o = 0; o < g->n_objects; o++) {
        bool is_lost = hw_object_is_reachable(g, o) && !reached[o];
        assert_int_equal(r.is_lost[o], is_lost);
        if (!is_lost)
            continue;
        lost.count++;
        lost.size += hw_object_weight(g, o);
        lost.native += hw_object_native_size(g, o);
    }
    assert_memory_equal(&lost, &r.lost, sizeof lost);
    hw_heap_release_done(&r);
}

static void random_graphs(void **unused)
{
    (void)unused;
    for (int i = 0; i < N_GRAPHS; i++) {
        struct hw_profile *p;
        struct hw_dominators d;
        uint8_t reached[MAX_OBJECTS * 2];
        assert_int_equal(hw_profile_new(&p), 0);
        const struct hw_heap_graph *g = random_graph(p);
        reach(g, HW_ID_NONE, reached);
        for (uint32_t o = 0; o < g->n_objects; o++) {
            assert_int_equal(reached[o], hw_object_is_reachable(g, o));
            reach(g, o, without[o]);
        }
        assert_int_equal(hw_dominators_build(g, &d), 0);
        check_dominators(g, &d);
        check_classes(g, &d);
        check_flame(p, g);
        check_folded(g, &d);
        check_links(g, &d);
        check_objects(g, &d);
        check_release(p->graphs.v[p->graphs.n - 1]);
        hw_dominators_done(&d);
        hw_profile_free(p);
    }
    hw_vec_done(&twin);
}

/* A list of a million objects must neither recurse nor take quadratic time. */
static void long_list(void **unused)
{
    (void)unused;
    enum { N = 1000000 };
    struct hw_graph_builder *b;
    struct hw_profile *p;
    struct hw_heap_graph *g;
    struct hw_dominators d;
    hw_heap_tree tree;
    assert_int_equal(hw_profile_new(&p), 0);
    assert_int_equal(hw_graph_builder_new(hw_callsites_strings(p->callsites), &b), 0);
    for (uint64_t i = 1; i <= N; i++) {
        assert_int_equal(hw_graph_object(b, &(struct hw_graph_object){.id = i, .self_size = 1}), 0);
        assert_int_equal(hw_graph_ref(b, i < N ? i + 1 : 0, HW_FIELD_NONE), 0);
        assert_int_equal(hw_graph_ref(b, i > 1 ? i / 2 : 0, HW_FIELD_NONE), 0);
    }
    assert_int_equal(hw_graph_root(b, 1, HW_ROOT_JNI_GLOBAL), 0);
    assert_int_equal(hw_graph_finish(b, &g, NULL), 0);
    hw_graph_builder_free(b);
    assert_int_equal(hw_profile_add_graph(p, g), 0);
    assert_int_equal(hw_dominators_build(g, &d), 0);
    assert_int_equal(d.depth[d.position[N - 1]], N);
    assert_int_equal(d.size[d.position[0]], N);
    hw_dominators_done(&d);
    assert_int_equal(hw_heap_tree_flame(p, g, NULL, &tree), 0);
    assert_int_equal(tree.n, N);
    hw_vec_done(&tree);
    hw_profile_free(p);
}

static void dominators_of_edges(void **unused)
{
    (void)unused;
    /* 0 -> 1, 2; 1 -> 3; 2 -> 3; 3 -> 4; 5 is not reached */
    static const uint32_t from[] = {0, 0, 1, 2, 3, 4, 5}, to[] = {1, 2, 3, 3, 4, 3, 4};
    static const uint32_t want[] = {HW_ID_NONE, 0, 0, 0, 3, HW_ID_NONE};
    uint32_t idom[6];
    assert_int_equal(hw_dominators_of_edges(from, to, 7, 6, 0, idom), 0);
    assert_memory_equal(idom, want, sizeof want);
}

HW_TEST_MAIN(cmocka_unit_test(random_graphs), cmocka_unit_test(long_list),
             cmocka_unit_test(dominators_of_edges))
