/*
 * glibc_heap_test.c - pages around sampled blocks, of this process's own heap and of made-up ones
 */
#include "test.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "proc/glibc_heap.h"

#define PAGE 4096u

/* ---- of this process ---- */

static int read_own(void *ctx, uint64_t page, uint8_t out[HW_GLIBC_PAGE])
{
    const uint64_t *end = ctx;
    if (page * PAGE >= *end)
        return HW_EGONE;
    memcpy(out, (const void *)(uintptr_t)(page * PAGE), PAGE); /* NOLINT: that is the test */
    return HW_OK;
}

enum { BLOCKS = 6000 };

static char *all[BLOCKS];

/* What a page has of blocks that are live. */
static uint32_t used_by(const bool *live, uint64_t page)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        uint64_t lo = (uint64_t)(uintptr_t)all[i] - 8;
        uint64_t hi = lo + 8 + (live[i] ? malloc_usable_size(all[i]) : 0);
        uint64_t begin = page * PAGE, end = begin + PAGE;
        if (live[i] && lo < end && hi > begin)
            sum += (uint32_t)((hi < end ? hi : end) - (lo > begin ? lo : begin));
    }
    return sum;
}

/* keeps: one of so many stays. Every tenth of these is known, all others' state is to be found. */
static void check_own(size_t size, size_t keeps)
{
    static struct hw_glibc_block blocks[BLOCKS];
    static uint64_t pages[BLOCKS];
    static uint32_t used[BLOCKS];
    static bool live[BLOCKS];
    size_t n = 0, n_pages = 0, n_known = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        all[i] = malloc(size + i % 3 * 16);
        memset(all[i], 7, size);
        live[i] = true;
    }
    char *guard = malloc(size); /* the top does not take them back */
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % keeps) {
            live[i] = false;
            free(all[i]);
        }
    for (size_t i = 0; i < BLOCKS; i += keeps * 10) {
        uint64_t chunk = (uint64_t)(uintptr_t)all[i] - 16;
        if (n && chunk <= blocks[n - 1].chunk)
            continue; /* out of the order of addresses: it took a place that was free before */
        blocks[n++] = (struct hw_glibc_block){chunk, malloc_usable_size(all[i]) + 8};
        if (n_pages == 0 || pages[n_pages - 1] < (chunk + 8) / PAGE)
            pages[n_pages++] = (chunk + 8) / PAGE;
    }
    memset(used, 0xff, sizeof used);
    uint64_t end = ((uint64_t)(uintptr_t)guard / PAGE + 1) * PAGE;
    struct hw_glibc_walk w = {
        .read_page = read_own, .ctx = &end, .max_pages = 100000, .max_gap = 16 << 20};
    assert_int_equal(hw_glibc_walk(&w, blocks, 0, n, pages, n_pages, used), HW_OK);
    assert_int_equal(w.n_broken, 0);
    for (size_t i = 1; i + 1 < n_pages; i++) { /* strangers may be on the outer ones */
        n_known += used[i] != HW_GLIBC_UNKNOWN;
        assert_int_equal(used[i], used_by(live, pages[i]));
    }
    assert_true(n_known + 2 >= n_pages && n_pages > 10);
    for (size_t i = 0; i < BLOCKS; i++)
        if (live[i])
            free(all[i]);
    free(guard);
}

static void test_own_heap(void **state)
{
    (void)state;
    check_own(100, 8);  /* what is freed is in fastbins and the cache */
    check_own(1000, 8); /* what is freed is joined */
    check_own(40, 3);
}

/* ---- made up ---- */

enum { MEMORY = 16 }; /* pages from FIRST on */
#define FIRST UINT64_C(0x555555000)

struct memory {
    uint8_t bytes[MEMORY * PAGE];
};

static int read_memory(void *ctx, uint64_t page, uint8_t out[HW_GLIBC_PAGE])
{
    const struct memory *m = ctx;
    if (page < FIRST || page >= FIRST + MEMORY)
        return HW_EGONE;
    memcpy(out, m->bytes + (page - FIRST) * PAGE, PAGE);
    return HW_OK;
}

static void put(struct memory *m, uint64_t at, uint64_t word)
{
    memcpy(m->bytes + at, &word, sizeof word);
}

/* Blocks at 0x40 of the first page and at 0x100 of the last. */
static uint64_t walk(struct memory *m, uint64_t max_pages, uint32_t used[2], int expected)
{
    uint64_t base = FIRST * PAGE, last = (MEMORY - 1) * PAGE + 0x100;
    const struct hw_glibc_block blocks[] = {{base + 0x40, 0x40}, {base + last, 0x40}};
    const uint64_t pages[] = {FIRST, FIRST + MEMORY - 1};
    struct hw_glibc_walk w = {
        .read_page = read_memory, .ctx = m, .max_pages = max_pages, .max_gap = 16 << 20};
    used[0] = used[1] = HW_GLIBC_UNKNOWN;
    put(m, 0x48, 0x40 | 1);
    put(m, last + 8, 0x40 | 1);
    put(m, last + 0x48, 0xec0 | 1); /* to the end */
    assert_int_equal(hw_glibc_walk(&w, blocks, 0, 2, pages, 2, used), expected);
    assert_true(w.n_read <= max_pages);
    return w.n_broken;
}

