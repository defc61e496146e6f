/* Pieces of all sizes, given back in any order: each keeps its bytes until its own turn. */
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/memory/blocks.h"
#include "base/memory/map64.h"

enum { N = 4000, BLOCK = 1 << 20 };

static size_t size_of(uint64_t r, size_t i)
{
    static const size_t sizes[] = {0,          1,          BLOCK - 200, BLOCK - 100, BLOCK - 64,
                                   BLOCK - 48, BLOCK - 40, BLOCK,       BLOCK + 1,   3 * BLOCK};
    if (i % 200 == 7)
        return sizes[i / 200 % (sizeof sizes / sizeof *sizes)];
    return r % 3000;
}

static void check(const uint8_t *p, size_t n, uint8_t byte)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], byte);
}

static void pieces_keep_their_bytes(void **state)
{
    (void)state;
    struct hw_blocks b = {0};
    static const uint8_t *pieces[N];
    static size_t sizes[N];
    uint8_t *bytes = malloc(3 * BLOCK);
    uint64_t rng = 1;
    volatile uint8_t sink = 0;
    assert_non_null(bytes);
    for (size_t i = 0; i < N; i++) {
        rng = hw_hash_mix(rng, i);
        sizes[i] = size_of(rng, i);
        memset(bytes, (int)i, sizes[i]);
        pieces[i] = hw_blocks_add(&b, hw_bytes_of(bytes, sizes[i]));
        assert_non_null(pieces[i]);
        for (size_t k = 0; k < HW_BLOCKS_SLACK; k++) /* can be read, says nothing */
            sink = (uint8_t)(sink + pieces[i][sizes[i] + k]);
        size_t old = i > 50 ? i - 50 - rng % 50 % i : i; /* most go before the last one came */
        if (rng % 3 && old < i && pieces[old]) {
            check(pieces[old], sizes[old], (uint8_t)old);
            hw_blocks_release(&b, pieces[old]);
            pieces[old] = NULL;
        }
    }
    for (size_t i = N; i-- > 0;)
        if (pieces[i] && i % 5) {
            check(pieces[i], sizes[i], (uint8_t)i);
            hw_blocks_release(&b, pieces[i]);
        }
    hw_blocks_done(&b); /* some are left */
    hw_blocks_done(&b);
    free(bytes);
}

HW_TEST_MAIN(cmocka_unit_test(pieces_keep_their_bytes))
