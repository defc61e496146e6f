#include "test.h"

#include <math.h>

#include "views/fill.h"
#include "views/findings/accounting.h"

static void count(struct hw_profile *p, int64_t ts, const char *name, double value)
{
    struct hw_counter_row row = {
        .upid = {0}, .name = fill_str(p, name), .ts_ns = ts, .value = value};
    assert_int_equal(hw_vec_push(&p->counters, row), 0);
}

static void map(struct hw_profile *p, int64_t ts, const char *path, uint64_t size_kb,
                uint64_t rss_kb)
{
    struct hw_smaps_row row = {.upid = {0},
                               .ts_ns = ts,
                               .path = fill_str(p, path),
                               .size_kb = size_kb,
                               .rss_kb = rss_kb,
                               .swap_kb = HW_SMAPS_UNKNOWN,
                               .aggregate_count = HW_SMAPS_UNKNOWN};
    assert_int_equal(hw_vec_push(&p->smaps, row), 0);
}

static void find(struct hw_profile *p, int64_t ts, struct hw_accounting *out)
{
    struct hw_series_list list;
    struct hw_process_view v;
    struct hw_value live = {.space = 1000};
    if (!p->frozen)
        assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_series_list_init(&list, p), 0);
    assert_int_equal(hw_process_view_init(&v, p, &list, (hw_upid){0}), 0);
    assert_int_equal(hw_accounting_find(p, &v, ts, &live, out), 0);
    hw_process_view_done(&v);
    hw_series_list_done(&list);
}

static struct hw_profile *flat_profile(int n_dumps)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    for (int i = 0; i < n_dumps; i++) {
        uint32_t d = fill_dump(p, 5, "libc.malloc", 100 * (i + 1), 1, 0);
        if (i == 0)
            fill_row(p, d, "main;work;malloc@/lib/libc.so", 10, 1000);
    }
    return p;
}

static void sources_at_times_of_their_own(void **state)
{
    (void)state;
    struct hw_profile *p = flat_profile(4);
    count(p, 140, "malloc_info.in_use", 900);
    count(p, 140, "malloc_info.mmap", 300);
    count(p, 140, "malloc_info.arena", 1700);
    count(p, 240, "malloc_info.in_use", 1100);
    count(p, 240, "malloc_info.mmap", 300);
    count(p, 240, "malloc_info.arena", 2100);
    count(p, 200, "mem.rss", 1500);
    struct hw_accounting a;
    find(p, 200, &a);
    assert_true(a.now[HW_ACCOUNT_REQUESTED].known);
    assert_near(a.now[HW_ACCOUNT_IN_USE].bytes, 1400, 1e-9); /* 240 is nearer than 140 */
    assert_int_equal(a.now[HW_ACCOUNT_IN_USE].at_ns, 240);
    assert_near(a.now[HW_ACCOUNT_MAPPED].bytes, 2400, 1e-9);
    assert_near(a.fragmentation, 1000.0 / 2400, 1e-9);
    assert_false(a.now[HW_ACCOUNT_SWAPPED].known);
    assert_true(a.notes & HW_ACCOUNT_UNTOUCHED);
    assert_false(a.has_kinds);
    struct hw_account_step s[HW_ACCOUNT_MAX_STEPS];
    static const char *const names[] = {"requested", "overhead", "in_use",  "caches",
                                        "mapped",    "gap",      "resident"};
    assert_int_equal(hw_accounting_steps(&a, s), 7);
    for (int i = 0; i < 7; i++)
        assert_string_equal(s[i].name, names[i]);
    assert_near(s[5].begin, 2400, 1e-9);
    assert_near(s[5].end, 1500, 1e-9);
    /* 100 140 200 240 300 400 */
    assert_int_equal(a.points.n, 6);
    assert_true(isnan(a.points.v[0].bytes[HW_ACCOUNT_IN_USE]));
    assert_near(a.points.v[2].bytes[HW_ACCOUNT_IN_USE], 1200 + 200 * 0.6, 1e-9);
    assert_true(isnan(a.points.v[5].bytes[HW_ACCOUNT_IN_USE]));
    assert_near(a.points.v[5].bytes[HW_ACCOUNT_REQUESTED], 1000, 1e-9);
    hw_accounting_done(&a);
    hw_profile_free(p);
}

