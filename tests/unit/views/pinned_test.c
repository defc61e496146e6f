/*
 * pinned_test.c - whole free pages are told of one moment: of readings that lie apart only if nothing happened
 */
#include "test.h"

#include "views/account/pinned.h"
#include "views/fill.h"

#define MS INT64_C(1000000)

/* Whole pages as told by a reading at read_ms and a measurement at 1000 ms; rows: allocations at 1500 ms. */
static double whole_of(int64_t read_ms, bool rows, int64_t last_ms)
{
    struct hw_profile *p;
    struct hw_series_list list;
    struct hw_pinned x;
    struct hw_memory_parts m = {.ts_ns = read_ms * MS};
    m.parts[HW_PART_FREE].rss = 5000;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t d = fill_dump(p, 5, "libc.malloc", 1000 * MS, 1, 0);
    fill_row(p, d, "main;work", 10, 1000);
    d = fill_dump(p, 5, HW_PINNED_HEAP, 1000 * MS, 1, 0);
    fill_row(p, d, "main;work", 1, 3000);
    d = fill_dump(p, 5, "libc.malloc", 1500 * MS, 1, 0);
    if (rows)
        fill_row(p, d, "main;work", 1, 100);
    if (last_ms)
        (void)fill_dump(p, 5, "libc.malloc", last_ms * MS, 1, 0);
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_pinned_find(p, &list, (hw_upid){0}, &m, &x), 0);
    double whole = x.whole;
    hw_pinned_done(&x);
    hw_series_list_done(&list);
    hw_profile_free(p);
    return whole;
}

static void test_moments(void **state)
{
    (void)state;
    assert_true(whole_of(1050, true, 2000) == 2000); /* next to each other */
    assert_true(whole_of(1400, true, 2000) < 0); /* within the dump that tells of an allocation */
    assert_true(whole_of(1400, false, 2000) == 2000);
    assert_true(whole_of(1900, true, 2000) < 0);
    assert_true(whole_of(1900, false, 2000) == 2000);
    assert_true(whole_of(1900, false, 0) < 0);  /* no dump behind it: who knows */
    assert_true(whole_of(900, true, 2000) < 0); /* all of it may have come in between */
}

/* What lives where something is pinned is of the measurement, whenever the account's reading is. */
static void test_live(void **state)
{
    (void)state;
    static const struct {
        int64_t read_ms, live;
    } cases[] = {{900, 1000}, {1400, 1000}, {1600, 700}, {2900, 700}};
    struct hw_profile *p;
    struct hw_series_list list;
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t d = fill_dump(p, 5, "libc.malloc", 1000 * MS, 1, 0);
    fill_row(p, d, "main;work", 10, 1000);
    fill_row(p, fill_dump(p, 5, HW_PINNED_HEAP, 1000 * MS, 1, 0), "main;work", 1, 3000);
    d = fill_dump(p, 5, "libc.malloc", 2000 * MS, 1, 0);
    fill_row(p, d, "main;work", -3, -300);
    fill_row(p, fill_dump(p, 5, HW_PINNED_HEAP, 2000 * MS, 1, 0), "main;work", 0, 100);
    d = fill_dump(p, 5, "libc.malloc", 3000 * MS, 1, 0);
    fill_row(p, d, "main;work", 40, 4000);
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&list, p), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hw_pinned x;
        struct hw_memory_parts m = {.ts_ns = cases[i].read_ms * MS};
        assert_int_equal(hw_pinned_find(p, &list, (hw_upid){0}, &m, &x), 0);
        assert_int_equal(x.live.n, 1);
        assert_int_equal(x.live.v[0].v.space, cases[i].live);
        hw_pinned_done(&x);
    }
    hw_series_list_done(&list);
    hw_profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_moments), cmocka_unit_test(test_live)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
