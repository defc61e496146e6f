/*
 * sampler_test.c - the countdown against what it is meant to be, with fixed seeds
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/hooks/sample_due.h"
#include "client/kernel/now.h"
#include "client/kernel/process_limits.h"
#include "client/sample/armed.h"
#include "client/sample/probes.h"
#include "client/sample/sampler.h"
#include "client/session/client_session.h"
#include "client/thread/client_guard.h"
#include "client/thread/stack_bounds.h"
#include "test.h"

/* What sample_due.c, sampler.c and armed.c take from the rest of the client: one thread, always in the same session. */
__thread struct hw_tls hw_here;
union hw_process_page_block hw_process_page_block;
union hw_control_block hw_control_block;
_Atomic uint32_t hw_sandbox_filters, hw_sandbox_stricts;
static struct hw_client_session *session;

void hw_client_session_sync(struct hw_tls *t, uint32_t generation)
{
    t->generation = generation;
    if (atomic_load(&hw_process_page.session))
        hw_sampler_start(t, session);
    else
        (void)hw_armed_join(t);
}
uint64_t hw_random_seed(void)
{
    static uint64_t n;
    return hw_sampler_mix(n += 1000003);
}
void hw_membarrier_prepare(void)
{
}
void hw_client_session_forked(void)
{
    atomic_store(&hw_process_page.started, 1);
    hw_armed_adopt();
}
uint64_t hw_local_clock_ns(clockid_t id)
{
    return (uint64_t)id;
}

/* The recorder's answers: none for a while, then a session in which the draw counts. */
static unsigned n_asked, n_silent;
bool hw_client_session_request(struct hw_tls *t, uint64_t interval)
{
    (void)t;
    n_asked++;
    if (n_silent) {
        n_silent--;
        return false;
    }
    assert_int_equal(interval, hw_armed_interval());
    atomic_store(&hw_process_page.session, session);
    hw_armed_over();
    return true;
}
bool hw_probes_are_current(struct hw_tls *t)
{
    (void)t;
    return false;
}
bool hw_visit_is_nested(struct hw_tls *t, const struct hw_client_guard *v)
{
    (void)t, (void)v;
    return true;
}
void hw_visit_skip_abandoned(struct hw_tls *t, struct hw_client_session *s)
{
    (void)t, (void)s;
}
struct hw_walk_range hw_main_stack;
bool hw_stack_probe_room(uint64_t sp)
{
    (void)sp;
    return true;
}

