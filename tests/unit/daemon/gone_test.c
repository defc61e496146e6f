/*
 * gone_test.c - the index by address against a look at every range
 */
#include "test.h"

#include <stdlib.h>

#include "daemon/code/unmapped.h"

static const struct hw_frame_range *last_of(const struct hw_unmapped *g, uint64_t pc)
{
    for (size_t i = g->ranges.n; i > 0; i--)
        if (pc >= g->ranges.v[i - 1].lo && pc < g->ranges.v[i - 1].hi)
            return &g->ranges.v[i - 1];
    return NULL;
}

static const struct hw_frame_range *since(const struct hw_unmapped *g, uint64_t pc,
                                          uint16_t generation)
{
    for (size_t i = 0; i < g->ranges.n; i++) {
        const struct hw_frame_range *r = &g->ranges.v[i];
        if ((int16_t)(r->last_generation - generation) >= 0 && pc >= r->lo && pc < r->hi)
            return r;
    }
    return NULL;
}

static void test_against_all(void **state)
{
    struct hw_unmapped g = {0};
    (void)state;
    srand(1);
    assert_null(hw_unmapped_last(&g, 5));
    for (int i = 0; i < 200; i++) {
        uint64_t lo = (uint64_t)(rand() % 300);
        struct hw_frame_range r = {.lo = lo,
                                   .hi = lo + 1 + (uint64_t)(rand() % 60),
                                   .last_generation = (uint16_t)(65500 + i / 3)};
        assert_int_equal(hw_unmapped_push(&g, &r), 0);
        for (uint64_t pc = 0; pc < 400; pc++)
            assert_ptr_equal(hw_unmapped_last(&g, pc), last_of(&g, pc));
        for (int k = 0; k < 20; k++) {
            uint64_t pc = (uint64_t)(rand() % 400);
            uint16_t generation = (uint16_t)(65500 + rand() % 70);
            assert_ptr_equal(hw_unmapped_since(&g, pc, generation), since(&g, pc, generation));
        }
    }
    hw_unmapped_done(&g);
}

/* However often a target maps and unmaps. */
static void test_bounded(void **state)
{
    struct hw_unmapped g = {0};
    (void)state;
    for (uint64_t i = 0; i < 10 * HW_UNMAPPED_MAX; i++)
        assert_int_equal(
            hw_unmapped_push(&g, &(struct hw_frame_range){.lo = i * 16, .hi = i * 16 + 8}), 0);
    assert_true(g.ranges.n <= HW_UNMAPPED_MAX);
    assert_int_equal(hw_unmapped_last(&g, 10 * HW_UNMAPPED_MAX * 16 - 16)->lo,
                     10 * HW_UNMAPPED_MAX * 16 - 16);
    assert_null(hw_unmapped_last(&g, 0));
    assert_null(hw_unmapped_last(&g, 10 * HW_UNMAPPED_MAX * 16 - 8));
    assert_true(hw_unmapped_bytes(&g) < 1u << 20);
    hw_unmapped_done(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_all),
                                       cmocka_unit_test(test_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
