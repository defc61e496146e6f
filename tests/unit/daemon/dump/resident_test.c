/*
 * resident_test.c - resident memory of mappings, by the calls that made them
 */
#include "test.h"

#include "daemon/dump/resident.h"

#define PAGE UINT64_C(4096)

static uint64_t of(const struct hw_measured_heap *m, uint32_t stack)
{
    for (size_t i = 0; i < m->stacks.n; i++)
        if (m->stacks.v[i] == stack)
            return hw_totals_live(&m->sites.v[i].told);
    return 0;
}

/* counts: of the page map, in the order in which it is asked; NULL = it cannot be read. */
static uint64_t measure(struct hw_measured_heap *m, struct hw_reading_map *maps, size_t n_maps,
                        const struct hw_mapped_by *calls, size_t n_calls, const uint64_t *counts,
                        size_t n_asked)
{
    hw_reading_maps list = {.v = maps, .n = n_maps};
    hw_mapped_list mapped = {0};
    struct hw_resident r = {.to = m};
    struct hw_snap_book out = {0};
    for (size_t i = 0; i < n_calls; i++)
        assert_int_equal(hw_vec_push(&mapped, calls[i]), 0);
    hw_measured_heap_begin(m);
    assert_int_equal(hw_resident_divide(&r, &list, &mapped), 0);
    assert_int_equal(r.ask.n, n_asked);
    for (size_t i = 0; counts && i < n_asked; i++)
        r.ask.v[i].n_pages = counts[i];
    assert_int_equal(hw_resident_count(&r, PAGE), 0);
    assert_int_equal(hw_measured_heap_tell(m, &out), 0);
    uint64_t divided = r.divided_bytes;
    hw_resident_done(&r);
    hw_vec_done(&out.cells);
    hw_vec_done(&mapped);
    return divided;
}

/* A mapping of one call, also of two like ones; one that is all there; one of nobody; none of it is asked for. */
static void test_told_by_sums(void **state)
{
    (void)state;
    struct hw_measured_heap m = {0};
    struct hw_reading_map maps[] = {{10 * PAGE, 20 * PAGE, 3 * PAGE},
                                    {30 * PAGE, 40 * PAGE, 10 * PAGE},
                                    {50 * PAGE, 60 * PAGE, 5 * PAGE}};
    const struct hw_mapped_by calls[] = {
        {33 * PAGE, 37 * PAGE, 3},
        {14 * PAGE, 30 * PAGE, 1}, /* 20 to 30: nothing of it is there */
        {30 * PAGE, 32 * PAGE, 2},
        {5 * PAGE, 14 * PAGE, 1}};
    assert_int_equal(measure(&m, maps, 3, calls, 4, NULL, 0), 0);
    assert_int_equal(of(&m, 1), 3 * PAGE);
    assert_int_equal(of(&m, 2), 2 * PAGE);
    assert_int_equal(of(&m, 3), 4 * PAGE);
    hw_measured_heap_done(&m);
}

/* Joined by the kernel: the page map tells; later it cannot, and what it told last does, else the size. */
static void test_joined(void **state)
{
    (void)state;
    struct hw_measured_heap m = {0};
    struct hw_reading_map maps[] = {{10 * PAGE, 20 * PAGE, 8 * PAGE}};
    const struct hw_mapped_by calls[] = {{10 * PAGE, 15 * PAGE, 1}, {15 * PAGE, 20 * PAGE, 2}};
    const uint64_t counts[] = {2, 5};
    assert_int_equal(measure(&m, maps, 1, calls, 2, NULL, 2), 8 * PAGE);
    assert_int_equal(of(&m, 1), 4 * PAGE);
    assert_int_equal(of(&m, 2), 4 * PAGE);
    assert_int_equal(measure(&m, maps, 1, calls, 2, counts, 2), 0);
    assert_int_equal(of(&m, 1), 2 * PAGE);
    assert_int_equal(of(&m, 2), 5 * PAGE);
    maps[0].rss_bytes = 7 * PAGE;
    assert_int_equal(measure(&m, maps, 1, calls, 2, NULL, 2), 7 * PAGE);
    assert_int_equal(of(&m, 1), 2 * PAGE);
    assert_int_equal(of(&m, 2), 5 * PAGE);
    assert_int_equal(measure(&m, maps, 0, calls, 2, NULL, 0), 0); /* given back */
    assert_int_equal(of(&m, 1), 0);
    hw_measured_heap_done(&m);
}

/* A program says how large its samples are. */
static void test_more_than_numbers_hold(void **state)
{
    (void)state;
    struct hw_measured_heap m = {0};
    struct hw_snap_book out = {0};
    hw_measured_heap_begin(&m);
    assert_int_equal(hw_measured_heap_add(&m, 1, 0x1p76, 1), 0);
    assert_int_equal(hw_measured_heap_add(&m, 2, -0x1p76, 1), 0);
    assert_int_equal(hw_measured_heap_tell(&m, &out), 0);
    assert_true(of(&m, 1) == UINT64_MAX);
    assert_int_equal(of(&m, 2), 0);
    hw_vec_done(&out.cells);
    hw_measured_heap_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_told_by_sums),
                                       cmocka_unit_test(test_joined),
                                       cmocka_unit_test(test_more_than_numbers_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
