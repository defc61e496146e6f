/*
 * profile_sum_test.c - processes that were chosen by chance, added up
 *
 * Of many processes each is taken with one chance: is the mean of the sums the truth, and is the
 * variance told the one that is seen?
 */
#include <math.h>

#include "test.h"

#include "views/fill.h"
#include "views/time/profile_sum.h"

static struct hw_profile *process(int64_t count, int64_t size, double variance)
{
    struct hw_profile *p = NULL;
    assert_int_equal(hw_profile_new(&p), 0);
    fill_row(p, fill_dump(p, 100, "libc.malloc", 10, 4096, 0), "main;work", count, size);
    fill_variance(p, 0, variance);
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

static void add(struct hw_profile_sum *b, const struct hw_profile *p, uint32_t share)
{
    struct hw_profile_sum_part part = {
        .p = p, .upid = {HW_ID_NONE}, .role = HW_PROFILE_SUM_ADD, .share = share};
    assert_int_equal(hw_profile_sum_add(b, &part), 0);
}

static struct hw_value only(struct hw_profile_sum *b)
{
    hw_values v = {0};
    struct hw_value out = {0};
    assert_int_equal(hw_profile_sum_values(b, &v, NULL), 0);
    assert_true(v.n <= 1);
    if (v.n)
        out = v.v[0].v;
    hw_vec_done(&v);
    hw_profile_sum_done(b);
    return out;
}

static void test_one_of_eight(void **state)
{
    (void)state;
    struct hw_profile_sum b;
    struct hw_profile *p = process(3, 700, 50), *q = process(1, 10, 5);
    assert_int_equal(hw_profile_sum_init(&b), 0);
    add(&b, p, 3);
    add(&b, q, 0);
    struct hw_value v = only(&b);
    assert_int_equal(v.space, 8 * 700 + 10);
    assert_int_equal(v.objects, 8 * 3 + 1);
    assert_int_equal(v.alloc_space, 8 * 700 + 10);
    assert_int_equal(v.samples, 4); /* those that were recorded */
    double want = 8 * 50 + 8.0 * 7 * 700 * 700 + 5;
    if (fabs(v.variance - want) > want * 1e-6)
        fail_msg("variance %.1f, not %.1f", v.variance, want);
    assert_true(fabs((double)v.variance_objects - 8.0 * 7 * 9) < 1);
    hw_profile_free(p);
    hw_profile_free(q);
}

static uint64_t next_random(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x >> 11;
}

/* Each process's own figure is an estimate as well, here the truth plus or minus 60. */
static void test_many(void **state)
{
    enum { RUNS = 1500, PROCESSES = 40, SHARE = 2, NOISE = 60 };
    (void)state;
    double mean = 0, square = 0, told = 0, truth = 0;
    struct hw_profile *low[5], *high[5];
    for (int k = 0; k < 5; k++) {
        low[k] = process(1, 200 + 100 * k - NOISE, NOISE * NOISE);
        high[k] = process(1, 200 + 100 * k + NOISE, NOISE * NOISE);
        truth += (200 + 100.0 * k) * (PROCESSES / 5);
    }
    for (int run = 0; run < RUNS; run++) {
        struct hw_profile_sum b;
        assert_int_equal(hw_profile_sum_init(&b), 0);
        for (int i = 0; i < PROCESSES; i++)
            if (next_random() % (1u << SHARE) == 0)
                add(&b, next_random() % 2 ? low[i % 5] : high[i % 5], SHARE);
        struct hw_value v = only(&b);
        mean += (double)v.space / RUNS;
        square += ((double)v.space - truth) * ((double)v.space - truth) / RUNS;
        told += v.variance / RUNS;
    }
    if (fabs(mean - truth) > 4 * sqrt(square / RUNS))
        fail_msg("the mean of %d sums is %.0f, the truth %.0f", RUNS, mean, truth);
    if (told < square * 0.85 || told > square * 1.15)
        fail_msg("variance: %.4g is told, %.4g is seen", told, square);
    for (int k = 0; k < 5; k++) {
        hw_profile_free(low[k]);
        hw_profile_free(high[k]);
    }
}

/* A process says itself for how many it stands, and what it allocates. */
static void test_no_overflow(void **state)
{
    (void)state;
    struct hw_profile_sum b;
    struct hw_profile *p = process(INT64_MAX / 5, INT64_MAX / 3, 0), *q = process(1, 10, 0);
    assert_int_equal(hw_profile_sum_init(&b), 0);
    add(&b, p, 15);
    add(&b, q, 0);
    struct hw_value v = only(&b);
    assert_int_equal(v.space, INT64_MAX);
    assert_int_equal(v.objects, INT64_MAX);
    assert_int_equal(v.alloc_space, INT64_MAX);
    assert_int_equal(v.alloc_objects, INT64_MAX);
    hw_profile_free(p);
    hw_profile_free(q);
}

static struct hw_profile *loaded_at(uint64_t start)
{
    struct hw_profile *p = NULL;
    struct hw_mapping m = {.start = start, .end = start + 0x1000, .load_bias = 0};
    struct hw_frame f = {.rel_pc = 0x44};
    hw_frame_id frame;
    assert_int_equal(hw_profile_new(&p), 0);
    m.path = fill_str(p, "/usr/bin/cc1");
    m.build_id = fill_str(p, "id");
    f.name = fill_str(p, "work");
    assert_int_equal(hw_callsites_mapping(p->callsites, &m, &f.mapping), 0);
    assert_int_equal(hw_callsites_frame(p->callsites, &f, &frame), 0);
    struct hw_alloc_row row = {.dump = fill_dump(p, 100, "libc.malloc", 10, 4096, 0),
                               .samples = 1,
                               .count = 1,
                               .size = 100};
    assert_int_equal(hw_callsites_intern(p->callsites, &frame, 1, &row.callsite), 0);
    assert_int_equal(hw_alloc_rows_push(&p->allocs, &row), 0);
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

/* The kernel loads a program at another address each time; its stacks are the same. */
static void test_addresses(void **state)
{
    (void)state;
    struct hw_profile_sum b;
    struct hw_profile *p = loaded_at(0x560000000000), *q = loaded_at(0x570000000000);
    assert_int_equal(hw_profile_sum_init(&b), 0);
    add(&b, p, 0);
    add(&b, q, 0);
    assert_int_equal(hw_callsites_n_mappings(b.p->callsites), 1);
    assert_int_equal(only(&b).space, 200); /* of one callstack */
    hw_profile_free(p);
    hw_profile_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_eight),
        cmocka_unit_test(test_no_overflow),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
