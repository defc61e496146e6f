/* jit_test.c - generated code by address against a table of every address; perf maps; jitdumps */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "proc/jit/jit_code.h"
#include "proc/jit/jitdump.h"
#include "proc/jit/perf_map.h"

enum { SPACE = 4096, BASE = 0x10000 };

static uint64_t rng = 1;
static uint32_t below(uint32_t n)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng >> 33) % n;
}

static const char *name_at(const struct hw_jit_code *c, uint64_t at)
{
    const struct hw_jit_range *r = hw_jit_code_find(c, at);
    return r ? r->entry->name : NULL;
}

/* Entries of up to `small` bytes, each `every`th up to the end. */
static void overlap(uint32_t space, int n_entries, uint32_t small, int every)
{
    struct hw_jit_code c = {0};
    int *twin = calloc(space, sizeof *twin); /* entry that covers the address, 0 = none */
    assert_non_null(twin);
    for (int i = 1; i <= n_entries; i++) {
        uint32_t at = below(space - 1), n = 1 + below(i % every ? small : space - at);
        if (at + n > space)
            n = space - at;
        char name[16];
        (void)snprintf(name, sizeof name, "f%d", i);
        assert_int_equal(hw_jit_code_add(&c, BASE + at, n, hw_bytes_str(name), NULL, 0), HW_OK);
        for (uint32_t k = at; k < at + n; k++)
            twin[k] = i;
        for (int k = 0; k < 4; k++) {
            uint32_t q = below(space);
            const char *have = name_at(&c, BASE + q);
            (void)snprintf(name, sizeof name, "f%d", twin[q]);
            if (twin[q])
                assert_string_equal(have, name);
            else
                assert_null(have);
        }
    }
    assert_null(name_at(&c, BASE - 1));
    assert_null(name_at(&c, BASE + space));
    assert_true(c.settled.n <= space && c.middle.n + c.recent.n <= space + 2048);
    hw_jit_code_done(&c);
    free(twin);
}

static void test_overlaps(void **state)
{
    (void)state;
    overlap(SPACE, 20000, 20, 7);
    overlap(32 * SPACE, 100000, 4, 5000); /* so many that all lists have some */
}

