/* The index against a search through all ids. */
#include <stdlib.h>

#include "test.h"

#include "model/id_index.h"

static uint64_t seed = 1;

static uint64_t pick(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 20) % n;
}

enum shape { ROWS, ADDRESSES, RANGES, TWO_FAR, ANYWHERE, SAME, ENDS, SHAPES };

static uint64_t make_id(enum shape shape, size_t i)
{
    static const uint64_t ranges[] = {0x12c00000, 0x70000000, 0x7f0000000000, 0xfffffffffff00000};
    switch (shape) {
    case ROWS:
        return i + 1;
    case ADDRESSES:
        return 0x6c0000000 + pick(5000) * 8;
    case RANGES:
        return ranges[pick(4)] + pick(3000) * 16;
    case TWO_FAR:
        return pick(2) ? 1 + (pick(2) << 63) : 1 + pick(100);
    case ANYWHERE:
        return pick(UINT64_MAX >> 1) * 2 + pick(2);
    case SAME:
        return 7 + pick(2);
    case ENDS:
        return pick(2) ? UINT64_MAX - pick(3) : pick(4);
    case SHAPES:
        break;
    }
    return 0;
}

static bool search(const uint64_t *ids, size_t n, uint64_t id, uint32_t *row)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] == id) {
            *row = (uint32_t)i;
            return true;
        }
    return false;
}

static int by_value(const void *pa, const void *pb)
{
    const uint64_t *a = pa, *b = pb;
    return (*a > *b) - (*a < *b);
}

static void look_up(const struct hw_id_index *ix, const uint64_t *ids, size_t n, uint64_t id)
{
    uint32_t want = 0, got = 0;
    bool there = search(ids, n, id, &want);
    assert_int_equal(hw_id_index_find(ix, id, &got), there);
    if (there)
        assert_int_equal(got, want);
}

static void finds_what_a_search_finds(void **state)
{
    (void)state;
    for (int round = 0; round < 700; round++) {
        enum shape shape = (enum shape)(round % SHAPES);
        size_t n = 1 + pick(pick(10) ? 40 : 2000), same = 0;
        uint64_t *ids = calloc(n, sizeof *ids);
        assert_non_null(ids);
        for (size_t i = 0; i < n; i++)
            ids[i] = make_id(shape, i);
        if (pick(2))
            qsort(ids, n, sizeof *ids, by_value);
        struct hw_id_index ix;
        assert_int_equal(hw_id_index_init(&ix, ids, n), 0);
        for (size_t i = 0; i < n; i++) {
            uint32_t first = 0;
            assert_true(search(ids, n, ids[i], &first));
            same += first != i;
            for (uint64_t k = 0; k < 3; k++)
                look_up(&ix, ids, n, ids[i] + k - 1);
            look_up(&ix, ids, n, ids[i] ^ 1ull << pick(64));
        }
        assert_int_equal(ix.n_duplicates, same);
        hw_id_index_done(&ix);
        free(ids);
    }
}

static void nothing_is_in_an_empty_one(void **state)
{
    (void)state;
    struct hw_id_index ix;
    uint32_t row;
    assert_int_equal(hw_id_index_init(&ix, NULL, 0), 0);
    assert_false(hw_id_index_find(&ix, 0, &row));
    assert_false(hw_id_index_find(&ix, 1, &row));
    hw_id_index_done(&ix);
}

HW_TEST_MAIN(cmocka_unit_test(finds_what_a_search_finds),
             cmocka_unit_test(nothing_is_in_an_empty_one))
