/* block_size_test.c - what an allocator takes for a block */
#include "test.h"

#include "model/memory/block_size.h"

static void test_glibc(void **state)
{
    (void)state;
    const struct {
        uint64_t size, bytes;
    } rows[] = {
        {0, 32},          {24, 32},         {25, 48},         {40, 48},
        {131056, 131072}, {131057, 131072}, {131064, 131072}, {(1 << 20) + 8, (1 << 20) + 16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(hw_block_bytes(HW_BLOCKS_GLIBC, rows[i].size), rows[i].bytes);
    assert_int_equal(hw_block_beyond_by_address(131057, 0x7f0000000010), 4096);
    assert_int_equal(hw_block_beyond_by_address(1 << 20, 0x7f0000000010), 4096 - 16);
    assert_int_equal(hw_block_beyond_by_address(135136, 0x7f0000000010), 16);
    assert_int_equal(hw_block_beyond_by_address(200000, 0x7f0000000020), 0);
    assert_int_equal(hw_block_beyond_by_address(100, 0x7f0000000010), 0);
}

/* What malloc_usable_size says (mimalloc: its heap, as the former leaves out what is before the block). */
static void test_aligned(void **state)
{
    (void)state;
    const struct {
        uint64_t size;
        uint32_t log2;
        uint64_t jemalloc, tcmalloc, mimalloc;
    } rows[] = {{0, 6, 64, 64, 64},
                {8, 4, 16, 16, 32},
                {40, 6, 64, 64, 112},
                {64, 5, 64, 64, 64},
                {100, 6, 128, 128, 192},
                {100, 12, 4096, 4096, 5120},
                {512, 9, 512, 512, 512},
                {1100, 9, 1536, 1536, 1792},
                {5000, 12, 8192, 8192, 10240},
                {14336, 12, 16384, 16384, 20480},
                {1, 13, 16384, 8192, 8192},
                {10000, 13, 16384, 16384, 20480},
                {40000, 16, 40960, 40960, 114688},
                {100, 20, 16384, 8192, 1572864},
                {300000, 14, 327680, 303104, 327680}};
    const enum hw_block_rule rules[] = {HW_BLOCKS_JEMALLOC, HW_BLOCKS_TCMALLOC, HW_BLOCKS_MIMALLOC};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint64_t want[] = {rows[i].jemalloc, rows[i].tcmalloc, rows[i].mimalloc};
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(
                hw_block_bytes(rules[k], rows[i].size) +
                    hw_block_beyond_aligned(rules[k], rows[i].size, rows[i].log2, false),
                want[k]);
    }
    assert_int_equal(hw_block_beyond_aligned(HW_BLOCKS_TCMALLOC, 5000, 12, true), 8192 - 5120);
    assert_int_equal(hw_block_beyond_aligned(HW_BLOCKS_TCMALLOC, 0, 12, true), 4096 - 8);
    assert_int_equal(hw_block_beyond_aligned(HW_BLOCKS_GLIBC, 100, 12, false), 0);
    assert_int_equal(hw_block_beyond_aligned(HW_BLOCKS_MIMALLOC, UINT64_C(1) << 47, 63, true),
                     UINT64_C(1) << 47);
}

/* Sizes of mappings as glibc 2.36 makes them. */
static void test_gap(void **state)
{
    (void)state;
    uint64_t block = (4 << 20) + 4096, mib = 1 << 20;
    assert_int_equal(hw_block_gap(4 * mib, block, 21), 6 * mib + 4096 - block);
    assert_int_equal(hw_block_gap(4 * mib, block, 12), 4096);
    assert_int_equal(hw_block_gap(mib, UINT64_C(1) << 40, 12), 0);
    assert_true(hw_block_gap(UINT64_C(1) << 47, 0, 63) > 0);
}

static void test_classes(void **state)
{
    (void)state;
    const struct {
        enum hw_block_rule rule;
        uint64_t size, bytes;
    } rows[] = {{HW_BLOCKS_JEMALLOC, 0, 8},           {HW_BLOCKS_JEMALLOC, 9, 16},
                {HW_BLOCKS_JEMALLOC, 129, 160},       {HW_BLOCKS_JEMALLOC, 256, 256},
                {HW_BLOCKS_JEMALLOC, 257, 320},       {HW_BLOCKS_JEMALLOC, 14337, 16384},
                {HW_BLOCKS_TCMALLOC, 129, 144},       {HW_BLOCKS_TCMALLOC, 3329, 4096},
                {HW_BLOCKS_TCMALLOC, 49153, 57344},   {HW_BLOCKS_MIMALLOC, 131072, 131072},
                {HW_BLOCKS_MIMALLOC, 131073, 196608}, {HW_BLOCKS_MIMALLOC, 524289, 1048576},
                {HW_BLOCKS_UNKNOWN, 77, 77}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(hw_block_bytes(rows[i].rule, rows[i].size), rows[i].bytes);
    assert_int_equal(hw_block_rule_of("jemalloc"), HW_BLOCKS_JEMALLOC);
    assert_int_equal(hw_block_rule_of("musl"), HW_BLOCKS_UNKNOWN);
    assert_int_equal(hw_block_rule_of(NULL), HW_BLOCKS_UNKNOWN);
}

/* Nowhere less than was asked for, and never falling. */
static void test_all_sizes(void **state)
{
    (void)state;
    for (int rule = HW_BLOCKS_UNKNOWN; rule <= HW_BLOCKS_MIMALLOC; rule++) {
        uint64_t before = 0;
        for (uint64_t size = 0; size < UINT64_C(1) << 47; size += size / 9 + 1) {
            uint64_t bytes = hw_block_bytes((enum hw_block_rule)rule, size);
            assert_true(bytes >= size && bytes >= before);
            before = bytes;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_glibc), cmocka_unit_test(test_classes),
                                       cmocka_unit_test(test_all_sizes),
                                       cmocka_unit_test(test_aligned), cmocka_unit_test(test_gap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
