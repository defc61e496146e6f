/* A graph that moves against the same graph made anew at every place, random ones, to and fro; sums
 * that go back against sums from the beginning. */
#include <math.h>

#include "test.h"

#include "base/error.h"
#include "views/fill.h"
#include "views/flame/flame.h"
#include "views/flame/flame_window.h"
#include "views/time/process_view.h"
#include "views/time/span.h"

enum { N_STACKS = 150, MAX_DEPTH = 8, N_NAMES = 12, N_DUMPS = 40, STEP_NS = 10 };

struct world {
    struct hw_profile *p;
    struct hw_series_list list;
    struct hw_functions *fns;
    char stacks[N_STACKS][256];
};

static void make_stacks(struct world *w)
{
    for (int i = 0; i < N_STACKS; i++) {
        int depth = 1 + rand() % MAX_DEPTH;
        for (int d = 0; d < depth; d++) {
            size_t at = strlen(w->stacks[i]);
            snprintf(w->stacks[i] + at, sizeof w->stacks[i] - at, "%sf%02d%s", d ? ";" : "",
                     d == 0 ? 0 : rand() % N_NAMES, rand() % 4 ? "" : "@/lib/libx.so.1");
        }
        if (rand() % 2)
            strcat(w->stacks[i], ";malloc");
    }
}

/* What a recorder writes: gains as one row, losses as another, not every callstack each time. */
static void make_dump(struct world *w, int64_t pid, const char *heap, int k, bool variances)
{
    static const uint32_t flags[] = {0, 0, 0, 0, HW_DUMP_CHECKPOINT, HW_DUMP_AT_MAX};
    uint32_t dump = fill_dump(w->p, pid, heap, (1 + k - k % 7 / 6) * STEP_NS, 64,
                              flags[rand() % (int)HW_ARRAY_LEN(flags)]);
    for (int i = 0; i < N_STACKS; i++) {
        int64_t n = 1 + rand() % 9, scale = rand() % 5 ? 10 : 10000;
        if (rand() % 3)
            continue;
        fill_row(w->p, dump, w->stacks[i], n, n * (scale + rand() % 100));
        if (variances && rand() % 2)
            fill_variance(w->p, w->p->allocs.n - 1, rand() % 100000);
        if (rand() % 2)
            fill_row(w->p, dump, w->stacks[i], -n, -n * scale);
    }
}

static void world_init(struct world *w, unsigned seed, bool variances)
{
    memset(w, 0, sizeof *w);
    srand(seed);
    assert_int_equal(hw_profile_new(&w->p), 0);
    make_stacks(w);
    for (int k = 0; k < N_DUMPS; k++) {
        make_dump(w, 1, "libc.malloc", k, variances);
        if (k % 3 == 0)
            make_dump(w, 1, "pool", k, variances);
        if (k % 5 == 0)
            make_dump(w, 2, "libc.malloc", k, variances);
    }
    assert_int_equal(hw_profile_freeze(w->p), 0);
    assert_int_equal(hw_series_list_init(&w->list, w->p), 0);
    assert_int_equal(hw_functions_new(w->p->callsites, NULL, &w->fns), 0);
}

static void world_done(struct world *w)
{
    hw_functions_free(w->fns);
    hw_series_list_done(&w->list);
    hw_profile_free(w->p);
}

static void assert_same(const struct hw_value *a, const struct hw_value *b)
{
    assert_int_equal(a->space, b->space);
    assert_int_equal(a->objects, b->objects);
    assert_int_equal(a->alloc_space, b->alloc_space);
    assert_int_equal(a->alloc_objects, b->alloc_objects);
    assert_int_equal(a->samples, b->samples);
    assert_int_equal(a->alloc_samples, b->alloc_samples);
    assert_int_equal(a->idle, b->idle);
    assert_true(fabs(a->variance - b->variance) <= 1e-9 * fabs(b->variance));
}

/* ---- sums ---- */

