/* jvm_counters_test.c - HotSpot's figures, and bytes that only look like them */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/heaps/jvm_counters.h"

#define PAGE 4096u

static uint8_t file[4096];
static size_t used;

static void put32(size_t at, uint32_t v)
{
    memcpy(file + at, &v, sizeof v);
}

static void begin(void)
{
    static const uint8_t magic[] = {0xca, 0xfe, 0xc0, 0xc0, 1, 2, 0, 1};
    memset(file, 0, sizeof file);
    memcpy(file, magic, sizeof magic);
    put32(24, 32);
    used = 32;
}

static void entry(const char *name, uint64_t value)
{
    size_t n = strlen(name) + 1, at = (20 + n + 7) & ~(size_t)7, length = at + 8;
    put32(used, (uint32_t)length);
    put32(used + 4, 20);
    file[used + 12] = 'J';
    put32(used + 16, (uint32_t)at);
    memcpy(file + used + 20, name, n);
    memcpy(file + used + at, &value, sizeof value);
    used += length;
    put32(28, file[28] + 1u);
}

static void all(void)
{
    begin();
    entry("sun.gc.generation.0.capacity", 100);
    entry("sun.gc.generation.0.maxCapacity", 1000);
    entry("sun.gc.generation.0.space.0.used", 10);
    entry("sun.gc.generation.0.space.1.used", 20);
    entry("sun.gc.generation.0.space.1.capacity", 77);
    entry("sun.gc.generation.1.capacity", 200);
    entry("sun.gc.generation.1.maxCapacity", 2000);
    entry("sun.gc.generation.1.space.0.used", 40);
    entry("sun.gc.metaspace.used", 5);
    entry("sun.gc.metaspace.capacity", 6);
    entry("java.threads.live", 12);
}

static void sums_are_right(void **state)
{
    struct hw_jvm_counters c;
    (void)state;
    all();
    assert_true(hw_jvm_counters_parse(file, used, &c));
    assert_int_equal(c.heap_used, 70);
    assert_int_equal(c.heap_committed, 300);
    assert_int_equal(c.heap_max, 3000);
    assert_int_equal(c.metaspace_used, 5);
    assert_int_equal(c.metaspace_committed, 6);
    assert_int_equal(c.threads, 12);
    assert_true(hw_jvm_counters_are_in("/tmp/hsperfdata_root/7"));
    assert_false(hw_jvm_counters_are_in("/tmp/other"));
}

/* Whatever is cut off or written over, nothing is read beyond the end. */
static void lies_are_survived(void **state)
{
    struct hw_jvm_counters c;
    uint32_t rng = 1;
    (void)state;
    all();
    for (size_t n = 0; n <= used; n++) {
        uint8_t *p = malloc(n ? n : 1); /* its own: a sanitizer sees the end */
        memcpy(p, file, n);
        (void)hw_jvm_counters_parse(p, n, &c);
        free(p);
    }
    for (int i = 0; i < 20000; i++) {
        all();
        for (int k = 0; k < 4; k++) {
            rng = rng * 1664525u + 1013904223u;
            file[8 + (rng >> 8) % (used - 8)] = (uint8_t)(rng >> 24);
        }
        uint8_t *p = malloc(used);
        memcpy(p, file, used);
        (void)hw_jvm_counters_parse(p, used, &c);
        free(p);
    }
    all();
    file[7] = 0; /* the JVM has just begun */
    assert_false(hw_jvm_counters_parse(file, used, &c));
}

static bool is_in_memory(void *p)
{
    uint64_t word;
    hw_autofd int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(pagemap, &word, 8, (off_t)((uintptr_t)p / PAGE * 8)), 8);
    return word >> 63;
}

static bool read_own(struct hw_jvm_counters *c)
{
    struct hw_smaps s;
    hw_autofd int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(dir, 0, &s), HW_OK);
    bool is_read = hw_jvm_counters_read(&s, mem, pagemap, c);
    hw_smaps_done(&s);
    return is_read;
}

/* The file may lie where nobody answers for a page that is not in memory. */
static void only_what_is_in_memory_is_read(void **state)
{
    struct hw_jvm_counters c;
    char dir[] = "/tmp/jvm_test.XXXXXX", inner[64], path[80];
    (void)state;
    all();
    put32(8, (uint32_t)used);
    assert_true(used < PAGE);
    assert_non_null(mkdtemp(dir));
    (void)snprintf(inner, sizeof inner, "%s/hsperfdata_root", dir);
    (void)snprintf(path, sizeof path, "%s/7", inner);
    assert_int_equal(mkdir(inner, 0700), 0);
    hw_autofd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
    uint8_t *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    memcpy(p, file, used);
    assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
    assert_true(read_own(&c)); /* the second page has nothing yet */
    assert_int_equal(c.heap_used, 70);
    assert_false(is_in_memory(p + PAGE));
    p[PAGE] = 0;
    assert_true(read_own(&c));
    uint32_t more = PAGE + 8;
    memcpy(p + 8, &more, sizeof more);
    assert_true(read_own(&c));
    assert_int_equal(madvise(p + PAGE, PAGE, MADV_DONTNEED), 0);
    assert_false(read_own(&c)); /* a part of it would be too little */
    assert_false(is_in_memory(p + PAGE));
    assert_int_equal(madvise(p, PAGE, MADV_DONTNEED), 0);
    assert_false(read_own(&c));
    assert_false(is_in_memory(p));
    (void)munmap(p, 2 * PAGE);
    (void)unlink(path), (void)rmdir(inner), (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_right),
        cmocka_unit_test(lies_are_survived),
        cmocka_unit_test(only_what_is_in_memory_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
