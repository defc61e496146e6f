/* Leak suspects of random graphs against the definition, found by force; a list, a map, a shared group by construction. */
#include <math.h>
#include <string.h>

#include "test.h"

#include "model/profile.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_paths.h"
#include "views/objects/heap_suspects.h"

#include "views/random_heap.h"

enum { N_GRAPHS = 3000 };

/* without[d][o]: whether o is reached when d is not there. */
static uint8_t without[MAX_OBJECTS * 2][MAX_OBJECTS * 2];

static bool dominates(const struct hw_heap_graph *g, uint32_t d, uint32_t o)
{
    return hw_object_is_reachable(g, o) && hw_object_is_reachable(g, d) && !without[d][o];
}

static int64_t bytes_of(const struct hw_heap_graph *g, uint32_t o)
{
    return hw_object_weight(g, o) + hw_object_native_size(g, o);
}

static int64_t all_bytes(const struct hw_heap_graph *g)
{
    int64_t sum = 0;
    for (uint32_t o = 0; o < g->n_objects; o++)
        sum += hw_object_is_reachable(g, o) ? bytes_of(g, o) : 0;
    return sum;
}

static int64_t retained_by(const struct hw_heap_graph *g, uint32_t d)
{
    int64_t sum = 0;
    for (uint32_t o = 0; o < g->n_objects; o++)
        sum += dominates(g, d, o) ? bytes_of(g, o) : 0;
    return sum;
}

static bool is_large(const struct hw_heap_graph *g, int64_t bytes)
{
    return bytes * 100 >= all_bytes(g) * HW_SUSPECT_PERCENT;
}

/* Only the roots dominate it, or objects without bytes. */
static bool is_top(const struct hw_heap_graph *g, uint32_t o)
{
    for (uint32_t d = 0; d < g->n_objects; d++)
        if (d != o && dominates(g, d, o) && bytes_of(g, d))
            return false;
    return hw_object_is_reachable(g, o);
}

static hw_str_id name_of(const struct hw_heap_graph *g, uint32_t class)
{
    return hw_class_shown_name(&g->classes[class]);
}

static void check_object(const struct hw_heap_graph *g, const struct hw_suspects *found,
                         const struct hw_suspect *s)
{
    int64_t elsewhere = 0, in_classes = 0, below = 0;
    for (uint32_t o = 0; o < g->n_objects; o++) {
        bool is_other = false, is_child = o != s->point && dominates(g, s->point, o);
        for (size_t i = 0; i < found->v.n; i++) {
            const struct hw_suspect *t = &found->v.v[i];
            is_other |= t != s && !t->is_class && dominates(g, s->object, t->object) &&
                        dominates(g, t->object, o);
        }
        elsewhere += is_other ? bytes_of(g, o) : 0;
        below += is_child ? bytes_of(g, o) : 0;
    }
    for (size_t i = 0; i < s->n_classes; i++)
        in_classes += found->classes.v[s->first_class + i].retained;
    assert_int_equal(s->retained, retained_by(g, s->object));
    assert_int_equal(s->point_retained, retained_by(g, s->point));
    assert_int_equal(s->elsewhere, elsewhere);
    assert_int_equal(in_classes, below);
    assert_true(dominates(g, s->object, s->point));
    assert_true(s->point_retained * 100 >= s->retained * HW_SUSPECT_NEARLY_ALL);
    assert_true(is_large(g, s->retained - s->elsewhere));
}

/* Each large object has a suspect above it or below it, and is one or none. */
static void check_none_is_missing(const struct hw_heap_graph *g, const struct hw_suspects *found)
{
    for (uint32_t o = 0; o < g->n_objects; o++) {
        bool is_covered = false;
        if (!hw_object_is_reachable(g, o) || !is_large(g, retained_by(g, o)) ||
            (is_top(g, o) && !bytes_of(g, o)))
            continue;
        for (size_t i = 0; i < found->v.n; i++) {
            const struct hw_suspect *s = &found->v.v[i];
            is_covered |=
                !s->is_class && (dominates(g, o, s->object) || dominates(g, s->object, o));
        }
        assert_true(is_covered);
    }
}

