/* map64 against a brute-force twin: a plain array indexed by key. */
#include <string.h>

#include "test.h"

#include "base/memory/map64.h"

enum { KEYS = 3000, STEPS = 200000 };

static void behaves_as_an_array(unsigned key_shift)
{
    uint64_t twin[KEYS] = {0};
    bool there[KEYS] = {0};
    size_t n = 0;
    struct hw_map64 m = {0};
    uint64_t rng = 42;
    for (int i = 0; i < STEPS; i++) {
        rng = hw_hash_mix(rng, (uint64_t)i);
        size_t k = rng % KEYS;
        uint64_t key = (uint64_t)k << key_shift;
        uint64_t got = 0;
        if (rng >> 60 < 9) {
            assert_int_equal(hw_map64_put(&m, key, rng), 0);
            n += !there[k];
            there[k] = true;
            twin[k] = rng;
        } else {
            assert_int_equal(hw_map64_take(&m, key, &got), there[k]);
            if (there[k])
                assert_int_equal(got, twin[k]);
            n -= there[k];
            there[k] = false;
        }
        assert_int_equal(m.n, n);
    }
    for (size_t k = 0; k < KEYS; k++) {
        uint64_t got = 0;
        assert_int_equal(hw_map64_get(&m, (uint64_t)k << key_shift, &got), there[k]);
        if (there[k])
            assert_int_equal(got, twin[k]);
    }
    hw_map64_done(&m);
}

/* Keys that collide in their low bits on purpose. */
static void scattered(void **state)
{
    (void)state;
    behaves_as_an_array(40);
}

static void neighbours(void **state)
{
    (void)state;
    behaves_as_an_array(0);
    behaves_as_an_array(3);
}

/* The number that hw_hash_u64 makes h of: half of it undoes itself, the factor is odd. */
static uint64_t unhash(uint64_t h)
{
    uint64_t factor = 0xd6e8feb86659fd93u, inverse = factor;
    for (int i = 0; i < 6; i++)
        inverse *= 2 - factor * inverse;
    for (int i = 0; i < 2; i++)
        h = (h ^ h >> 32) * inverse;
    return h ^ h >> 32;
}

/* Keys of somebody who wants them all in one place; then this would outlast the test's time. */
static void chosen_keys(void **state)
{
    enum { N = 200000 };
    struct hw_map64 m = {0};
    uint64_t got;
    (void)state;
    assert_true(hw_hash_u64(unhash(0x123456789abcdef)) == 0x123456789abcdef);
    for (uint64_t i = 0; i < N; i++)
        assert_int_equal(hw_map64_put(&m, unhash(i << 32), i), 0);
    for (uint64_t i = 0; i < N; i++)
        assert_true(hw_map64_get(&m, unhash(i << 32), &got) && got == i);
    hw_map64_done(&m);
}

static void empty_map_answers(void **state)
{
    (void)state;
    struct hw_map64 m = {0};
    uint64_t v;
    assert_false(hw_map64_get(&m, 1, &v));
    assert_false(hw_map64_take(&m, 1, NULL));
    hw_map64_done(&m);
}

/* Numbers from files may be anything, also the mark of an empty slot. */
static void mark_as_key(void **state)
{
    (void)state;
    struct hw_map64 m = {0};
    uint64_t v = 7;
    assert_int_equal(hw_map64_put(&m, 1, 1), 0);
    assert_false(hw_map64_get(&m, HW_MAP64_NO_KEY, &v));
    assert_false(hw_map64_take(&m, HW_MAP64_NO_KEY, NULL));
    assert_int_equal(hw_map64_put(&m, HW_MAP64_NO_KEY, 5), 0);
    assert_int_equal(hw_map64_put(&m, HW_MAP64_NO_KEY, 6), 0);
    assert_int_equal(m.n, 2);
    assert_true(hw_map64_get(&m, HW_MAP64_NO_KEY, &v));
    assert_int_equal(v, 6);
    assert_true(hw_map64_take(&m, HW_MAP64_NO_KEY, NULL));
    assert_int_equal(m.n, 1);
    hw_map64_done(&m);
}

HW_TEST_MAIN(cmocka_unit_test(mark_as_key), cmocka_unit_test(scattered),
             cmocka_unit_test(neighbours), cmocka_unit_test(chosen_keys),
             cmocka_unit_test(empty_map_answers))
