/* Figures of scipy 1.10: theilslopes(y, t, 0.95), kendalltau(method='exact') without ties; with
 * ties p = 2 (1 - cdf((|S| - 1) / sqrt(variance with the tie correction))). */
#include "test.h"

#include <math.h>

#include "views/findings/slope.h"

static void as_scipy_has_them(void **state)
{
    (void)state;
    static const struct {
        double t[12], y[12];
        size_t n;
        double slope, low, high, tau, p;
    } cases[] = {
        {{0, 1, 2, 3, 4, 5, 6, 7},
         {10, 12, 15, 17, 21, 22, 26, 29},
         8,
         2.73214285714,
         2.4,
         3,
         1,
         4.96031746032e-05},
        {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
         {5, 6, 7, 900, 9, 10, 11, 12, 13, 14},
         10,
         1,
         1,
         1,
         0.733333333333,
         0.00221285273369},
        {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
         {3, 3, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6},
         12,
         0.285714285714,
         0.2,
         0.333333333333,
         0.80303030303,
         0.000201245268567},
        {{0, 2, 3, 7, 8, 10},
         {50, 41, 44, 30, 22, 9},
         6,
         -4,
         -7,
         -2,
         -0.866666666667,
         0.0166666666667},
        {{0.5, 1.5, 2.0, 3.25, 4, 5, 6.5},
         {7, 3, 9, 1, 8, 2, 6},
         7,
         -0.285714285714,
         -2.33333333333,
         2,
         -0.142857142857,
         0.772619047619},
        {{0, 1, 2, 3}, {1, 2, 3, 5}, 4, 1.16666666667, 1, 2, 1, 0.0833333333333},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hw_slope s;
        assert_int_equal(hw_slope_of(cases[i].t, cases[i].y, cases[i].n, &s), 0);
        assert_near(s.slope, cases[i].slope, 1e-9);
        assert_near(s.low, cases[i].low, 1e-9);
        assert_near(s.high, cases[i].high, 1e-9);
        assert_near(s.tau, cases[i].tau, 1e-9);
        assert_near(s.p, cases[i].p, 1e-9);
    }
}

static void edges(void **state)
{
    (void)state;
    double t[64] = {0}, y[64] = {0};
    struct hw_slope s;
    assert_int_equal(hw_slope_of(t, y, 0, &s), 0);
    assert_true(s.p == 1 && s.slope == 0);
    for (int i = 0; i < 64; i++) {
        t[i] = i;
        y[i] = 5;
    }
    assert_int_equal(hw_slope_of(t, y, 64, &s), 0); /* nothing but ties */
    assert_true(s.p == 1 && s.tau == 0 && s.slope == 0 && s.low == 0 && s.high == 0);
    for (int i = 0; i < 64; i++)
        t[i] = 1; /* no time passed */
    assert_int_equal(hw_slope_of(t, y, 64, &s), 0);
    assert_true(s.p == 1 && s.slope == 0);
    for (int i = 0; i < 33; i++) {
        t[i] = i;
        y[i] = i * i;
    }
    struct hw_slope exact;
    assert_int_equal(hw_slope_of(t, y, 32, &exact), 0); /* the exact distribution's last size… */
    assert_int_equal(hw_slope_of(t, y, 33, &s), 0); /* …and the normal one: both surely rise */
    assert_true(exact.p < 1e-30 && s.p < 1e-10 && s.p > exact.p);
}

HW_TEST_MAIN(cmocka_unit_test(as_scipy_has_them), cmocka_unit_test(edges))
