#include <math.h>

#include "test.h"

#include "views/findings/trend.h"

/* What moved if nothing went that came again: the least there can be. */
static int trend_of(const double *t, const double *live, size_t n, double step, double alloc,
                    struct hw_trend_result *out)
{
    double moved[300] = {0};
    for (size_t i = 1; i < n; i++)
        moved[i] = moved[i - 1] + fabs(live[i] - live[i - 1]);
    struct hw_trend_series s = {
        .t = t, .live = live, .turnover = moved, .n = n, .step = step, .alloc_space = alloc};
    return hw_trend_of(&s, out);
}

static void words_for_shapes(void **state)
{
    (void)state;
    static const struct {
        double live[8];
        size_t n;
        double step, alloc;
        enum hw_trend want;
    } cases[] = {
        {{1, 2, 3}, 3, 0, 3, HW_TREND_NONE},
        {{100, 200, 300, 400, 500}, 5, 10, 500, HW_TREND_GROWING},
        {{100, 200, 300, 400, 500}, 5, 100, 500, HW_TREND_START_UP}, /* four samples: noise */
        {{0, 900, 900, 900, 900, 900}, 6, 10, 900, HW_TREND_START_UP},
        {{900, 900, 900, 900}, 4, 0, 90000, HW_TREND_CHURN},
        {{0, 100, 300, 500, 800, 900, 900, 900}, 8, 5, 900, HW_TREND_CACHE_LIKE},
        {{900, 500, 900, 100, 900, 300, 800, 200}, 8, 5, 9000, HW_TREND_NONE},
        {{5, 4, 3, 0}, 4, 0, 9, HW_TREND_NONE},
    };
    double t[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hw_trend_result r;
        assert_int_equal(trend_of(t, cases[i].live, cases[i].n, cases[i].step, cases[i].alloc, &r),
                         0);
        assert_string_equal(hw_trend_name(r.trend), hw_trend_name(cases[i].want));
    }
}

/* One of four dumps is in the last third, or two: a hair's breadth must not make it another word. */
static void few_moments(void **state)
{
    (void)state;
    static const double live[] = {11, 24, 38, 52};
    for (int i = -1; i <= 1; i++) {
        double t[] = {0, 1, 2 + i * 0.001, 3};
        struct hw_trend_result r;
        assert_int_equal(trend_of(t, live, 4, 0.004, 53, &r), 0);
        assert_string_equal(hw_trend_name(r.trend), "growing");
    }
    static const double filled[] = {11, 38, 52, 52};
    for (int i = -1; i <= 1; i++) {
        double t[] = {0, 1, 2 + i * 0.001, 3};
        struct hw_trend_result r;
        assert_int_equal(trend_of(t, filled, 4, 0.004, 53, &r), 0);
        assert_string_equal(hw_trend_name(r.trend), "cache-like");
    }
}

static void slope_of_a_line(void **state)
{
    (void)state;
    double t[300], y[300];
    for (int i = 0; i < 300; i++) {
        t[i] = i;
        y[i] = 1000 + 7 * i;
    }
    struct hw_trend_result r;
    assert_int_equal(trend_of(t, y, 300, 1, 4000, &r), 0);
    assert_true(r.slope > 6.99 && r.slope < 7.01);
    assert_true(r.tau == 1);
    assert_int_equal(r.trend, HW_TREND_GROWING);
}

HW_TEST_MAIN(cmocka_unit_test(words_for_shapes), cmocka_unit_test(few_moments),
             cmocka_unit_test(slope_of_a_line))
