/* Bounds against a twin that knows the time of every allocation and free. */
#include "test.h"

#include <math.h>

#include "views/fill.h"
#include "views/findings/lifetimes.h"
#include "views/flame/functions.h"
#include "views/time/series.h"

enum { STACKS = 5, SECOND = 1000000000 };

static int find(struct hw_profile *p, struct hw_functions **fns, struct hw_lifetimes *out)
{
    struct hw_series_list list;
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_functions_new(p->callsites, NULL, fns), 0);
    struct hw_lifetimes_query q = {
        .p = p, .list = &list, .fns = *fns, .upid = {0}, .heap_name = {0}, .start_ns = 0};
    int rc = hw_lifetimes_find(&q, out);
    hw_series_list_done(&list);
    return rc;
}

static const struct hw_lifetime *row_of(const struct hw_profile *p, const struct hw_functions *fns,
                                        const struct hw_lifetimes *l, const char *name)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    for (size_t i = 0; i < l->v.n; i++)
        if (strcmp(hw_strings_cstr(strings, hw_functions_get(fns, l->v.v[i].function)->name),
                   name) == 0)
            return &l->v.v[i];
    fail_msg("no function %s", name);
    return NULL;
}

/* What stays from the first second on lives 9 of 10 s; what is freed at once lives 0. */
static void figures_by_hand(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct hw_functions *fns;
    struct hw_lifetimes l;
    assert_int_equal(hw_profile_new(&p), 0);
    for (int i = 0; i <= 10; i++) {
        uint32_t d = fill_dump(p, 5, "libc.malloc", (int64_t)i * SECOND, 1, 0);
        if (i == 1)
            fill_row(p, d, "main;keep;malloc@/lib/libc.so", 1, 1000);
        if (i == 0)
            continue;
        fill_row(p, d, "main;churn;malloc@/lib/libc.so", 10, 500);
        fill_row(p, d, "main;churn;malloc@/lib/libc.so", -10, -500);
        fill_row(p, d, "main;queue;malloc@/lib/libc.so", 1, 100);
        if (i > 3)
            fill_row(p, d, "main;queue;malloc@/lib/libc.so", -1, -100);
    }
    assert_int_equal(find(p, &fns, &l), 0);
    assert_int_equal(l.v.n, 3);
    assert_near(l.step_s, 10.0 / 11, 1e-9);
    const struct hw_lifetime *r = row_of(p, fns, &l, "keep");
    assert_near(r->mean_lifetime_s, 9.5, 1e-9); /* it came at some time of the first second */
    assert_near(r->temporary_most, 0, 1e-9);
    assert_int_equal(r->space, 1000);
    r = row_of(p, fns, &l, "churn");
    assert_near(r->mean_lifetime_s, 0, 1e-9);
    assert_near(r->temporary_least, 5000, 1e-9);
    assert_int_equal(r->bucket, 0);
    r = row_of(p, fns, &l, "queue"); /* three live from the third second on */
    assert_near(r->mean_lifetime_s, (50 + 150 + 250 + 7 * 300) / 1000.0, 1e-9);
    assert_near(r->temporary_least, 0, 1e-9);
    assert_near(r->temporary_most, 700, 1e-9);
    double sum = 0;
    for (unsigned b = 0; b < HW_LIFETIME_BUCKETS; b++)
        sum += l.bytes[b];
    assert_near(sum, 1000 + 5000 + 1000, 1e-9);
    hw_lifetimes_done(&l);
    hw_functions_free(fns);
    hw_profile_free(p);
}

/* Blocks of random stays, freed in no order; the twin knows which of them were temporary. */
static void bounds_hold(void **state)
{
    (void)state;
    enum { BLOCKS = 400, DUMPS = 20 };
    struct hw_profile *p;
    struct hw_functions *fns;
    struct hw_lifetimes l;
    double temporary[STACKS] = {0}, area[STACKS] = {0}, all[STACKS] = {0};
    struct {
        int stack, came, went, size;
    } blocks[BLOCKS];
    srand(7);
    assert_int_equal(hw_profile_new(&p), 0);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i].stack = rand() % STACKS;
        blocks[i].came = rand() % DUMPS;
        blocks[i].went = blocks[i].came + rand() % (1 + 3 * blocks[i].stack);
        blocks[i].size = 1 + rand() % 1000;
        int s = blocks[i].stack, last = blocks[i].went < DUMPS ? blocks[i].went : DUMPS;
        all[s] += blocks[i].size;
        temporary[s] += blocks[i].went == blocks[i].came ? blocks[i].size : 0;
        area[s] += (double)blocks[i].size * (last - blocks[i].came);
    }
    for (int d = 0; d < DUMPS; d++) {
        uint32_t dump = fill_dump(p, 5, "libc.malloc", (int64_t)(d + 1) * SECOND, 1, 0);
        for (int i = 0; i < BLOCKS; i++) {
            char text[64];
            (void)snprintf(text, sizeof text, "main;f%d;malloc@/lib/libc.so", blocks[i].stack);
            if (blocks[i].came == d)
                fill_row(p, dump, text, 1, blocks[i].size);
            if (blocks[i].went == d)
                fill_row(p, dump, text, -1, -blocks[i].size);
        }
    }
    assert_int_equal(find(p, &fns, &l), 0);
    for (int s = 0; s < STACKS; s++) {
        char name[8];
        (void)snprintf(name, sizeof name, "f%d", s);
        const struct hw_lifetime *r = row_of(p, fns, &l, name);
        assert_int_equal(r->alloc_space, (int64_t)all[s]);
        assert_true(r->temporary_least <= temporary[s] + 1e-6);
        assert_true(r->temporary_most >= temporary[s] - 1e-6);
        /* Blocks came within their second: half a step either way. */
        assert_true(fabs(r->mean_lifetime_s - area[s] / all[s]) <= 0.5 + 1e-9);
    }
    hw_lifetimes_done(&l);
    hw_functions_free(fns);
    hw_profile_free(p);
}

static void buckets_are_half_decades(void **state)
{
    (void)state;
    assert_near(hw_lifetime_bucket_s(0), 1e-6, 1e-12);
    assert_near(hw_lifetime_bucket_s(12), 1, 1e-9);
    assert_near(hw_lifetime_bucket_s(13), sqrt(10), 1e-9);
}

HW_TEST_MAIN(cmocka_unit_test(figures_by_hand), cmocka_unit_test(bounds_hold),
             cmocka_unit_test(buckets_are_half_decades))
