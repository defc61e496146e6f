/*
 * idle_test.c - from pages to samples, with the kernel's files made by hand
 */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "daemon/books/idle_samples.h"

static void put(int dir, const char *name, uint64_t at, uint64_t value)
{
    int fd = openat(dir, name, O_RDWR | O_CREAT, 0600);
    assert_int_equal(pwrite(fd, &value, 8, (off_t)(at * 8)), 8);
    close(fd);
}

static void test_live(void **state)
{
    (void)state;
    struct hw_idle_live l = {0};
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t id = 1; id <= 100; id++) {
            struct hw_idle_sample s = {id * 4096, 8, 8, (uint32_t)id};
            assert_int_equal(hw_idle_live_put(&l, id, &s), HW_OK);
        }
        assert_int_equal(l.samples.n, 100); /* rows are used again, ids too */
        for (uint64_t id = 2; id <= 100; id += 2)
            hw_idle_live_take(&l, id);
        hw_idle_live_take(&l, 1000); /* unknown */
        size_t n = 0;
        for (size_t i = 0; i < l.samples.n; i++)
            n += l.samples.v[i].alloc_size != 0;
        assert_int_equal(n, 50);
    }
    hw_idle_live_done(&l);
}

/* Page k of the process is page 1000 + k of memory. */
static void test_measure(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw-idle-XXXXXX", bitmap[64], pagemap[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(bitmap, sizeof bitmap, "%s/bitmap", dir);
    (void)snprintf(pagemap, sizeof pagemap, "%s/pagemap", dir);
    int fd = open(dir, O_PATH | O_DIRECTORY);
    for (uint64_t i = 0; i < 64; i++)
        put(fd, "pagemap", i, UINT64_C(1) << 63 | (1000 + i));
    put(fd, "bitmap", 20, 0);
    struct hw_idle x;
    assert_int_equal(hw_idle_open(fd, bitmap, NULL, &x, NULL), HW_OK);
    uint64_t p = x.page_bytes;
    const struct hw_idle_sample s[] = {
        {8 * p + 100, 50, 50, 0},        /* page 8 */
        {8 * p + 200, 2 * p, 2 * p, 0},  /* 8 to 10 */
        {10 * p + 3000, 16, 16, 0},      /* 10 */
        {40 * p, p, p, 0},               /* 40 exactly */
        {41 * p - 1, 2, 2, 0},           /* the last byte of 40 and the first of 41 */
        {~UINT64_C(0) - 5, 100, 100, 0}, /* a target's nonsense */
        {5 * p, ~UINT64_C(0), 1, 0},     /* the same */
        {0},
    };
    enum { N = HW_ARRAY_LEN(s) };
    bool idle[N];
    assert_int_equal(hw_idle_measure(&x, s, N, idle, NULL), HW_OK);
    for (int i = 0; i < N; i++)
        assert_false(idle[i]);
    /* Used meanwhile: pages 10 and 41, that is memory 1010 and 1041. */
    uint64_t word;
    int b = open(bitmap, O_RDWR);
    assert_int_equal(pread(b, &word, 8, 1010 / 64 * 8), 8);
    word &= ~(UINT64_C(1) << 1010 % 64);
    assert_int_equal(pwrite(b, &word, 8, 1010 / 64 * 8), 8);
    assert_int_equal(pread(b, &word, 8, 1041 / 64 * 8), 8);
    word &= ~(UINT64_C(1) << 1041 % 64);
    assert_int_equal(pwrite(b, &word, 8, 1041 / 64 * 8), 8);
    close(b);
    assert_int_equal(hw_idle_measure(&x, s, N, idle, NULL), HW_OK);
    static const bool want[N] = {true, false, false, true, false, false, false, false};
    for (int i = 0; i < N; i++)
        assert_int_equal(idle[i], want[i]);
    hw_idle_done(&x);
    close(fd);
    unlink(bitmap);
    unlink(pagemap);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_live), cmocka_unit_test(test_measure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