static void sums_go_back(void **state)
{
    static const size_t budgets[] = {0, 1, 20000, 60000, 1 << 24};
    (void)state;
    for (unsigned seed = 1; seed <= 4; seed++) {
        struct world w;
        world_init(&w, seed, seed % 2);
        const struct hw_series *s = &w.list.v.v[seed % 3];
        for (size_t b = 0; b < HW_ARRAY_LEN(budgets); b++) {
            struct hw_sum *sum;
            size_t least = 0;
            assert_int_equal(hw_sum_new(w.p, s, &sum), 0);
            hw_sum_keep_marks(sum, budgets[b]);
            for (int i = 0; i < 60; i++) {
                hw_values fresh = {0}, moved = {0};
                uint32_t dump = s->all.v[(size_t)rand() % s->all.n];
                assert_int_equal(hw_sum_seek(sum, dump), 0);
                assert_int_equal(hw_values_at(w.p, s, dump, &fresh), 0);
                assert_int_equal(hw_sum_values(sum, &moved), 0);
                assert_int_equal(moved.n, fresh.n);
                for (size_t k = 0; k < fresh.n; k++) {
                    assert_int_equal(moved.v[k].callsite.v, fresh.v[k].callsite.v);
                    assert_same(&moved.v[k].v, &fresh.v[k].v);
                    assert_true(moved.v[k].v.variance == fresh.v[k].v.variance);
                }
                least = least ? least : hw_sum_bytes(sum);
                hw_vec_done(&fresh);
                hw_vec_done(&moved);
            }
            assert_true(hw_sum_bytes(sum) <= least + budgets[b] + N_STACKS * 200);
            hw_sum_free(sum);
        }
        world_done(&w);
    }
}

/* ---- graphs ---- */

static uint32_t child_of(const struct hw_flame *f, uint32_t node, uint32_t function)
{
    uint32_t c = f->v.v[node].first_child;
    while (c != HW_ID_NONE && f->v.v[c].function != function)
        c = f->v.v[c].next_sibling;
    return c;
}

/* Returns how many nodes of `part` it met. */
static size_t compare(const struct hw_flame *whole, uint32_t a, const struct hw_flame *part,
                      uint32_t b, double min, enum hw_metric m)
{
    struct hw_value small = {0};
    uint32_t n_small = 0, at = part->v.v[b].first_child;
    size_t met = 1;
    assert_int_equal(whole->v.v[a].function, part->v.v[b].function);
    assert_int_equal(whole->v.v[a].depth, part->v.v[b].depth);
    assert_same(hw_flame_total(part, b), hw_flame_total(whole, a));
    assert_same(hw_flame_self(part, b), hw_flame_self(whole, a));
    for (uint32_t c = whole->v.v[a].first_child; c != HW_ID_NONE; c = whole->v.v[c].next_sibling) {
        const struct hw_value *total = hw_flame_total(whole, c);
        int64_t value = hw_value_get(total, m);
        if ((double)value < min) {
            hw_value_add(&small, total);
            n_small += value > 0;
        } else if (value > 0) { /* in the same order */
            assert_int_not_equal(at, HW_ID_NONE);
            met += compare(whole, c, part, at, min, m);
            at = part->v.v[at].next_sibling;
        }
    }
    uint32_t merged = child_of(part, b, HW_FLAME_MERGED);
    assert_int_equal(merged, n_small ? at : HW_ID_NONE);
    if (n_small) {
        assert_int_equal(hw_flame_merged_count(part, merged), n_small);
        assert_same(hw_flame_total(part, merged), &small);
        at = part->v.v[at].next_sibling;
        met++;
    }
    assert_int_equal(at, HW_ID_NONE);
    return met;
}

struct asked {
    struct hw_span span;
    unsigned flags;
    const struct hw_filter_matches *filters;
};

static void check(const struct world *w, const struct asked *a,
                  const struct hw_flame_window_place *place, const struct hw_flame *part,
                  int64_t unfiltered)
{
    struct hw_flame whole;
    hw_values values = {0};
    struct hw_span span = a->span;
    span.ts_ns = place->ts_ns;
    span.has_from = place->has_from;
    span.from_ns = place->from_ns;
    assert_int_equal(hw_span_values(w->p, &w->list, &span, &values), 0);
    struct hw_flame_input q = {.cs = w->p->callsites,
                               .fns = w->fns,
                               .values = &values,
                               .flags = a->flags,
                               .filters = a->filters};
    assert_int_equal(hw_flame_build_with(&q, &whole), 0);
    assert_int_equal(hw_flame_sort_stable(&whole), 0);
    int64_t sum = 0;
    for (size_t i = 0; i < values.n; i++)
        sum += hw_value_get(&values.v[i].v, place->metric);
    assert_int_equal(unfiltered, sum);
    double min = (double)hw_value_get(hw_flame_total(&whole, 0), place->metric) * place->min_share;
    assert_int_equal(compare(&whole, 0, part, 0, min, place->metric), part->v.n);
    hw_flame_done(&whole);
    hw_vec_done(&values);
}