static void test_lies(void **state)
{
    (void)state;
    /* Sizes that are none; that lead past the block, past all memory, or nowhere near. */
    const uint64_t sizes[] = {
        0,      1,          8,           0x18,     0x28 + 4,           UINT64_MAX, UINT64_MAX - 15,
        1 << 2, 0x40000000, 0x7fffffff1, 0x41 | 2, (MEMORY * PAGE) | 1};
    static struct memory m;
    uint32_t used[2];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        m = (struct memory){0};
        put(&m, 0x88, sizes[i]);
        (void)walk(&m, 1000, used, HW_OK);
        assert_int_equal(used[1], HW_GLIBC_UNKNOWN); /* its first bytes are nobody's */
    }
    /* Chunks of the smallest size all the way: as many steps as there are, and they arrive. */
    m = (struct memory){0};
    for (uint64_t at = 0x80; at < (MEMORY - 1) * PAGE + 0x100; at += 0x20)
        put(&m, at + 8, 0x20 | 1);
    assert_int_equal(walk(&m, 1000, used, HW_OK), 0);
    assert_int_equal(used[1], 0x148); /* and behind the block the top */
}

/* What is behind the last block claims all memory, as the top does: pages of later walks are not its own. */
static void test_false_top(void **state)
{
    (void)state;
    static struct memory m;
    uint64_t base = FIRST * PAGE, last = (MEMORY - 1) * PAGE + 0x100;
    const struct hw_glibc_block blocks[] = {{base + PAGE + 0x40, 0x40}, {base + last, 0x40}};
    const uint64_t pages[] = {FIRST + 1, FIRST + MEMORY - 1};
    const uint64_t tops[] = {UINT64_C(1) << 40, (UINT64_C(1) << 40) - 0x80};
    for (int i = 0; i < 2; i++) {
        uint32_t used[2] = {HW_GLIBC_UNKNOWN, HW_GLIBC_UNKNOWN};
        struct hw_glibc_walk w = {.read_page = read_memory,
                                  .ctx = &m,
                                  .max_pages = 1000,
                                  .max_gap = 16 << 20,
                                  .heap_start = base};
        put(&m, 8, (PAGE + 0x40) | 1);
        put(&m, PAGE + 0x48, 0x40 | 1);
        put(&m, PAGE + 0x88, tops[i] | 1);
        assert_int_equal(hw_glibc_walk(&w, blocks, 0, 1, pages, 2, used), HW_OK);
        assert_int_equal(used[1], HW_GLIBC_UNKNOWN);
        assert_int_equal(used[0] == HW_GLIBC_UNKNOWN, i == 0); /* no top ends within a page */
    }
}

/* A block on the heap's first page, of which the program has all but the first 8 bytes. */
static void test_first_page(void **state)
{
    (void)state;
    static struct memory m;
    uint64_t base = FIRST * PAGE;
    const struct hw_glibc_block block = {base + 0x40, 0x40};
    const uint64_t page = FIRST;
    put(&m, 8, 0x40 | 1);
    put(&m, 0x18, 1); /* no link: in use */
    put(&m, 0x10, 1);
    put(&m, 0x48, 0x40 | 1);
    put(&m, 0x88, (MEMORY * PAGE - 0x80) | 1);
    for (int knows = 0; knows < 2; knows++) {
        uint32_t used = HW_GLIBC_UNKNOWN;
        struct hw_glibc_walk w = {.read_page = read_memory,
                                  .ctx = &m,
                                  .max_pages = 1000,
                                  .max_gap = 16 << 20,
                                  .heap_start = knows ? base : 0};
        assert_int_equal(hw_glibc_walk(&w, &block, 0, 1, &page, 1, &used), HW_OK);
        assert_int_equal(used, knows ? 0x80 : HW_GLIBC_UNKNOWN);
    }
}

static void test_limit(void **state)
{
    (void)state;
    static struct memory m;
    uint32_t used[2];
    for (uint64_t at = 0x80; at < (MEMORY - 1) * PAGE + 0x100; at += 0x20)
        put(&m, at + 8, 0x20 | 1);
    (void)walk(&m, 3, used, HW_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_heap), cmocka_unit_test(test_lies),
                                       cmocka_unit_test(test_false_top),
                                       cmocka_unit_test(test_first_page),
                                       cmocka_unit_test(test_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
