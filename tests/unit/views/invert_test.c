/* The inverted tree without its small parts against the whole one, from which they are taken. */
#include "test.h"

#include "base/error.h"
#include "views/fill.h"
#include "views/flame/flame.h"

enum { N_STACKS = 400, MAX_DEPTH = 9, N_NAMES = 14 };

struct stacks {
    struct hw_profile *p;
    struct hw_functions *fns;
    hw_values values;
};

/* Random stacks, sizes over four decades; some have an inlined function, one stands alone. */
static void stacks_init(struct stacks *s, unsigned seed)
{
    memset(s, 0, sizeof *s);
    assert_int_equal(hw_profile_new(&s->p), 0);
    uint32_t dump = fill_dump(s->p, 1, "h", 1, 1, 0);
    srand(seed);
    for (int i = 0; i < N_STACKS; i++) {
        char text[256] = "";
        int depth = 1 + rand() % MAX_DEPTH, size = 1;
        for (int k = rand() % 5; k > 0; k--)
            size *= 10;
        for (int d = 0; d < depth; d++) {
            size_t at = strlen(text);
            snprintf(text + at, sizeof text - at, "%sf%02d", d ? ";" : "", rand() % N_NAMES);
        }
        fill_row(s->p, dump, text, 1 + rand() % 5, size + rand() % size);
    }
    assert_int_equal(hw_profile_freeze(s->p), 0);
    struct hw_series_list list;
    assert_int_equal(hw_series_list_init(&list, s->p), 0);
    assert_int_equal(hw_values_at(s->p, &list.v.v[0], 0, &s->values), 0);
    hw_series_list_done(&list);
    assert_int_equal(hw_functions_new(s->p->callsites, NULL, &s->fns), 0);
}

static void stacks_done(struct stacks *s)
{
    hw_vec_done(&s->values);
    hw_functions_free(s->fns);
    hw_profile_free(s->p);
}

static uint32_t child_of(const struct hw_flame *f, uint32_t node, uint32_t function)
{
    uint32_t c = f->v.v[node].first_child;
    while (c != HW_ID_NONE && f->v.v[c].function != function)
        c = f->v.v[c].next_sibling;
    return c;
}

static void assert_same(const struct hw_value *a, const struct hw_value *b)
{
    assert_int_equal(a->space, b->space);
    assert_int_equal(a->objects, b->objects);
    assert_int_equal(a->alloc_space, b->alloc_space);
    assert_int_equal(a->alloc_objects, b->alloc_objects);
    assert_int_equal(a->samples, b->samples);
}

/* Returns how many nodes of `part` it met. */
static size_t compare(const struct hw_flame *whole, uint32_t w, const struct hw_flame *part,
                      uint32_t node, double min, enum hw_metric m)
{
    struct hw_value small = {0};
    uint32_t n_small = 0, kept = 0, merged = child_of(part, node, HW_FLAME_MERGED);
    size_t met = 1;
    assert_same(hw_flame_total(whole, w), hw_flame_total(part, node));
    assert_same(hw_flame_self(whole, w), hw_flame_self(part, node));
    assert_int_equal(whole->v.v[w].depth, part->v.v[node].depth);
    for (uint32_t c = whole->v.v[w].first_child; c != HW_ID_NONE; c = whole->v.v[c].next_sibling) {
        const struct hw_value *total = hw_flame_total(whole, c);
        if ((double)hw_value_get(total, m) < min) {
            hw_value_add(&small, total);
            n_small++;
            continue;
        }
        uint32_t twin = child_of(part, node, whole->v.v[c].function);
        assert_int_not_equal(twin, HW_ID_NONE);
        met += compare(whole, c, part, twin, min, m);
        kept++;
    }
    assert_int_equal(merged != HW_ID_NONE, n_small > 0);
    if (merged != HW_ID_NONE) {
        assert_int_equal(hw_flame_merged_count(part, merged), n_small);
        assert_same(&small, hw_flame_total(part, merged));
        assert_same(&small, hw_flame_self(part, merged));
        met++;
    }
    assert_int_equal(hw_flame_merged_count(part, node), 0);
    return met;
}

static void check(const struct stacks *s, const struct hw_filter_matches *filters, unsigned flags,
                  double share, enum hw_metric m)
{
    struct hw_flame whole, part;
    struct hw_flame_input q = {.cs = s->p->callsites,
                               .fns = s->fns,
                               .values = &s->values,
                               .flags = flags | HW_FLAME_INVERTED,
                               .filters = filters};
    assert_int_equal(hw_flame_build_with(&q, &whole), 0);
    assert_int_equal(hw_flame_invert(&q, share, m, &part), 0);
    assert_int_equal(hw_flame_sort(&part, m), 0);
    double min = (double)hw_value_get(hw_flame_total(&whole, 0), m) * share;
    assert_int_equal(compare(&whole, 0, &part, 0, min, m), part.v.n);
    hw_flame_done(&whole);
    hw_flame_done(&part);
}

static void shares_and_metrics(void **state)
{
    static const double shares[] = {0, 1e-9, 1e-4, 0.001, 0.01, 0.1, 0.5, 0.999};
    (void)state;
    for (unsigned seed = 1; seed <= 4; seed++) {
        struct stacks s;
        stacks_init(&s, seed);
        for (size_t i = 0; i < HW_ARRAY_LEN(shares); i++)
            for (int m = 0; m < HW_METRIC_COUNT; m++)
                for (unsigned flags = 0; flags <= (HW_FLAME_SITES | HW_FLAME_COLLAPSE);
                     flags += HW_FLAME_SITES)
                    check(&s, NULL, flags, shares[i], (enum hw_metric)m);
        stacks_done(&s);
    }
}

static void filtered(void **state)
{
    static const char *const lists[][3] = {{"SS:f03"},           {"HF:f0"},   {"SF:f1"},
                                           {"HS:f01", "HF:f02"}, {"SFF:f05"}, {"SF:nothing"},
                                           {"SS:nothing"}};
    (void)state;
    struct stacks s;
    stacks_init(&s, 9);
    for (size_t i = 0; i < HW_ARRAY_LEN(lists); i++) {
        hw_filters filters = {0};
        struct hw_filter_matches matches;
        struct hw_error err = {0};
        for (int k = 0; lists[i][k]; k++)
            assert_int_equal(hw_filters_add(&filters, lists[i][k], &err), 0);
        assert_int_equal(hw_filter_match(&filters, s.p->callsites, s.fns, NULL, NULL, &matches), 0);
        check(&s, &matches, HW_FLAME_SITES, 0.01, HW_METRIC_SPACE);
        check(&s, &matches, 0, 0, HW_METRIC_OBJECTS);
        hw_filter_matches_done(&matches);
        hw_filters_done(&filters);
    }
    stacks_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares_and_metrics),
                                       cmocka_unit_test(filtered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