/* The classes of large groups are those found, with their numbers. */
static void check_groups(const struct hw_heap_graph *g, const struct hw_suspects *found)
{
    for (uint32_t c = 0; c < g->n_classes; c++) {
        int64_t sum = 0, count = 0;
        size_t n = 0;
        for (uint32_t o = 0; o < g->n_objects; o++) {
            if (name_of(g, g->type[o]).v != name_of(g, c).v || !bytes_of(g, o) || !is_top(g, o) ||
                is_large(g, retained_by(g, o)))
                continue;
            sum += retained_by(g, o);
            count++;
        }
        for (size_t i = 0; i < found->v.n; i++) {
            const struct hw_suspect *s = &found->v.v[i];
            if (!s->is_class || name_of(g, s->class).v != name_of(g, c).v)
                continue;
            n++;
            assert_int_equal(s->retained, sum);
            assert_int_equal(s->count, count);
            assert_int_equal(name_of(g, g->type[s->nearest]).v, name_of(g, c).v);
        }
        assert_int_equal(n, count && is_large(g, sum));
    }
}

static void random_graphs(void **unused)
{
    (void)unused;
    size_t n_objects = 0, n_groups = 0, n_nested = 0;
    for (int i = 0; i < N_GRAPHS; i++) {
        struct hw_profile *p;
        struct hw_dominators d;
        struct hw_heap_paths paths;
        struct hw_suspects found;
        int64_t own = 0;
        assert_int_equal(hw_profile_new(&p), 0);
        const struct hw_heap_graph *g = random_graph(p);
        for (uint32_t o = 0; o < g->n_objects; o++)
            reach(g, o, without[o]);
        assert_int_equal(hw_dominators_build(g, &d), 0);
        assert_int_equal(hw_heap_paths_build(p, g, &paths), 0);
        assert_int_equal(hw_heap_suspects_find(g, &d, &paths, &found), 0);
        for (size_t k = 0; k < found.v.n; k++) {
            const struct hw_suspect *s = &found.v.v[k];
            own += s->retained - s->elsewhere;
            assert_true(fabs(s->share * (double)all_bytes(g) - (double)s->retained) < 1e-6);
            n_groups += s->is_class;
            n_objects += !s->is_class;
            n_nested += s->elsewhere > 0;
            if (!s->is_class)
                check_object(g, &found, s);
        }
        assert_true(own <= all_bytes(g)); /* nothing belongs to two */
        if (all_bytes(g)) {
            check_none_is_missing(g, &found);
            check_groups(g, &found);
        }
        hw_heap_suspects_done(&found);
        hw_heap_paths_done(&paths);
        hw_dominators_done(&d);
        hw_profile_free(p);
    }
    assert_true(n_objects > 1000 && n_groups > 100 && n_nested > 100);
}

