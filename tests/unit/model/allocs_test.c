/* Packed rows against a twin that keeps plain structs. */
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "base/memory/map64.h"
#include "model/allocs.h"

enum { ROWS = 5000, DUMPS = 40 };

static void assert_row(const struct hw_alloc_row *is, const struct hw_alloc_row *want)
{
    assert_int_equal(is->dump, want->dump);
    assert_int_equal(is->callsite.v, want->callsite.v);
    assert_true(is->samples == want->samples);
    assert_true(is->count == want->count);
    assert_true(is->size == want->size);
    assert_true(is->idle == want->idle);
    assert_true((float)is->variance == (float)want->variance);
    assert_true(is->variance_objects == want->variance_objects);
    assert_true(is->variance_alloc_space == want->variance_alloc_space);
    assert_true(is->variance_alloc_objects == want->variance_alloc_objects);
    assert_true(is->rounding == want->rounding);
    assert_true(is->variance_rounding == want->variance_rounding);
    assert_true(is->temporary_space == want->temporary_space);
    assert_true(is->temporary_objects == want->temporary_objects);
    assert_true(is->variance_temporary_space == want->variance_temporary_space);
    assert_true(is->variance_temporary_objects == want->variance_temporary_objects);
}

/* Values grow with i: columns come to life late, and widen later still. */
static struct hw_alloc_row row_of(uint64_t random, size_t i, unsigned kind)
{
    struct hw_alloc_row r = {.dump = (uint32_t)(random >> 40) % DUMPS,
                             .callsite = {(uint32_t)(random >> 8) % 1000}};
    r.samples = (int64_t)(random % 2001) - 1000;
    r.count = r.samples;
    r.size = (int64_t)(random % 4000000) - 2000000;
    if (i % 7)
        r.dump = (uint32_t)(i / 300) % DUMPS; /* mostly in runs, dumps come back */
    if (kind & 1 && i > ROWS / 3)
        r.count = r.samples * 31;
    if (kind & 2 && i > ROWS / 2)
        r.idle = (int64_t)(random % 77);
    if (kind & 4 && i > ROWS / 4)
        r.variance = (double)(random % 1000) * 1.5e9;
    if (kind & 16 && i > ROWS / 2) {
        r.variance_objects = (float)(random % 3) * 0.5F;
        r.variance_alloc_space = (float)(random % 5);
        r.variance_alloc_objects = (float)(random % 7);
    }
    if (kind & 32 && i > ROWS / 3)
        r.rounding = (int64_t)(random % 3000);
    if (kind & 32 && i > ROWS / 3 * 2)
        r.variance_rounding = (float)(random % 11);
    if (kind & 64 && i > ROWS / 6) {
        r.temporary_space = (int64_t)(random % 13000) * (i % 2000 == 0 ? INT64_C(1) << 32 : 1);
        r.temporary_objects = i > ROWS / 5 ? (int64_t)(random % 17) : 0;
    }
    if (kind & 64 && i > ROWS / 5 * 4) {
        r.variance_temporary_space = (float)(random % 19);
        r.variance_temporary_objects = (float)(random % 2);
    }
    if (kind & 8 && i > ROWS / 5 && i % 50 == 0) {
        r.size = INT64_MIN + (int64_t)i;
        r.samples = INT64_MAX - (int64_t)i;
        r.count = r.samples;
    }
    return r;
}

static void rows_are_what_was_pushed(void **state)
{
    (void)state;
    static struct hw_alloc_row twin[ROWS];
    for (unsigned kind = 0; kind < 128; kind++) {
        struct hw_alloc_rows a = {0};
        uint32_t new_index[DUMPS];
        uint64_t random = kind;
        for (size_t i = 0; i < ROWS; i++) {
            random = hw_hash_u64(random + 0x9e3779b97f4a7c15u);
            twin[i] = row_of(random, i, kind);
            assert_int_equal(hw_alloc_rows_push(&a, &twin[i]), 0);
        }
        for (size_t i = 0; i < ROWS; i += 97) {
            twin[i].size = -twin[i].size / 2;
            twin[i].count = (int64_t)i << 33;
            assert_int_equal(hw_alloc_rows_set(&a, i, &twin[i]), 0);
        }
        for (size_t i = 0; i < ROWS; i++) {
            struct hw_alloc_row r = hw_alloc_row_get(&a, i);
            assert_row(&r, &twin[i]);
        }
        for (uint32_t d = 0; d < DUMPS; d++)
            new_index[d] = kind % 3 ? (d * 7 + kind) % DUMPS : d;
        assert_int_equal(hw_alloc_rows_sort(&a, new_index), 0);
        size_t at = 0;
        for (uint32_t d = 0; d < DUMPS; d++) { /* stable: as they came, dump by dump */
            size_t first, n, seen = 0;
            hw_alloc_rows_of_dump(&a, d, &first, &n);
            assert_true(n == 0 || first == at);
            for (size_t i = 0; i < ROWS; i++) {
                if (new_index[twin[i].dump] != d)
                    continue;
                struct hw_alloc_row want = twin[i], r = hw_alloc_row_get(&a, first + seen);
                want.dump = d;
                assert_row(&r, &want);
                seen++;
            }
            assert_int_equal(seen, n);
            at += n;
        }
        assert_int_equal(at, ROWS);
        hw_alloc_rows_done(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_what_was_pushed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
