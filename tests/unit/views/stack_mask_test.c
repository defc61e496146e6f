/* Sizes, lifetimes and leaks of filtered stacks against those of a profile that never had the
 * others. Which stacks these are is decided here on their texts. */
#include "test.h"

#include "base/error.h"
#include "views/fill.h"
#include "views/findings/leaks.h"
#include "views/findings/lifetimes.h"
#include "views/findings/sizes.h"
#include "views/flame/functions.h"
#include "views/stack_mask.h"
#include "views/time/process_view.h"

enum { N_STACKS = 40, N_DUMPS = 12, MAX_DEPTH = 6, N_NAMES = 9 };

static char stacks[N_STACKS][128];

static void make_stacks(void)
{
    for (int i = 0; i < N_STACKS; i++) {
        stacks[i][0] = 0;
        int depth = 1 + rand() % MAX_DEPTH;
        for (int d = 0; d < depth; d++) {
            size_t at = strlen(stacks[i]);
            snprintf(stacks[i] + at, sizeof stacks[i] - at, "%sf%02d%s", d ? ";" : "",
                     d ? rand() % N_NAMES : 0, d % 3 == 1 ? "@/lib/libx.so.1" : "");
        }
        strcat(stacks[i], ";malloc");
    }
}

struct filter {
    const char *text, *has; /* kept: stacks whose text has this, */
    bool hides;             /* or those that have not */
};

static const struct filter filters[] = {
    {"f03", "f03", false},           {"HS:f05", "f05", true},  {"M:libx", "libx", false},
    {"SFF:f04", "f04", false},       {"HF:f04", "f00", false}, {"P:f07", "f07", false},
    {"SS:malloc", "nowhere", false}, /* the stack ends at who asked */
    {"!SS:f06", "f06", true},
};

static bool is_kept(const struct filter *f, int stack)
{
    return !f || (strstr(stacks[stack], f->has) != NULL) != f->hides;
}

struct world {
    struct hw_profile *p;
    struct hw_series_list list;
    struct hw_process_view view;
    struct hw_functions *fns;
};

/* only: rows of the stacks that it keeps; every stack is there, so that numbers are the same. */
static void world_init(struct world *w, unsigned seed, const struct filter *only)
{
    assert_int_equal(hw_profile_new(&w->p), 0);
    srand(seed);
    make_stacks();
    for (int i = 0; i < N_STACKS; i++)
        (void)fill_stack(w->p, stacks[i]);
    for (int k = 0; k < N_DUMPS; k++)
        for (int h = 0; h < 2; h++) {
            uint32_t dump =
                fill_dump(w->p, 1, h ? "pool" : "libc.malloc", 1000000000ll * (k + 1), 1, 0);
            for (int i = 0; i < N_STACKS; i++) {
                int64_t n = 1 + rand() % 9, size = n * (1 + rand() % 5000);
                bool frees = rand() % 3 == 0, comes = rand() % 3 != 0;
                if (!comes || !is_kept(only, i))
                    continue;
                fill_row(w->p, dump, stacks[i], n, size);
                if (frees)
                    fill_row(w->p, dump, stacks[i], -n, -size / 2);
            }
        }
    assert_int_equal(hw_profile_freeze(w->p), 0);
    assert_int_equal(hw_series_list_init(&w->list, w->p), 0);
    assert_int_equal(hw_functions_new(w->p->callsites, NULL, &w->fns), 0);
    assert_int_equal(hw_process_view_init(&w->view, w->p, &w->list, w->list.v.v[0].upid), 0);
}

static void world_done(struct world *w)
{
    hw_process_view_done(&w->view);
    hw_functions_free(w->fns);
    hw_series_list_done(&w->list);
    hw_profile_free(w->p);
}

static void sizes_of(const struct world *w, struct hw_stack_mask *mask, hw_size_rows *out)
{
    struct hw_sizes_query q = {.p = w->p,
                               .list = &w->list,
                               .fns = w->fns,
                               .upid = w->view.upid,
                               .ts_ns = 7000000000ll,
                               .mask = mask};
    assert_int_equal(hw_sizes_find(&q, out), 0);
}

static void same_sizes(const struct world *all, struct hw_stack_mask *mask, const struct world *few)
{
    hw_size_rows a = {0}, b = {0};
    sizes_of(all, mask, &a);
    sizes_of(few, NULL, &b);
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        assert_int_equal(a.v[i].series, b.v[i].series);
        assert_int_equal(a.v[i].function, b.v[i].function);
        assert_int_equal(a.v[i].class, b.v[i].class);
        assert_memory_equal(&a.v[i].v, &b.v[i].v, sizeof a.v[i].v);
    }
    hw_vec_done(&a);
    hw_vec_done(&b);
}

static void lifetimes_of(const struct world *w, struct hw_stack_mask *mask,
                         struct hw_lifetimes *out)
{
    struct hw_lifetimes_query q = {
        .p = w->p, .list = &w->list, .fns = w->fns, .upid = w->view.upid, .mask = mask};
    assert_int_equal(hw_lifetimes_find(&q, out), 0);
}

