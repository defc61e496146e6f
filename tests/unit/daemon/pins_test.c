/*
 * pins_test.c - what is free on the pages of live blocks, and whose it is
 */
#include "test.h"

#include <string.h>

#include "daemon/dump/pins.h"

#define PAGE HW_PINS_PAGE

static void take(struct hw_measured_heap *p, const struct hw_idle_sample *s, size_t n,
                 size_t n_absent, struct hw_snap_book *out)
{
    struct hw_pins_map m;
    bool resident[64];
    assert_int_equal(hw_pins_map_init(&m, s, n), HW_OK);
    assert_true(m.pages.n <= 64);
    memset(resident, 1, sizeof resident);
    for (size_t i = 0; i < n_absent; i++)
        resident[i] = false;
    *out = (struct hw_snap_book){0};
    assert_int_equal(hw_pins_take(p, &m, resident, out), HW_OK);
    hw_pins_map_done(&m);
}

static uint64_t pinned(const struct hw_measured_heap *p, uint32_t stack)
{
    for (size_t i = 0; i < p->stacks.n; i++)
        if (p->stacks.v[i] == stack)
            return hw_totals_live(&p->sites.v[i].told);
    return 0;
}

static void test_shares(void **state)
{
    (void)state;
    struct hw_measured_heap p = {0};
    struct hw_snap_book out;
    /* 112 and 336 of a page; another page alone; one that begins on the third and ends on the fourth. */
    const struct hw_idle_sample s[] = {{16 * PAGE + 16, 100, 100, 1},
                                       {16 * PAGE + 512, 328, 328, 2},
                                       {20 * PAGE + 16, 24, 24, 1},
                                       {31 * PAGE - 32, 4000, 4000, 3}};
    take(&p, s, 4, 0, &out);
    assert_int_equal(out.cells.n, 3);
    assert_int_equal(pinned(&p, 1), (PAGE - 448) / 4 + PAGE - 32);
    assert_int_equal(pinned(&p, 2), (PAGE - 448) / 4 * 3);
    assert_int_equal(pinned(&p, 3), 2 * PAGE - 4016);
    hw_vec_done(&out.cells);
    take(&p, s, 4, 0, &out); /* nothing changed */
    assert_int_equal(out.cells.n, 0);
    hw_vec_done(&out.cells);
    take(&p, s, 2, 1, &out); /* the only page left is not in memory */
    assert_int_equal(pinned(&p, 1), 0);
    assert_int_equal(pinned(&p, 2), 0);
    assert_int_equal(out.cells.n, 3);
    hw_vec_done(&out.cells);
    hw_measured_heap_done(&p);
}

static void test_pins_nothing(void **state)
{
    (void)state;
    struct hw_measured_heap p = {0};
    struct hw_snap_book out;
    /* A mapping of its own; a full page; addresses and sizes that cannot be. */
    const struct hw_idle_sample s[] = {{64 * PAGE + 16, 1 << 20, 1 << 20, 1},
                                       {80 * PAGE + 8, PAGE - 8, PAGE - 8, 2},
                                       {4, 100, 100, 3},
                                       {UINT64_MAX - 8, 100, 100, 4},
                                       {100 * PAGE, UINT64_MAX, 1, 5}};
    take(&p, s, 5, 0, &out);
    for (uint32_t stack = 1; stack <= 5; stack++)
        assert_int_equal(pinned(&p, stack), 0);
    hw_vec_done(&out.cells);
    hw_measured_heap_done(&p);
}

static void test_overlaps(void **state)
{
    (void)state;
    struct hw_measured_heap p = {0};
    struct hw_snap_book out;
    /* Said of one place twice, and of one within another: no more than a page is free. */
    const struct hw_idle_sample s[] = {{16 * PAGE + 16, 3000, 3000, 1},
                                       {16 * PAGE + 16, 3000, 3000, 2},
                                       {16 * PAGE + 100, 20000, 20000, 3},
                                       {17 * PAGE + 16, 40, 40, 4}};
    take(&p, s, 4, 0, &out);
    uint64_t sum = 0;
    for (uint32_t stack = 1; stack <= 4; stack++)
        sum += pinned(&p, stack);
    assert_true(sum <= 5 * PAGE);
    hw_vec_done(&out.cells);
    hw_measured_heap_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares),
                                       cmocka_unit_test(test_pins_nothing),
                                       cmocka_unit_test(test_overlaps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
