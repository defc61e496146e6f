#include "test.h"

#include "record/web/continuous_guard.h"

#define SECOND UINT64_C(1000000000)

struct run {
    struct hw_continuous_guard g;
    uint64_t now_ns, spent_ns;
};

/* One window in which samples take so many thousandths of a core. */
static bool window(struct run *r, uint64_t permille)
{
    r->now_ns += 60 * SECOND;
    r->spent_ns += 60 * SECOND / 1000 * permille;
    return hw_continuous_guard_step(&r->g, r->now_ns, r->spent_ns);
}

static struct run begin(uint32_t max_percent)
{
    struct run r = {.g = {.max_ppm = max_percent * 10000, .window_ns = 60 * SECOND},
                    .now_ns = SECOND};
    hw_continuous_guard_begin(&r.g);
    assert_false(hw_continuous_guard_step(&r.g, r.now_ns, r.spent_ns));
    return r;
}

static void dear(void **state)
{
    (void)state;
    struct run r = begin(2);
    assert_false(window(&r, 20)); /* as much as there may be */
    assert_true(window(&r, 21));
    assert_int_equal(r.g.doublings, 1);
    assert_true(window(&r, 150)); /* 15 %: three doublings more bring it to 1.9 % */
    assert_int_equal(r.g.doublings, 4);
    assert_true(window(&r, 1000)); /* never at once to nothing */
    assert_int_equal(r.g.doublings, 10);
    for (int i = 0; i < 10; i++)
        (void)window(&r, 1000);
    assert_int_equal(r.g.doublings, 20);
    assert_false(window(&r, 1000));
}

/* Back to what was asked for, and no further; not to and fro. */
static void cheap(void **state)
{
    (void)state;
    struct run r = begin(2);
    assert_true(window(&r, 70));
    assert_int_equal(r.g.doublings, 2);
    for (int i = 0; i < 20; i++)
        assert_false(window(&r, 6)); /* twice that could be too much soon */
    assert_false(window(&r, 4));
    assert_false(window(&r, 6)); /* not twice in a row */
    assert_false(window(&r, 4));
    assert_true(window(&r, 4));
    assert_int_equal(r.g.doublings, 1);
    assert_false(window(&r, 1));
    assert_true(window(&r, 1));
    assert_int_equal(r.g.doublings, 0);
    for (int i = 0; i < 20; i++)
        assert_false(window(&r, 0));
    assert_int_equal(r.g.doublings, 0);
}

static void windows(void **state)
{
    (void)state;
    struct run r = begin(2);
    for (int i = 0; i < 59; i++) { /* a burst within a window is its mean */
        r.now_ns += SECOND;
        r.spent_ns += i < 1 ? SECOND : 0;
        assert_false(hw_continuous_guard_step(&r.g, r.now_ns, r.spent_ns));
    }
    r.now_ns += SECOND;
    assert_false(hw_continuous_guard_step(&r.g, r.now_ns, r.spent_ns));
    assert_true(window(&r, 500));
    hw_continuous_guard_begin(&r.g); /* another recorder */
    assert_int_equal(r.g.doublings, 0);
    r.spent_ns = 0;
    assert_false(window(&r, 900)); /* the first one only begins */
    assert_true(window(&r, 900));
    struct run never = begin(0);
    assert_false(window(&never, 1000));
    assert_false(window(&never, 1000));
}

HW_TEST_MAIN(cmocka_unit_test(dear), cmocka_unit_test(cheap), cmocka_unit_test(windows))