static void same_lifetimes(const struct world *all, struct hw_stack_mask *mask,
                           const struct world *few)
{
    struct hw_lifetimes a, b;
    lifetimes_of(all, mask, &a);
    lifetimes_of(few, NULL, &b);
    assert_int_equal(a.v.n, b.v.n);
    for (size_t i = 0; i < a.v.n; i++) {
        const struct hw_lifetime *x = &a.v.v[i], *y = &b.v.v[i];
        assert_int_equal(x->function, y->function);
        assert_int_equal(x->alloc_space, y->alloc_space);
        assert_int_equal(x->space, y->space);
        assert_true(x->mean_lifetime_s == y->mean_lifetime_s &&
                    x->temporary_least == y->temporary_least &&
                    x->temporary_most == y->temporary_most);
    }
    hw_lifetimes_done(&a);
    hw_lifetimes_done(&b);
}

static void leaks_of(const struct world *w, struct hw_stack_mask *mask, struct hw_leaks *out)
{
    struct hw_leaks_query q = {
        .p = w->p, .list = &w->list, .view = &w->view, .fns = w->fns, .mask = mask};
    assert_int_equal(hw_leaks_find(&q, out), 0);
}

static void same_leaks(const struct world *all, struct hw_stack_mask *mask, const struct world *few)
{
    struct hw_leaks a, b;
    leaks_of(all, mask, &a);
    leaks_of(few, NULL, &b);
    assert_int_equal(a.total.space, b.total.space);
    assert_true(a.total_first == b.total_first);
    assert_int_equal(a.t.n, b.t.n);
    assert_int_equal(a.v.n, b.v.n);
    for (size_t i = 0; i < a.v.n; i++) {
        const struct hw_leak *x = &a.v.v[i], *y = &b.v.v[i];
        assert_int_equal(a.tree.v.v[x->node].function, b.tree.v.v[y->node].function);
        assert_int_equal(x->verdict, y->verdict);
        assert_int_equal(x->now.space, y->now.space);
        assert_true(x->grown == y->grown && x->survival == y->survival);
        assert_memory_equal(a.history + i * a.t.n, b.history + i * b.t.n,
                            a.t.n * sizeof *a.history);
    }
    hw_leaks_done(&a);
    hw_leaks_done(&b);
}

static void as_if_the_others_never_were(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 6; seed++)
        for (size_t k = 0; k < HW_ARRAY_LEN(filters); k++) {
            struct world all, few;
            hw_filters list = {0};
            struct hw_filter_matches matches = {0};
            struct hw_stack_mask *mask;
            struct hw_error err = {0};
            world_init(&all, seed, NULL);
            world_init(&few, seed, &filters[k]);
            assert_int_equal(hw_filters_add(&list, filters[k].text, &err), 0);
            assert_int_equal(
                hw_filter_match(&list, all.p->callsites, all.fns, NULL, NULL, &matches), 0);
            assert_int_equal(hw_stack_mask_new(all.p, all.fns, &matches, HW_FLAME_SITES, &mask), 0);
            same_sizes(&all, mask, &few);
            same_lifetimes(&all, mask, &few);
            same_leaks(&all, mask, &few);
            assert_int_equal(hw_stack_mask_error(mask), 0);
            hw_stack_mask_free(mask);
            hw_filter_matches_done(&matches);
            hw_filters_done(&list);
            world_done(&all);
            world_done(&few);
        }
}

static void heaps_are_chosen(void **state)
{
    struct world w;
    hw_filters list = {0};
    struct hw_filter_matches matches = {0};
    struct hw_stack_mask *mask;
    struct hw_error err = {0};
    hw_size_rows rows = {0};
    struct hw_leaks leaks;
    hw_values values = {0};
    (void)state;
    world_init(&w, 5, NULL);
    assert_int_equal(hw_filters_add(&list, "H:pool", &err), 0);
    assert_int_equal(hw_filter_match(&list, w.p->callsites, w.fns, NULL, NULL, &matches), 0);
    assert_int_equal(hw_stack_mask_new(w.p, w.fns, &matches, HW_FLAME_SITES, &mask), 0);
    sizes_of(&w, mask, &rows);
    assert_true(rows.n > 0);
    for (size_t i = 0; i < rows.n; i++)
        assert_int_equal(rows.v[i].series, 1);
    const struct hw_series *pool = &w.list.v.v[1];
    assert_int_equal(hw_values_at(w.p, pool, pool->shown.v[pool->shown.n - 1], &values), 0);
    int64_t space = 0;
    for (size_t i = 0; i < values.n; i++)
        space += values.v[i].v.space;
    leaks_of(&w, mask, &leaks);
    assert_int_equal(leaks.total.space, space);
    hw_leaks_done(&leaks);
    hw_vec_done(&values);
    hw_vec_done(&rows);
    hw_stack_mask_free(mask);
    hw_filter_matches_done(&matches);
    hw_filters_done(&list);
    world_done(&w);
}

HW_TEST_MAIN(cmocka_unit_test(as_if_the_others_never_were), cmocka_unit_test(heaps_are_chosen))
