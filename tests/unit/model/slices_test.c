/* Slices made at random, told in any order and any form, are nested again as they were made. */
#include "model/slices.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/profile.h"
#include "test.h"

enum { MOST = 400 };

struct truth {
    struct hw_slice_event e[MOST]; /* as whole ones; name is the number, from 1 */
    uint32_t parent[MOST];         /* HW_ID_NONE */
    size_t n;
};

static uint32_t below(uint32_t n)
{
    return (uint32_t)rand() % n;
}

/* Slices within (from, to), no two with an end or a beginning in common. */
static void grow(struct truth *t, uint32_t track, uint32_t parent, int64_t from, int64_t to)
{
    while (t->n < MOST && to - from > 4) {
        int64_t begin = from + 1 + below((uint32_t)((to - from) / 3) + 1);
        int64_t end = begin + 1 + below((uint32_t)((to - begin) / 2) + 1);
        if (end >= to)
            return;
        uint32_t me = (uint32_t)t->n++;
        t->e[me] =
            (struct hw_slice_event){begin, end - begin, track, HW_SLICE_WHOLE, {0}, {me + 1}};
        t->parent[me] = parent;
        grow(t, track, me, begin, end);
        from = end;
    }
}

static void add(struct hw_profile *p, const struct hw_slice_event *e)
{
    assert_int_equal(hw_slices_add(&p->slices, e), HW_OK);
}

/* Whole, or as a beginning and an end; the file's order is not that of time. */
static void tell(struct hw_profile *p, const struct truth *t)
{
    uint32_t order[MOST];
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t k = below(i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (size_t i = 0; i < t->n; i++) {
        struct hw_slice_event e = t->e[order[i]];
        if (below(2)) {
            add(p, &e);
            continue;
        }
        struct hw_slice_event end = {e.ts_ns + e.dur_ns, 0, e.track, HW_SLICE_END, {0}, {0}};
        e.kind = HW_SLICE_BEGIN;
        add(p, &end);
        add(p, &e);
    }
}

static void compare(const struct hw_profile *p, const struct truth *t)
{
    const struct hw_slices *s = &p->slices;
    assert_int_equal(s->rows.n, t->n);
    for (size_t i = 0; i < s->rows.n; i++) {
        const struct hw_slice *r = &s->rows.v[i];
        uint32_t me = r->name.v - 1;
        assert_int_equal(r->ts_ns, t->e[me].ts_ns);
        assert_int_equal(r->dur_ns, t->e[me].dur_ns);
        assert_int_equal(r->track, t->e[me].track);
        if (t->parent[me] == HW_ID_NONE) {
            assert_int_equal(r->parent, HW_ID_NONE);
            assert_int_equal(r->depth, 0);
        } else {
            assert_int_equal(s->rows.v[r->parent].name.v - 1, t->parent[me]);
            assert_int_equal(r->depth, s->rows.v[r->parent].depth + 1);
        }
        assert_true(i == 0 || s->rows.v[i - 1].ts_ns <= r->ts_ns);
    }
}

static void test_random(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct truth t = {.n = 0};
        struct hw_profile *p;
        uint32_t track;
        srand(seed);
        assert_int_equal(hw_profile_new(&p), HW_OK);
        for (uint32_t thread = 0; thread < 3; thread++) {
            assert_int_equal(hw_slices_thread_track(&p->slices, thread, &track), HW_OK);
            grow(&t, track, HW_ID_NONE, -1000, 3000);
        }
        tell(p, &t);
        assert_int_equal(hw_slices_finish(p), HW_OK);
        compare(p, &t);
        assert_int_equal(p->stats.n, 0);
        hw_profile_free(p);
    }
}

static void test_times_at_the_edge(void **state)
{
    (void)state;
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), HW_OK);
    add(p, &(struct hw_slice_event){INT64_MIN, 0, 0, HW_SLICE_BEGIN, {0}, {1}});
    add(p, &(struct hw_slice_event){INT64_MAX, INT64_MAX, 0, HW_SLICE_WHOLE, {0}, {2}});
    add(p, &(struct hw_slice_event){INT64_MAX, 0, 0, HW_SLICE_END, {0}, {0}});
    add(p, &(struct hw_slice_event){5, -3, 0, HW_SLICE_WHOLE, {0}, {3}});
    assert_int_equal(hw_slices_finish(p), HW_OK);
    assert_int_equal(p->slices.rows.n, 3);
    assert_int_equal(p->slices.rows.v[0].dur_ns, INT64_MAX);
    assert_int_equal(p->slices.rows.v[1].dur_ns, 0);
    hw_profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_times_at_the_edge)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
