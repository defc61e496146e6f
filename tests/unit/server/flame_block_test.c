/* The bytes of a flamegraph, read by their offsets. */
#include "test.h"

#include <string.h>

#include "server/api/graph/flame_block.h"

static const char *array(const char **at, size_t n_bytes)
{
    const char *p = *at;
    *at += (n_bytes + 7) / 8 * 8;
    return p;
}

/* all(6) - a(3) - b(1), beside a: c(3) */
static void build(struct hw_flame_block *b)
{
    static const char *const names[] = {"all", "a", "b", "c"};
    static const struct {
        int32_t parent;
        uint32_t depth;
        double self, cum;
    } boxes[] = {{-1, 0, 0, 6}, {0, 1, 2, 3}, {1, 2, 1, 1}, {0, 1, 3, 3}};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t name;
        assert_int_equal(hw_flame_block_text(b, names[i], strlen(names[i]), &name), 0);
        assert_int_equal(name, i);
        struct hw_flame_box x = {.parent = boxes[i].parent, .depth = boxes[i].depth, .name = name};
        x.self = boxes[i].self;
        x.cum = boxes[i].cum;
        x.samples = i == 3 ? 1e12 : i;
        x.a = 10 * i;
        x.b = 20 * i;
        x.error = 30 * i + 1;
        x.shown = 40 * i + 2;
        assert_int_equal(hw_flame_block_put(b, &x), 0);
        if (i == 2)
            hw_flame_block_close(b, 1);
    }
    hw_flame_block_close(b, 0);
}

static void check(bool has_sides, bool has_shown)
{
    static const int32_t parents[] = {-1, 0, 1, 0};
    static const uint32_t ends[] = {4, 3, 3, 4}, begins[] = {0, 3, 4, 5, 6};
    static const uint32_t samples[] = {0, 1, 2, UINT32_MAX};
    struct hw_flame_block b = {.has_sides = has_sides, .has_shown = has_shown};
    struct hw_strbuf out = {0};
    build(&b);
    const struct hw_flame_head head = {.flags = 2, .unfiltered = 7, .ts_ns = 8, .interval = 9};
    assert_int_equal(hw_flame_block_write(&b, &head, &out), 0);
    const char *at = out.p;
    const char *h = array(&at, 72);
    uint32_t words[7];
    double figures[5];
    memcpy(words, h + 4, sizeof words);
    memcpy(figures, h + 32, sizeof figures);
    assert_memory_equal(h, "HFG1", 4);
    assert_int_equal(words[1], 2 + (has_sides ? 16 : 0) + (has_shown ? 32 : 0));
    assert_true(figures[2] == (has_shown ? 2 : 1));
    assert_int_equal(words[2], 4);
    assert_int_equal(words[3], 4);
    assert_int_equal(words[5], 2); /* the deepest */
    assert_true(figures[0] == 6 && figures[1] == 7 && figures[3] == 8 && figures[4] == 9);
    assert_memory_equal(array(&at, sizeof parents), parents, sizeof parents);
    assert_memory_equal(array(&at, sizeof ends), ends, sizeof ends);
    (void)array(&at, 4 * sizeof(uint16_t));
    (void)array(&at, 4 * sizeof(uint32_t));
    (void)array(&at, 4 * sizeof(uint32_t));
    (void)array(&at, 4);
    (void)array(&at, 4 * sizeof(double));
    (void)array(&at, 4 * sizeof(double));
    assert_memory_equal(array(&at, sizeof samples), samples, sizeof samples);
    (void)array(&at, 4 * sizeof(double));
    if (has_shown) {
        float shown3;
        memcpy(&shown3, array(&at, 4 * sizeof(float)) + 3 * sizeof(float), sizeof shown3);
        assert_true(shown3 == 122);
    }
    if (has_sides) {
        double b3;
        (void)array(&at, 4 * sizeof(double));
        memcpy(&b3, array(&at, 4 * sizeof(double)) + 3 * sizeof(double), sizeof b3);
        assert_true(b3 == 60);
    }
    assert_memory_equal(array(&at, sizeof begins), begins, sizeof begins);
    assert_memory_equal(at, "allabc", 6);
    assert_ptr_equal(at + 6, out.p + out.n);
    hw_strbuf_done(&out);
    hw_flame_block_done(&b);
}

static void test_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        check(i & 1, i & 2);
}

HW_TEST_MAIN(cmocka_unit_test(test_bytes))
