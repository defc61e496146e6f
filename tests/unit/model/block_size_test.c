/* block_size_test.c - what an allocator takes for a block */
#include "test.h"

#include "model/memory/block_size.h"

static void test_glibc(void **state)
{
    (void)state;
    const struct {
        uint64_t size;
        bool in_arena;
        uint64_t bytes;
    } rows[] = {{0, false, 32},
                {24, false, 32},
                {25, false, 48},
                {40, false, 48},
                {131056, false, 131072},
                {131057, false, 135168},
                {131057, true, 131072},
                {131064, true, 131072},
                {1 << 20, false, (1 << 20) + 4096},
                {135136, false, 135168},
                {(1 << 20) + 8, true, (1 << 20) + 16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(hw_block_bytes(HW_BLOCKS_GLIBC, rows[i].size, rows[i].in_arena),
                         rows[i].bytes);
    assert_true(hw_block_is_in_arena(200000, 0x7f0000000020));
    assert_false(hw_block_is_in_arena(200000, 0x7f0000000010));
    assert_false(hw_block_is_in_arena(100, 0x7f0000000020));
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
        assert_int_equal(hw_block_bytes(rows[i].rule, rows[i].size, false), rows[i].bytes);
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
            uint64_t bytes = hw_block_bytes((enum hw_block_rule)rule, size, true);
            assert_true(bytes >= size && bytes >= before);
            before = bytes;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_glibc), cmocka_unit_test(test_classes),
                                       cmocka_unit_test(test_all_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