static void begin(uint64_t interval)
{
    atomic_store(&session->interval[HW_HEAP_ID_LIBC], interval);
    atomic_store(&hw_process_page.session, session);
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

/* One of many short programs: what its samples stand for. */
static double armed_program(uint64_t interval, double asked, uint64_t *rng)
{
    double stands_for = 0, sum = 0;
    char mark[HW_ARMED_MARK_BYTES];
    atomic_store(&hw_process_page.session, NULL);
    atomic_store(&hw_process_page.started, 1);
    hw_here = (struct hw_tls){0};
    (void)snprintf(mark, sizeof mark, HW_ARMED_MARK, (unsigned long long)interval, 7ull, 1u);
    assert_true(hw_armed_begin(mark));
    while (sum < asked) {
        *rng = *rng * 6364136223846793005u + 1442695040888963407u;
        uint64_t size = (*rng >> 33) % (interval / 16) + 1;
        sum += (double)size;
        uint64_t w = hw_due(size) ? hw_sampler_take(size, 0) : HW_NOT_SAMPLED;
        uint64_t now = atomic_load(&session->interval[HW_HEAP_ID_LIBC]);
        if (w == HW_NOT_SAMPLED)
            continue;
        assert_int_equal(w % hw_here.interval, 0);
        stands_for += (double)w;
        if (hw_here.interval != now) /* as capture.c does behind the record */
            hw_sampler_start(&hw_here, session);
    }
    hw_armed_over();
    return stands_for - sum;
}

/* Of those without a sample nobody hears, and yet all of them together say what they asked for. */
static void check_armed(uint64_t interval, uint64_t of_session, double asked)
{
    enum { PROGRAMS = 40000 };
    uint64_t rng = 5;
    double off = 0, silent = PROGRAMS * exp(-asked / (double)interval);
    atomic_store(&session->interval[HW_HEAP_ID_LIBC], of_session);
    n_asked = 0;
    for (int i = 0; i < PROGRAMS; i++)
        off += armed_program(interval, asked, &rng);
    double most = (double)(interval > of_session ? interval : of_session);
    double error = off / sqrt(PROGRAMS * asked * most);
    double of_asked = (PROGRAMS - n_asked - silent) / sqrt(silent + 1);
    if (fabs(error) > 4 || fabs(of_asked) > 8)
        print_error("armed at %ju: %.1f standard errors; %u asked, %.0f did not have to\n",
                    (uintmax_t)interval, error, n_asked, silent);
    assert_true(fabs(error) <= 4);
    assert_true(fabs(of_asked) <= 8); /* the last block of each is more than was asked */
}

static void test_armed(void **state)
{
    (void)state;
    check_armed(1 << 16, 1 << 16, 20000);
    check_armed(1 << 16, 1 << 16, 200000);
    check_armed(1 << 16, 1 << 18, 200000); /* doubled since */
    check_armed(1 << 18, 1 << 16, 200000); /* and back */
}

static void test_armed_mark(void **state)
{
    (void)state;
    static const char *const bad[] = {"1",          "",
                                      "80000",      "80000:",
                                      "80000:7",    "80000:7:",
                                      "80000:7:x",  "80000:7:1:",
                                      "ffff:7:1",   "7ffffffffffffff0:7:1",
                                      "8 000:7:1",  "00000000000080000:7:1",
                                      "-80000:7:1", "80000::1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (hw_armed_begin(bad[i]))
            print_error("'%s'\n", bad[i]);
        assert_false(hw_armed());
    }
    assert_true(hw_armed_begin("80000:fedcba9876543210:3"));
    assert_int_equal(hw_armed_interval(), 0x80000);
    assert_int_equal(hw_control.filters, 3);
    struct hw_hello h = {0}, other = {0};
    hw_armed_fill_hello(&h);
    assert_int_equal(h.flags, HW_HELLO_ARMED | HW_HELLO_STARTUP | HW_HELLO_HELD);
    assert_true(h.armed_token == 0xfedcba9876543210u && h.armed_interval_bytes == 0x80000);
    hw_armed_over();
    hw_armed_fill_hello(&other);
    assert_int_equal(other.flags, 0);
}

/* Unanswered samples are lost, counted, and change no other one's chance. */
static void test_armed_unanswered(void **state)
{
    (void)state;
    atomic_store(&hw_process_page.session, NULL);
    hw_here = (struct hw_tls){0};
    assert_true(hw_armed_begin("10000:7:1"));
    n_asked = 0;
    n_silent = 3;
    for (int i = 0; i < 3; i++) {
        assert_true(hw_due(1 << 17));
        assert_true(hw_sampler_take(1 << 17, 0) == HW_NOT_SAMPLED);
        assert_int_equal(hw_here.interval, 0x10000);
    }
    assert_int_equal(n_asked, 3);
    assert_int_equal(hw_armed_take_lost(), 3);
    assert_int_equal(hw_sampler_take(1 << 17, 0), 1 << 17);
    assert_false(hw_armed());
}

/* A forked child: the page is wiped, the draw goes on; by libc's fork with one of its own. */
static void test_armed_fork(void **state)
{
    (void)state;
    struct hw_hello h = {0};
    atomic_store(&hw_process_page.session, NULL);
    hw_here = (struct hw_tls){0};
    assert_true(hw_armed_begin("10000:7:1"));
    while (!(hw_here.flags & HW_TLS_ARMED))
        (void)hw_sampler_take(1, 0);
    uint64_t left = hw_here.left + hw_here.reserve;
    hw_process_page_block = (union hw_process_page_block){0};
    hw_armed_forked();
    assert_true(hw_here.left + hw_here.reserve != left);
    left = hw_here.left + hw_here.reserve;
    hw_process_page_block = (union hw_process_page_block){0};
    (void)hw_sampler_take(1, 0);
    assert_int_equal(hw_here.left + hw_here.reserve, left - 1);
    hw_armed_fill_hello(&h);
    assert_int_equal(h.flags, HW_HELLO_ARMED | HW_HELLO_FORKED);
    hw_armed_over();
}

/* One thread joins while another is answered: it has a draw, or is not armed. */
static void *join_again_and_again(void *stop)
{
    uint64_t n_endless = 0;
    while (!atomic_load((_Atomic bool *)stop)) {
        struct hw_tls t = {0};
        n_endless += hw_armed_join(&t) && t.interval == 0;
    }
    return (void *)(uintptr_t)n_endless;
}

static void test_armed_race(void **state)
{
    (void)state;
    pthread_t other;
    void *n_endless;
    _Atomic bool stop = false;
    atomic_store(&hw_process_page.session, NULL);
    hw_here = (struct hw_tls){0};
    assert_int_equal(pthread_create(&other, NULL, join_again_and_again, (void *)&stop), 0);
    for (int i = 0; i < 300000; i++) {
        assert_true(hw_armed_begin("10000:7:1"));
        hw_armed_over();
    }
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(other, &n_endless), 0);
    assert_int_equal((uintptr_t)n_endless, 0);
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
        cmocka_unit_test(test_armed),
        cmocka_unit_test(test_armed_mark),
        cmocka_unit_test(test_armed_unanswered),
        cmocka_unit_test(test_armed_fork),
        cmocka_unit_test(test_armed_race),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    free(session);
    return rc;
}
