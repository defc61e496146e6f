/*
 * idle_test.c - pages of a process that does not exist, in files of our own; and of ourselves
 */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/idle_pages.h"

#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)

struct fix {
    char dir[64], bitmap[96], flags[96], pagemap[96];
    int fd;
};

static void put(const char *path, uint64_t at, uint64_t value)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &value, 8, (off_t)(at * 8)), 8);
    close(fd);
}

static uint64_t get(const char *path, uint64_t at)
{
    uint64_t value = 0;
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, &value, 8, (off_t)(at * 8)), 8);
    close(fd);
    return value;
}

static void set_up(struct fix *f)
{
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/hw-idle-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->bitmap, sizeof f->bitmap, "%s/bitmap", f->dir);
    (void)snprintf(f->flags, sizeof f->flags, "%s/flags", f->dir);
    (void)snprintf(f->pagemap, sizeof f->pagemap, "%s/pagemap", f->dir);
    f->fd = open(f->dir, O_PATH | O_DIRECTORY);
}

static void tear_down(struct fix *f)
{
    close(f->fd);
    unlink(f->bitmap);
    unlink(f->flags);
    unlink(f->pagemap);
    assert_int_equal(rmdir(f->dir), 0);
}

/* Pages 100-103 lie in memory at 5, 70, 4000 and a huge page's third; 104 is swapped, 200 not
 * there. */
static void test_bitmap(void **state)
{
    (void)state;
    static const uint64_t pages[] = {100, 101, 102, 103, 104, 200};
    enum { N = 6 };
    struct fix f;
    struct hw_idle x;
    bool idle[N];
    set_up(&f);
    put(f.pagemap, 100, PRESENT | 5);
    put(f.pagemap, 101, PRESENT | 70);
    put(f.pagemap, 102, PRESENT | 4000);
    put(f.pagemap, 103, PRESENT | (8192 + 3));
    put(f.pagemap, 104, SWAPPED | 77);
    put(f.flags, 9000, 0);
    put(f.flags, 8192, 1u << 15);
    for (uint64_t i = 1; i < 8; i++)
        put(f.flags, 8192 + i, 1u << 16);
    put(f.bitmap, 200, 0);
    assert_int_equal(hw_idle_open(f.fd, f.bitmap, f.flags, &x, NULL), HW_OK);
    assert_int_equal(x.way, HW_IDLE_BY_BITMAP);
    assert_int_equal(hw_idle_scan(&x, pages, N, idle, NULL), HW_OK);
    for (int i = 0; i < N; i++)
        assert_false(idle[i]); /* nobody has marked them before */
    /* The kernel's side: each page of memory is marked, and no other. */
    assert_int_equal(get(f.bitmap, 0), 1u << 5);
    assert_int_equal(get(f.bitmap, 1), 1u << 6);
    assert_int_equal(get(f.bitmap, 62), UINT64_C(1) << 32);
    assert_int_equal(get(f.bitmap, 128), 1);
    put(f.bitmap, 1, 0); /* page 101 was used */
    assert_int_equal(hw_idle_scan(&x, pages, N, idle, NULL), HW_OK);
    static const bool want[N] = {true, false, true, true, true, true};
    for (int i = 0; i < N; i++)
        assert_int_equal(idle[i], want[i]);
    assert_int_equal(get(f.bitmap, 1), 1u << 6); /* marked again */
    /* Without the rights the kernel shows page 0 for every one. */
    put(f.pagemap, 101, PRESENT);
    assert_int_equal(hw_idle_scan(&x, pages, N, idle, NULL), HW_EPERM);
    hw_idle_done(&x);
    tear_down(&f);
}

static void test_nothing_there(void **state)
{
    (void)state;
    struct fix f;
    struct hw_idle x;
    struct hw_error err = {0};
    set_up(&f);
    assert_int_equal(hw_idle_open(f.fd, f.bitmap, NULL, &x, &err), HW_ENOTFOUND);
    assert_non_null(strstr(err.text, "idle page bitmap"));
    hw_idle_done(&x);
    tear_down(&f);
}

/* Our own mappings, one used between two looks and one not. */
static void test_referenced(void **state)
{
    (void)state;
    struct hw_idle x;
    int dir = open("/proc/self", O_PATH | O_DIRECTORY);
    if (hw_idle_open(dir, NULL, NULL, &x, NULL) < 0 || x.way != HW_IDLE_REFERENCED)
        skip();
    size_t n = 64 * 1024;
    char *m = mmap(NULL, 5 * n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    for (size_t i = 1; i < 5; i += 2) {
        assert_int_equal(mprotect(m + i * n, n, PROT_READ | PROT_WRITE), 0);
        memset(m + i * n, 1, n);
    }
    uint64_t pages[2] = {(uint64_t)(uintptr_t)(m + n) / x.page_bytes,
                         (uint64_t)(uintptr_t)(m + 3 * n) / x.page_bytes};
    bool idle[2];
    struct hw_error err = {0};
    if (hw_idle_scan(&x, pages, 2, idle, &err) < 0) /* a sandbox without the file's effect */
        skip();
    assert_false(idle[0] || idle[1]);
    /* The kernel clears its bits but not the processor's translations; a change of rights does. */
    for (size_t i = 1; i < 5; i += 2) {
        assert_int_equal(mprotect(m + i * n, n, PROT_READ), 0);
        assert_int_equal(mprotect(m + i * n, n, PROT_READ | PROT_WRITE), 0);
    }
    m[3 * n + 5] = 2;
    assert_int_equal(hw_idle_scan(&x, pages, 2, idle, NULL), HW_OK);
    assert_true(idle[0]);
    assert_false(idle[1]);
    hw_idle_done(&x);
    munmap(m, 5 * n);
    close(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bitmap),
                                       cmocka_unit_test(test_nothing_there),
                                       cmocka_unit_test(test_referenced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
