/* A flamegraph as a saved page keeps it: the errors, of which filters make others. */
#include "test.h"

#include <math.h>
#include <string.h>

#include "server/api/graph/flame_block.h"
#include "server/api/saved/graph_pack.h"

enum { N = 4 };

/* all - a - b, beside a: c; with these errors, and what stands at each itself. */
static void pack(const double *errors, const double *selves, struct hw_strbuf *out)
{
    static const int32_t parents[N] = {-1, 0, 1, 0};
    struct hw_flame_block b = {0};
    struct hw_strbuf block = {0};
    struct hw_strings *texts;
    uint32_t name;
    assert_int_equal(hw_strings_new(&texts), 0);
    assert_int_equal(hw_flame_block_text(&b, "f", 1, &name), 0);
    for (uint32_t i = 0; i < N; i++) {
        struct hw_flame_box x = {.parent = parents[i], .name = name, .error = errors[i]};
        x.self = selves[i];
        assert_int_equal(hw_flame_block_put(&b, &x), 0);
    }
    const struct hw_flame_head head = {0};
    assert_int_equal(hw_flame_block_write(&b, &head, &block), 0);
    assert_int_equal(hw_graph_pack(hw_bytes_of(block.p, block.n), texts, out), 0);
    hw_strings_free(texts);
    hw_strbuf_done(&block);
    hw_flame_block_done(&b);
}

/* The bytes of n numbers, high ones first, as the last of the packed ones. */
static uint64_t number(const struct hw_strbuf *out, size_t n_bytes, size_t n, size_t i)
{
    const char *planes = out->p + out->n - n_bytes * n;
    uint64_t bits = 0;
    for (size_t k = 0; k < n_bytes; k++)
        bits = bits << 8 | (uint8_t)planes[k * n + i];
    return bits;
}

static void shares_keep_small_errors_beside_large(void **state)
{
    (void)state;
    static const double selves[N] = {0, 1, 1, 1}, want[N] = {0, 9, 1e12, 0};
    const double errors[N] = {sqrt(1e12 + 9), sqrt(1e12 + 9), 1e6, 0};
    struct hw_strbuf out = {0};
    pack(errors, selves, &out);
    assert_int_equal(out.p[out.n - 4 * N - 1], 0);
    for (size_t i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)number(&out, 4, N, i);
        float share;
        memcpy(&share, &bits, sizeof share);
        assert_true(fabs((double)share - want[i]) <= 1e-3 * want[i]);
    }
    hw_strbuf_done(&out);
}

/* Of differences each stands for itself; so does an error that no stack has. */
static void errors_that_do_not_add_up_are_kept(void **state)
{
    (void)state;
    static const double selves[N] = {0, 0, 1, 1};
    static const double errors[N] = {5, 2, 2, 1.0 / 3}; /* a's is b's */
    struct hw_strbuf out = {0};
    pack(errors, selves, &out);
    static const double kept[] = {5, 2, 1.0 / 3};
    for (size_t i = 0; i < 3; i++) {
        uint64_t bits = number(&out, 8, 3, i);
        double error;
        memcpy(&error, &bits, sizeof error);
        assert_true(error == kept[i]);
    }
    static const char same[N] = {0, 1, 0, 0};
    assert_memory_equal(out.p + out.n - 8 * 3 - N, same, N);
    assert_int_equal(out.p[out.n - 8 * 3 - N - 1], 1);
    hw_strbuf_done(&out);
}

HW_TEST_MAIN(cmocka_unit_test(shares_keep_small_errors_beside_large),
             cmocka_unit_test(errors_that_do_not_add_up_are_kept))