/* As many entries as anybody writes, upwards, downwards and anywhere: few rows move for each. */
static void test_cost(void **state)
{
    enum { ENTRIES = 1 << 19 };
    (void)state;
    for (int order = 0; order < 3; order++) {
        struct hw_jit_code c = {0};
        for (uint32_t i = 0; i < ENTRIES; i++) {
            uint32_t place = order == 0 ? i : order == 1 ? ENTRIES - i : below(ENTRIES);
            (void)hw_jit_code_add(&c, BASE + 16 * (uint64_t)place, 16, hw_bytes_str("f"), NULL, 0);
        }
        assert_in_range(c.n_moved / ENTRIES, 0, 200);
        hw_jit_code_done(&c);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct hw_jit_code c = {0};
    struct hw_bytes n = hw_bytes_str("f");
    assert_int_equal(hw_jit_code_add(&c, 0, 0, n, NULL, 0), HW_ELIMIT);
    assert_int_equal(hw_jit_code_add(&c, UINT64_MAX - 4, 4, n, NULL, 0), HW_ELIMIT);
    assert_int_equal(hw_jit_code_add(&c, 4096, UINT64_MAX, n, NULL, 0), HW_ELIMIT);
    assert_int_equal(hw_jit_code_move(&c, 1, 2, 3), HW_OK);
    assert_int_equal(c.n_entries, 0);
    hw_jit_code_done(&c);
}

static void test_perf_map(void **state)
{
    (void)state;
    struct hw_jit_code c = {0};
    static const char text[] = "1000 10 a name with spaces\r\n"
                               "0x2000 0x20 b\n"
                               "\n"
                               "zz 10 bad\n"
                               "3000 10\n"
                               "3000 0 stub\n"
                               "11111111111111111 1 too large\n"
                               "4000 8 py::f:/srv/a\tb.py\n"
                               "1008 8 late\n"
                               "5000 8 no newline yet";
    size_t used, n = sizeof text - 1;
    uint64_t n_bad = 0;
    /* In two pieces, cut anywhere: the same. */
    for (size_t cut = 0; cut <= n; cut++) {
        c = (struct hw_jit_code){0};
        n_bad = 0;
        assert_int_equal(hw_perf_map_read(&c, hw_bytes_of(text, cut), false, &used, &n_bad), HW_OK);
        size_t first = used;
        assert_int_equal(
            hw_perf_map_read(&c, hw_bytes_of(text + first, n - first), false, &used, &n_bad),
            HW_OK);
        assert_int_equal(first + used, n - strlen("5000 8 no newline yet"));
        assert_string_equal(name_at(&c, 0x1000), "a name with spaces");
        assert_string_equal(name_at(&c, 0x1008), "late");
        assert_string_equal(name_at(&c, 0x201f), "b");
        assert_null(name_at(&c, 0x2020));
        assert_string_equal(name_at(&c, 0x4000), "py::f:/srv/a");
        assert_null(name_at(&c, 0x5000));
        assert_int_equal(n_bad, 5);
        size_t rest = first + used;
        assert_int_equal(
            hw_perf_map_read(&c, hw_bytes_of(text + rest, n - rest), true, &used, &n_bad), HW_OK);
        assert_string_equal(name_at(&c, 0x5000), "no newline yet");
        hw_jit_code_done(&c);
    }
}

/* ---- jitdump ---- */

struct out {
    uint8_t p[4096];
    size_t n;
};

static void u32(struct out *o, uint32_t v)
{
    memcpy(o->p + o->n, &v, 4);
    o->n += 4;
}

static void u64(struct out *o, uint64_t v)
{
    memcpy(o->p + o->n, &v, 8);
    o->n += 8;
}

static void text(struct out *o, const char *s)
{
    memcpy(o->p + o->n, s, strlen(s) + 1);
    o->n += strlen(s) + 1;
}

static void header(struct out *o)
{
    u32(o, 0x4a695444);
    u32(o, 1);
    u32(o, 40);
    u32(o, 62);
    u32(o, 0);
    u32(o, 4711);
    u64(o, 5);
    u64(o, 0);
}

static size_t begin(struct out *o, uint32_t kind, uint64_t ts)
{
    size_t at = o->n;
    u32(o, kind);
    u32(o, 0);
    u64(o, ts);
    return at;
}

static void end(struct out *o, size_t at)
{
    uint32_t n = (uint32_t)(o->n - at);
    memcpy(o->p + at + 4, &n, 4);
}

static void load(struct out *o, uint64_t ts, uint64_t at, uint64_t n, const char *name)
{
    size_t b = begin(o, 0, ts);
    u32(o, 4711);
    u32(o, 4711);
    u64(o, at);
    u64(o, at);
    u64(o, n);
    u64(o, 1);
    text(o, name);
    memset(o->p + o->n, 0xcc, n);
    o->n += n;
    end(o, b);
}

static void line(struct out *o, uint64_t at, uint32_t no, const char *file)
{
    u64(o, at);
    u32(o, no);
    u32(o, 0);
    text(o, file);
}

static void dump(struct out *o)
{
    header(o);
    size_t b = begin(o, 2, 10);
    u64(o, 0x1000);
    u64(o, 3);
    line(o, 0x1008, 7, "a.js");
    line(o, 0x1000, 5, "\xff");
    line(o, 0x100c, 9, "b.js");
    end(o, b);
    load(o, 10, 0x1000, 16, "first");
    b = begin(o, 77, 11); /* of a later version */
    u64(o, 1);
    end(o, b);
    load(o, 20, 0x1000, 8, "second");
    b = begin(o, 1, 30);
    u32(o, 1);
    u32(o, 1);
    u64(o, 0x9000);
    u64(o, 0x1008);
    u64(o, 0x9000);
    u64(o, 8);
    u64(o, 1);
    end(o, b);
    load(o, 40, 0x2000, 4, "");
}

static void test_jitdump(void **state)
{
    (void)state;
    struct out o = {.n = 0};
    dump(&o);
    static const uint64_t times[] = {10, 20, 30, 39, 40, UINT64_MAX};
    struct hw_jitdump d = {0};
    struct hw_jit_code c = {0};
    uint64_t at = 0;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        uint64_t used;
        size_t size;
        assert_int_equal(
            hw_jitdump_read(&d, &c, hw_bytes_of(o.p + at, o.n - at), times[i], &used, &size),
            HW_OK);
        at += used;
        assert_int_equal(size, times[i] < 40 ? 0 : 16);
        assert_string_equal(name_at(&c, 0x1000), times[i] < 20 ? "first" : "second");
        if (times[i] >= 30)
            assert_string_equal(name_at(&c, 0x9004), "first");
        else
            assert_null(name_at(&c, 0x9000));
    }
    assert_int_equal(at, o.n);
    assert_int_equal(d.n_bad, 1);
    /* Lines: sorted, "\xff" has no file before it; of moved code the same. */
    const struct hw_jit_range *r = hw_jit_code_find(&c, 0x9000);
    const struct hw_jit_line *l = hw_jit_line_of(r, 0x9000);
    assert_string_equal(l->file, "a.js");
    assert_int_equal(l->line, 7);
    l = hw_jit_line_of(r, 0x9005);
    assert_string_equal(l->file, "b.js");
    assert_null(hw_jit_line_of(hw_jit_code_find(&c, 0x1000), 0x1000));
    hw_jitdump_done(&d);
    hw_jit_code_done(&c);
}

/* A file that grows by a byte at a time. */
static void test_jitdump_pieces(void **state)
{
    (void)state;
    struct out o = {.n = 0};
    dump(&o);
    struct hw_jitdump d = {0};
    struct hw_jit_code c = {0};
    uint64_t at = 0, used;
    size_t size;
    for (size_t n = 0; n <= o.n; n++) {
        assert_int_equal(
            hw_jitdump_read(&d, &c, hw_bytes_of(o.p + at, n - at), UINT64_MAX, &used, &size),
            HW_OK);
        at += used;
    }
    assert_int_equal(at, o.n);
    assert_string_equal(name_at(&c, 0x1000), "second");
    assert_string_equal(name_at(&c, 0x9000), "first");
    hw_jitdump_done(&d);
    hw_jit_code_done(&c);
}

static void test_jitdump_hostile(void **state)
{
    (void)state;
    struct out good = {.n = 0};
    dump(&good);
    for (size_t i = 0; i < good.n; i++)
        for (int k = 0; k < 256; k += 15) {
            struct out o = good;
            o.p[i] = (uint8_t)k;
            struct hw_jitdump d = {0};
            struct hw_jit_code c = {0};
            uint64_t at = 0, used = 1;
            size_t size;
            while (used && at < o.n &&
                   hw_jitdump_read(&d, &c, hw_bytes_of(o.p + at, o.n - (size_t)at), UINT64_MAX,
                                   &used, &size) == HW_OK)
                at += used;
            hw_jitdump_done(&d);
            hw_jit_code_done(&c);
        }
}

HW_TEST_MAIN(cmocka_unit_test(test_overlaps), cmocka_unit_test(test_cost),
             cmocka_unit_test(test_limits), cmocka_unit_test(test_perf_map),
             cmocka_unit_test(test_jitdump), cmocka_unit_test(test_jitdump_pieces),
             cmocka_unit_test(test_jitdump_hostile))