static void nothing_known_is_not_zero(void **state)
{
    (void)state;
    struct hw_profile *p = flat_profile(1);
    struct hw_accounting a;
    find(p, 100, &a);
    for (int l = HW_ACCOUNT_IN_USE; l < HW_ACCOUNT_LINE_COUNT; l++)
        assert_false(a.now[l].known);
    assert_true(a.fragmentation < 0);
    assert_int_equal(a.notes, 0);
    hw_accounting_done(&a);
    hw_profile_free(p);
}

static void a_sawtooth_keeps_what_it_freed(void **state)
{
    (void)state;
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    static const int64_t course[] = {1, 5, 1, 5, 5, 1, 5, 1, 1, 1, 5, 1};
    for (int i = 0; i < 12; i++) {
        int64_t more = course[i] - (i ? course[i - 1] : 0);
        uint32_t d = fill_dump(p, 1, "libc.malloc", 100 * (i + 1), 1, 0);
        if (more)
            fill_row(p, d, "main;f", more, 1000 * more);
        count(p, 100 * (i + 1), "malloc_info.arena", 6000 + 300 * i);
    }
    struct hw_accounting a;
    find(p, 1200, &a);
    assert_int_equal(a.notes & HW_ACCOUNT_NOT_RETURNED, HW_ACCOUNT_NOT_RETURNED);
    hw_accounting_done(&a);
    hw_profile_free(p);
}

static void what_the_curves_say(void **state)
{
    (void)state;
    struct hw_profile *p = flat_profile(9);
    for (int i = 0; i < 9; i++) {
        count(p, 100 * (i + 1), "malloc_info.arena", 2000 + 200 * i);
        count(p, 100 * (i + 1), "malloc_info.in_use", 1100 + i);
        count(p, 100 * (i + 1), "mem.rss", 9000 + 1000 * i);
    }
    struct hw_accounting a;
    find(p, 900, &a);
    assert_int_equal(a.notes, HW_ACCOUNT_NOT_RETURNED | HW_ACCOUNT_OUTSIDE);
    hw_accounting_done(&a);
    hw_profile_free(p);
}

static void mappings_by_kind(void **state)
{
    (void)state;
    struct hw_profile *p = flat_profile(2);
    map(p, 90, "[heap]", 1, 1);
    map(p, 190, "[heap]", 40, 20);
    map(p, 190, "", 100, 50);
    map(p, 190, "/usr/lib/libc.so.6", 8, 4);
    map(p, 190, "/memfd:heapwise-ring (deleted)", 16, 2);
    map(p, 190, "/memfd:theirs (deleted)", 16, 3);
    map(p, 190, "[vdso]", 8, HW_SMAPS_UNKNOWN);
    struct hw_accounting a;
    find(p, 200, &a);
    static const uint64_t rss_kb[HW_ACCOUNT_KIND_COUNT] = {[HW_ACCOUNT_KIND_HEAP] = 20,
                                                           [HW_ACCOUNT_KIND_ANONYMOUS] = 50,
                                                           [HW_ACCOUNT_KIND_FILE] = 4,
                                                           [HW_ACCOUNT_KIND_PROFILER] = 2,
                                                           [HW_ACCOUNT_KIND_SHARED] = 3};
    assert_true(a.has_kinds);
    assert_int_equal(a.kinds_ns, 190);
    for (int k = 0; k < HW_ACCOUNT_KIND_COUNT; k++)
        assert_int_equal(a.kinds[k].rss, rss_kb[k] * 1024);
    assert_int_equal(a.kinds[HW_ACCOUNT_KIND_OTHER].n, 1);
    hw_accounting_done(&a);
    hw_profile_free(p);
}

HW_TEST_MAIN(cmocka_unit_test(sources_at_times_of_their_own),
             cmocka_unit_test(nothing_known_is_not_zero), cmocka_unit_test(what_the_curves_say),
             cmocka_unit_test(a_sawtooth_keeps_what_it_freed), cmocka_unit_test(mappings_by_kind))
