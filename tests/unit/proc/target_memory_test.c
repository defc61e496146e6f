/*
 * target_memory_test.c - which pages of a process are read: its own that are in memory, and nobody's that may have to be
 * waited for. This process reads itself.
 */
#include "test.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/heaps/target_memory.h"

#define PAGE  4096u
#define WHOLE UINT64_C(10000000000)

static uint8_t *map(size_t n, int flags, int fd)
{
    uint8_t *p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags, fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static int make_file(size_t n)
{
    char path[] = "/tmp/target_memory_test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(write(fd, "x", 1), 1);
    return fd;
}

static void read_maps(struct hw_smaps *s)
{
    hw_autofd int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(dir, 0, s), HW_OK);
}

/* As the mappings are now, or as s has them. */
static int read_at(const struct hw_smaps *s, const void *p)
{
    struct hw_target_memory *m = calloc(1, sizeof *m);
    struct hw_smaps now = {0};
    uint64_t one, two, three, at = (uint64_t)(uintptr_t)p;
    hw_autofd int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (!s)
        read_maps(&now);
    hw_target_memory_init(m, s ? s : &now, mem, pagemap, WHOLE);
    int rc = hw_target_read(m, at, &one, sizeof one);
    assert_int_equal(hw_target_word(m, at, &two), rc);
    assert_int_equal(hw_target_word_anywhere(m, at, &three), rc);
    if (rc == HW_OK)
        assert_true(memcmp(&one, p, sizeof one) == 0 && one == two && one == three);
    hw_smaps_done(&now);
    free(m);
    return rc;
}

static bool is_in_memory(void *p)
{
    uint64_t word;
    hw_autofd int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(pagemap, &word, 8, (off_t)((uintptr_t)p / PAGE * 8)), 8);
    return word >> 63;
}

static void only_its_own_pages_are_read(void **state)
{
    (void)state;
    uint8_t *own = map(2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    own[0] = 7;
    assert_int_equal(read_at(NULL, own), HW_OK);
    assert_int_equal(read_at(NULL, own + PAGE), HW_EGONE);
    assert_false(is_in_memory(own + PAGE)); /* and it still is not */
    uint8_t *shared = map(PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    shared[0] = 7;
    assert_int_equal(read_at(NULL, shared), HW_EGONE);
    hw_autofd int fd = make_file(2 * PAGE);
    volatile uint8_t *file = map(2 * PAGE, MAP_PRIVATE, fd);
    file[0] = 7;
    assert_int_equal(file[PAGE],
                     'x'); /* in memory, but the file's: its file system may take it away */
    assert_int_equal(read_at(NULL, (const void *)file), HW_OK);
    assert_int_equal(read_at(NULL, (const void *)(file + PAGE)), HW_EGONE);
    (void)munmap(own, 2 * PAGE), (void)munmap(shared, PAGE), (void)munmap((void *)file, 2 * PAGE);
}

/* What was mapped since the mappings were read may be anything. */
static void new_mappings_are_not_read(void **state)
{
    struct hw_smaps s;
    (void)state;
    uint8_t *own = map(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    (void)munmap(own, PAGE);
    read_maps(&s);
    void *again = mmap(own, PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(again, own);
    own[0] = 7;
    assert_int_equal(read_at(&s, own), HW_EGONE);
    assert_int_equal(read_at(NULL, own), HW_OK);
    hw_smaps_done(&s);
    (void)munmap(own, PAGE);
}

/* It is in memory now. If the program drops it, a read waits for the handler, which does not answer. */
static void watched_pages_are_not_read(void **state)
{
    struct uffdio_api api = {.api = UFFD_API};
    (void)state;
    hw_autofd int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    uint8_t *own = map(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    own[0] = 7;
    struct uffdio_register r = {.range = {.start = (uintptr_t)own, .len = PAGE},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) {
        print_message("userfaultfd is not allowed here\n");
        skip();
    }
    assert_int_equal(read_at(NULL, own), HW_OK);
    assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &r), 0);
    assert_int_equal(read_at(NULL, own), HW_EGONE);
    (void)munmap(own, PAGE);
}

static void heaps_are_in_whole_mappings(void **state)
{
    static char none[] = "", heap[] = "[heap]", file[] = "/f";
    struct hw_target_memory *m = calloc(1, sizeof *m);
    struct hw_smaps_entry e[] = {
        {.start = 0x1000, .end = 0x3000, .flags = 3, .path = heap},
        {.start = 0x3000, .end = 0x4000, .flags = 3, .path = none},
        {.start = 0x4000, .end = 0x5000, .flags = 3, .path = file},
        {.start = 0x6000, .end = 0x7000, .flags = 1, .path = none},
    };
    struct hw_smaps s = {.entries = {e, sizeof e / sizeof *e, 0}};
    (void)state;
    hw_target_memory_init(m, &s, -1, -1, WHOLE);
    assert_true(hw_target_is_heap(m, 0x1000, 0x4000));
    assert_true(hw_target_is_heap(m, 0x1008, 0x1010));
    assert_true(hw_target_is_heap(m, 0x2000, 0x4000));
    assert_false(hw_target_is_heap(m, 0xff8, 0x4000));
    assert_false(hw_target_is_heap(m, 0x1000, 0x4001));
    assert_false(hw_target_is_heap(m, 0x4000, 0x6000));
    assert_false(hw_target_is_heap(m, 0x6000, 0x7000));
    assert_false(hw_target_is_heap(m, 0x8000, UINT64_MAX));
    assert_false(hw_target_is_heap(m, 0x1000, 0x1000));
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_its_own_pages_are_read),
        cmocka_unit_test(new_mappings_are_not_read),
        cmocka_unit_test(watched_pages_are_not_read),
        cmocka_unit_test(heaps_are_in_whole_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