static void wander(const struct world *w, const struct asked *a, size_t budget)
{
    static const double shares[] = {0, 1e-6, 0.001, 0.01, 0.2, 0.9};
    struct hw_flame_window_query q = {.p = w->p,
                                      .list = &w->list,
                                      .fns = w->fns,
                                      .upid = a->span.upid,
                                      .one_heap = a->span.one_heap,
                                      .heap_name = a->span.heap_name,
                                      .flags = a->flags,
                                      .filters = a->filters,
                                      .max_marks_bytes = budget};
    struct hw_flame_window *s;
    assert_int_equal(hw_flame_window_new(&q, &s), 0);
    struct hw_flame_window_place place = {.ts_ns = 5 * STEP_NS};
    for (int i = 0; i < 60; i++) {
        struct hw_flame f;
        int64_t unfiltered;
        int64_t *end = rand() % 3 ? &place.ts_ns : &place.from_ns;
        *end = rand() % 4 ? *end + (rand() % 5 - 2) * STEP_NS : rand() % ((N_DUMPS + 3) * STEP_NS);
        place.has_from = rand() % 4 != 0;
        place.metric = (enum hw_metric)(rand() % HW_METRIC_COUNT);
        place.min_share = shares[rand() % (int)HW_ARRAY_LEN(shares)];
        assert_int_equal(hw_flame_window_move(s, &place, &f, &unfiltered), 0);
        check(w, a, &place, &f, unfiltered);
        hw_flame_done(&f);
    }
    hw_flame_window_free(s);
}

static void graphs_move(void **state)
{
    static const char *const filters[][3] = {
        {NULL},
        {"f03", NULL},
        {"HS:f05", "HF:f02", NULL},
        {"SF:/f0[0-6]/", NULL},
        {"SFF:f04", "M:libx", NULL},
        {"SS:nowhere", NULL},
    };
    (void)state;
    for (unsigned seed = 1; seed <= 12; seed++) {
        struct world w;
        world_init(&w, 100 + seed, seed % 2);
        for (size_t k = 0; k < HW_ARRAY_LEN(filters); k++) {
            hw_filters list = {0};
            struct hw_filter_matches matches = {0};
            struct hw_error err = {0};
            for (size_t i = 0; filters[k][i]; i++)
                assert_int_equal(hw_filters_add(&list, filters[k][i], &err), 0);
            assert_int_equal(hw_filter_match(&list, w.p->callsites, w.fns, NULL, NULL, &matches),
                             0);
            bool one = rand() % 2;
            struct asked a = {.span = {.upid = w.list.v.v[rand() % 3].upid,
                                       .one_heap = one,
                                       .heap_name = fill_str(w.p, "libc.malloc"),
                                       .filters = &list},
                              .flags = (unsigned)(rand() % 2 ? HW_FLAME_SITES : 0) |
                                       (unsigned)(rand() % 2 ? HW_FLAME_COLLAPSE : 0),
                              .filters = list.n ? &matches : NULL};
            wander(&w, &a, rand() % 2 ? 40000 : 1 << 24);
            hw_filter_matches_done(&matches);
            hw_filters_done(&list);
        }
        world_done(&w);
    }
}

static void figures_that_do_not_fit_are_left_to_the_slow_way(void **state)
{
    (void)state;
    struct world w = {0};
    assert_int_equal(hw_profile_new(&w.p), 0);
    uint32_t dump = fill_dump(w.p, 1, "h", 10, 1, 0);
    fill_row(w.p, dump, "main;a", 1, INT64_MAX);
    fill_row(w.p, dump, "main;b", 1, INT64_MAX);
    assert_int_equal(hw_profile_freeze(w.p), 0);
    assert_int_equal(hw_series_list_init(&w.list, w.p), 0);
    assert_int_equal(hw_functions_new(w.p->callsites, NULL, &w.fns), 0);
    struct hw_flame_window_query q = {
        .p = w.p, .list = &w.list, .fns = w.fns, .upid = w.list.v.v[0].upid};
    struct hw_flame_window_place place = {.ts_ns = 10};
    struct hw_flame_window *s;
    struct hw_flame f;
    int64_t unfiltered;
    assert_int_equal(hw_flame_window_new(&q, &s), 0);
    assert_int_equal(hw_flame_window_move(s, &place, &f, &unfiltered), HW_ELIMIT);
    place.metric = HW_METRIC_OBJECTS;
    assert_int_equal(hw_flame_window_move(s, &place, &f, &unfiltered), 0);
    assert_int_equal(unfiltered, 2);
    hw_flame_done(&f);
    hw_flame_window_free(s);
    world_done(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_go_back),
        cmocka_unit_test(graphs_move),
        cmocka_unit_test(figures_that_do_not_fit_are_left_to_the_slow_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
