/*
 * share_test.c - which starts are held, and whether those stand for all
 *
 * Starts come by a clock of the test; what each of them holds is known, so the sum over all is.
 */
#include <math.h>
#include <string.h>

#include "test.h"

#include "daemon/execwatch/exec_share.h"

#define SECOND UINT64_C(1000000000)

static struct hw_exec_shares *fresh(uint64_t seed)
{
    static struct hw_exec_shares s;
    memset(&s, 0, sizeof s);
    s.random = seed * 2 + 1;
    return &s;
}

static uint32_t start(struct hw_exec_shares *s, uint64_t program, uint64_t command, uint64_t at_ns,
                      uint32_t per_minute)
{
    static uint64_t call = 1000;
    struct hw_exec_start x = {program * 2 + 1, command * 2, ++call, at_ns};
    return hw_exec_share_draw(s, &x, per_minute);
}

static void test_rare_ones_are_held(void **state)
{
    (void)state;
    struct hw_exec_shares *s = fresh(1);
    for (uint64_t i = 0; i < 500; i++) /* 19 a minute of 20 */
        assert_int_equal(start(s, 1, 1, SECOND * 1000 + i * 60 * SECOND / 19, 20), 0);
}

static void test_held_a_minute(void **state)
{
    (void)state;
    static const unsigned rates[] = {30, 100, 700, 6000, 60000};
    for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
        struct hw_exec_shares *s = fresh(k + 7);
        unsigned held = 0, minutes = 30;
        for (uint64_t i = 0; i < (uint64_t)rates[k] * minutes; i++) {
            uint64_t at = 5 * SECOND + i * 60 * SECOND / rates[k];
            uint32_t share = start(s, 1, 1, at, 20);
            held += share != HW_EXEC_PASSED && at > 125 * SECOND;
        }
        double a_minute = held / (minutes - 2.0);
        if (a_minute < 8 || a_minute > 24)
            fail_msg("%u starts a minute: %.1f are held", rates[k], a_minute);
    }
}

/* It falls quiet, and is held again at once. */
static void test_comes_back(void **state)
{
    (void)state;
    struct hw_exec_shares *s = fresh(3);
    unsigned passed = 0;
    for (uint64_t i = 0; i < 1000; i++)
        passed += start(s, 1, 1, SECOND + i * SECOND / 10, 20) == HW_EXEC_PASSED;
    assert_true(passed > 500);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(start(s, 1, 1, 161 * SECOND + i * 10 * SECOND, 20), 0);
}

/* A command that is started once, by a program that starts all the time, is held. */
static void test_rare_command(void **state)
{
    (void)state;
    struct hw_exec_shares *s = fresh(4);
    for (uint64_t i = 0; i < 300; i++)
        (void)start(s, 1, 1, SECOND + i * SECOND, 20); /* 60 a minute: below what a program may */
    assert_int_equal(start(s, 1, 2, 302 * SECOND, 20), 0);
    unsigned held = 0;
    for (uint64_t i = 0; i < 6000; i++) /* each command once, 3000 a minute */
        held += start(s, 2, 100 + i, 400 * SECOND + i * SECOND / 50, 20) != HW_EXEC_PASSED;
    if (held < 250 || held > 800)
        fail_msg("of 6000 commands of one program in two minutes %u are held", held);
}

/* Both questions about one call get one answer, and it is counted once. */
static void test_one_call(void **state)
{
    (void)state;
    struct hw_exec_shares *s = fresh(5), *t = fresh(5);
    struct hw_exec_start x = {3, 2, 0, 0};
    unsigned held = 0;
    for (uint64_t i = 0; i < 400; i++) {
        x.call = 5000 + i;
        x.at_ns = SECOND + i * SECOND / 10;
        uint32_t first = hw_exec_share_draw(s, &x, 20);
        x.at_ns += 3000000;
        assert_int_equal(hw_exec_share_draw(t, &x, 20), first);
        held += first != HW_EXEC_PASSED;
    }
    assert_in_range(held, 20, 120);
}

/* The estimate of the sum over all starts, and its variance as views/time/profile_sum.h adds it. */
static void test_sums(void **state)
{
    (void)state;
    enum { RUNS = 3000 };
    double mean = 0, square = 0, told = 0, truth = 0;
    unsigned within = 0;
    for (unsigned run = 0; run < RUNS; run++) {
        struct hw_exec_shares *s = fresh(run * 7919 + 11);
        double sum = 0, variance = 0;
        truth = 0;
        for (uint64_t i = 0; i < 400; i++) {
            double holds = 100 + (double)(i % 7) * 50;
            uint32_t share = start(s, 1, 1, SECOND + i * SECOND / 7, 20);
            truth += holds;
            if (share == HW_EXEC_PASSED)
                continue;
            double w = (double)(1u << share);
            sum += w * holds;
            variance += w * (w - 1) * holds * holds;
        }
        mean += sum / RUNS;
        square += (sum - truth) * (sum - truth) / RUNS;
        told += variance / RUNS;
        within += fabs(sum - truth) < 2 * sqrt(variance);
    }
    if (fabs(mean - truth) > 4 * sqrt(square / RUNS))
        fail_msg("the mean of %d estimates is %.0f, the truth %.0f", RUNS, mean, truth);
    if (told < square * 0.9 || told > square * 1.1)
        fail_msg("variance: %.4g is told, %.4g is seen", told, square);
    if (within < RUNS * 0.90 || within > RUNS * 0.98)
        fail_msg("%u of %d are within two standard errors", within, RUNS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rare_ones_are_held), cmocka_unit_test(test_held_a_minute),
        cmocka_unit_test(test_comes_back),         cmocka_unit_test(test_rare_command),
        cmocka_unit_test(test_one_call),           cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
