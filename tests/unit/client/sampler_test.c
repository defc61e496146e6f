/*
 * sampler_test.c - the countdown against what it is meant to be, with fixed seeds
 */
#include <math.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/sample/probes.h"
#include "client/sample/stacks.h"
#include "test.h"

/* What sampler.c takes from the rest of the client: one thread, always in the same session. */
__thread struct hw_tls hw_here;
union hw_live_block hw_live_block;
union hw_control_block hw_control_block;
static struct hw_session *session;

void hw_session_settle(struct hw_tls *t, uint32_t generation)
{
    t->generation = generation;
}
bool hw_probes_go_on(struct hw_tls *t)
{
    (void)t;
    return false;
}
void hw_enter(struct hw_visit *v)
{
    *v = (struct hw_visit){.session = session};
}
void hw_leave(struct hw_visit *v)
{
    (void)v;
}

bool hw_stack_has_room(uint64_t sp)
{
    (void)sp;
    return true;
}

static void begin(uint64_t interval)
{
    atomic_store(&session->interval[HW_HEAP_ID_LIBC], interval);
    atomic_store(&hw_live.session, session);
    hw_sampler_start(&hw_here, session);
}

/* Mean and, for the first values, each one's frequency. */
static void check_draw(uint64_t n, uint64_t draws)
{
    uint64_t rng = n, first[8] = {0};
    double sum = 0, p = 1 / (double)n, left = 1;
    for (uint64_t i = 0; i < draws; i++) {
        uint64_t x = hw_sampler_draw(&rng, n);
        assert_true(x >= 1);
        sum += (double)x;
        if (x <= 8)
            first[x - 1]++;
    }
    double mean = sum / (double)draws;
    double error = (double)n * sqrt((1 - p) / (double)draws);
    if (fabs(mean - (double)n) > 4 * error)
        print_error("interval %ju: mean %.4f, %.1f standard errors off\n", (uintmax_t)n, mean,
                    (mean - (double)n) / error);
    assert_true(fabs(mean - (double)n) <= 4 * error);
    for (int k = 0; k < 8; k++) {
        double want = (double)draws * left * p;
        assert_true(fabs((double)first[k] - want) <= 4.5 * sqrt(want) + 1);
        left *= 1 - p;
    }
}

static void test_draw(void **state)
{
    (void)state;
    check_draw(2, 4000000);
    check_draw(16, 4000000);
    check_draw(4096, 4000000);
    uint64_t rng = 1;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(hw_sampler_draw(&rng, 1), 1);
        assert_true(hw_sampler_draw(&rng, UINT64_MAX) >= 1);
    }
}

/* Through the hot path: what the samples stand for is what was asked for. */
static void check_weights(uint64_t n, uint64_t blocks)
{
    begin(n);
    uint64_t rng = 7;
    double asked = 0, stands_for = 0, exact = 0;
    for (uint64_t i = 0; i < blocks; i++) {
        rng = rng * 6364136223846793005u + 1442695040888963407u;
        uint64_t size = (rng >> 33) % (n + n / 4 + 1);
        uint64_t w = hw_due(size) ? hw_sampler_take(size, 0) : HW_NOT_SAMPLED;
        if (size >= n) {
            assert_int_equal(w, size);
            exact += (double)size;
            continue;
        }
        asked += (double)size;
        if (w == HW_NOT_SAMPLED)
            continue;
        assert_true(size > 0 && w % n == 0);
        stands_for += (double)w;
    }
    assert_true(exact > 0);
    double error = sqrt(asked * (double)(n - 1));
    if (fabs(stands_for - asked) > 4 * error)
        print_error("interval %ju: %.0f for %.0f, %.1f standard errors\n", (uintmax_t)n, stands_for,
                    asked, (stands_for - asked) / error);
    assert_true(fabs(stands_for - asked) <= 4 * error);
}

static void test_weights(void **state)
{
    (void)state;
    check_weights(2, 4000000);
    check_weights(16, 4000000);
    check_weights(4096, 4000000);
}

static void test_everything_at_1(void **state)
{
    (void)state;
    begin(1);
    for (uint64_t i = 0; i < 1000; i++)
        for (uint64_t size = 0; size < 3; size++) {
            assert_true(hw_due(size));
            assert_int_equal(hw_sampler_take(size, 0), size);
        }
}

static void test_size_0_otherwise(void **state)
{
    (void)state;
    begin(2);
    for (uint64_t i = 0; i < 1000; i++)
        assert_true(!hw_due(0) || hw_sampler_take(0, 0) == HW_NOT_SAMPLED);
}

int main(void)
{
    session = calloc(1, sizeof *session);
    if (!session)
        return 1;
    session->seed = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draw),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_everything_at_1),
        cmocka_unit_test(test_size_0_otherwise),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(session);
    return rc;
}