/* A map (object 1) that holds a list of a million nodes: neither slow, nor found somewhere in the list. */
static void long_list(void **unused)
{
    (void)unused;
    enum { N = 1000000 };
    struct hw_graph_builder *b;
    struct hw_profile *p;
    struct hw_heap_graph *g;
    struct hw_dominators d;
    struct hw_heap_paths paths;
    struct hw_suspects found;
    struct hw_graph_class map = {.name = {0}, .kind = HW_KIND_NORMAL}, node = map;
    assert_int_equal(hw_profile_new(&p), 0);
    map.name = str(p, "Map");
    node.name = str(p, "Node");
    assert_int_equal(hw_graph_builder_new(hw_callsites_strings(p->callsites), &b), 0);
    for (uint64_t i = 1; i <= N + 1; i++) {
        struct hw_graph_object o = {.id = i, .class_id = i > 1, .self_size = 1};
        assert_int_equal(hw_graph_object(b, &o), 0);
        assert_int_equal(hw_graph_ref(b, i <= N ? i + 1 : 0, HW_FIELD_NONE), 0);
    }
    assert_int_equal(hw_graph_class(b, 0, &map), 0);
    assert_int_equal(hw_graph_class(b, 1, &node), 0);
    assert_int_equal(hw_graph_root(b, 1, HW_ROOT_JNI_GLOBAL), 0);
    assert_int_equal(hw_graph_finish(b, &g, NULL), 0);
    hw_graph_builder_free(b);
    assert_int_equal(hw_profile_add_graph(p, g), 0);
    assert_int_equal(hw_dominators_build(g, &d), 0);
    assert_int_equal(hw_heap_paths_build(p, g, &paths), 0);
    assert_int_equal(hw_heap_suspects_find(g, &d, &paths, &found), 0);
    assert_int_equal(found.v.n, 1);
    assert_int_equal(found.v.v[0].point, 0);
    assert_int_equal(found.classes.n, 1);
    assert_int_equal(found.classes.v[0].count, N);
    assert_int_equal(found.classes.v[0].retained, N);
    hw_heap_suspects_done(&found);
    hw_heap_paths_done(&paths);
    hw_dominators_done(&d);
    hw_profile_free(p);
}

/* Objects of INT64_MAX bytes each; of 8, six have a twentieth of this. */
static struct hw_profile *sums_above_64_bits(uint32_t n, struct hw_suspects *found)
{
    struct hw_graph_builder *b;
    struct hw_profile *p;
    struct hw_heap_graph *g;
    struct hw_dominators d;
    struct hw_heap_paths paths;
    struct hw_graph_class class = {.name = {0}, .kind = HW_KIND_NORMAL};
    assert_int_equal(hw_profile_new(&p), 0);
    class.name = str(p, "A");
    assert_int_equal(hw_graph_builder_new(hw_callsites_strings(p->callsites), &b), 0);
    for (uint64_t i = 1; i <= n; i++) {
        struct hw_graph_object o = {.id = i, .class_id = 0, .self_size = INT64_MAX};
        if (n == 8 && i > 2)
            o.self_size = INT64_MAX / 20;
        assert_int_equal(hw_graph_object(b, &o), 0);
        assert_int_equal(hw_graph_root(b, i, HW_ROOT_JNI_GLOBAL), 0);
    }
    assert_int_equal(hw_graph_class(b, 0, &class), 0);
    assert_int_equal(hw_graph_finish(b, &g, NULL), 0);
    hw_graph_builder_free(b);
    assert_int_equal(hw_profile_add_graph(p, g), 0);
    assert_int_equal(hw_dominators_build(g, &d), 0);
    assert_int_equal(hw_heap_paths_build(p, g, &paths), 0);
    assert_int_equal(hw_heap_suspects_find(g, &d, &paths, found), 0);
    hw_heap_paths_done(&paths);
    hw_dominators_done(&d);
    return p;
}

static void sums_saturate(void **unused)
{
    (void)unused;
    struct hw_suspects found;
    struct hw_profile *p = sums_above_64_bits(8, &found);
    assert_int_equal(found.v.n, 3); /* both, and the six others together */
    assert_true(fabs(found.v.v[0].share - 1 / 2.3) < 1e-6);
    assert_true(fabs(found.v.v[1].share - 1 / 2.3) < 1e-6);
    assert_true(found.v.v[2].is_class && fabs(found.v.v[2].share - 0.3 / 2.3) < 1e-6);
    hw_heap_suspects_done(&found);
    hw_profile_free(p);
    p = sums_above_64_bits(40000, &found);
    assert_int_equal(found.v.n, 1); /* none by itself */
    assert_true(found.v.v[0].is_class && found.v.v[0].share > 0.999999);
    assert_int_equal(found.v.v[0].count, 40000);
    assert_int_equal(found.v.v[0].retained, INT64_MAX);
    hw_heap_suspects_done(&found);
    hw_profile_free(p);
}

HW_TEST_MAIN(cmocka_unit_test(random_graphs), cmocka_unit_test(long_list),
             cmocka_unit_test(sums_saturate))
