/*
 * single_thread_test.c - no change is lost between a thread and its own signal handler
 */
#include "test.h"

#include <signal.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/single_thread.h"

static _Atomic uint64_t word;
static _Atomic uint8_t byte;
static volatile sig_atomic_t n_signals;

static void add_word(uint64_t by)
{
    uint64_t old = atomic_load_explicit(&word, memory_order_relaxed);
    while (!hw_single_thread_cas_u64(&word, &old, old + by))
        ;
}

static void add_byte(void)
{
    uint8_t old = atomic_load_explicit(&byte, memory_order_relaxed);
    while (!hw_single_thread_cas_u8(&byte, &old, (uint8_t)(old + 1)))
        ;
}

static void handler(int signal)
{
    (void)signal;
    for (int i = 0; i < 100; i++) {
        add_word(UINT64_C(1) << 32);
        add_byte();
    }
    n_signals++;
}

static void test_signals(void **state)
{
    (void)state;
    uint64_t n = 0, end = hw_now_monotonic_ns() + 200000000u;
    struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    assert_ptr_not_equal(signal(SIGALRM, handler), SIG_ERR);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
    while (hw_now_monotonic_ns() < end)
        for (int i = 0; i < 1000; i++, n++) {
            add_word(1);
            add_byte();
        }
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    uint64_t in_handler = 100 * (uint64_t)n_signals;
    assert_true(n_signals > 0);
    assert_int_equal((uint32_t)word, (uint32_t)n);
    assert_int_equal(word >> 32, in_handler + (n >> 32));
    assert_int_equal(byte, (uint8_t)(n + in_handler));
}

static void test_values(void **state)
{
    (void)state;
    _Atomic uint64_t w = UINT64_C(1) << 63;
    uint64_t expected = 5;
    assert_false(hw_single_thread_cas_u64(&w, &expected, 6));
    assert_int_equal(expected, UINT64_C(1) << 63); /* what is there */
    assert_true(hw_single_thread_cas_u64(&w, &expected, 6));
    assert_int_equal(w, 6);
    _Atomic uint8_t b = 200;
    uint8_t small = 1;
    assert_false(hw_single_thread_cas_u8(&b, &small, 2));
    assert_int_equal(small, 200);
    assert_true(hw_single_thread_cas_u8(&b, &small, 2));
    assert_int_equal(b, 2);
}

HW_TEST_MAIN(cmocka_unit_test(test_values), cmocka_unit_test(test_signals))
