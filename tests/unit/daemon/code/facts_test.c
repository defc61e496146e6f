/* facts_test.c - a file is read once, and again when anything of it has changed */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/code/file_facts.h"

/* Calls of this thread that read; they count the reading of their count, too. */
static long reads(void)
{
    char text[512];
    hw_autofd int fd = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strstr(text, "syscr: ");
    return p ? strtol(p + 7, NULL, 10) : -1;
}

static long reads_of(struct hw_facts *f, int fd, struct hw_module_facts *out)
{
    long before = reads();
    assert_int_equal(hw_facts_read(f, fd, out), HW_OK);
    return reads() - before - 1;
}

static void copy_of_this_program(int to)
{
    static char bytes[1 << 20];
    hw_autofd int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    for (ssize_t n; (n = read(from, bytes, sizeof bytes)) > 0;)
        assert_int_equal(hw_fd_write_all(to, bytes, (size_t)n), HW_OK);
}

static void test_once(void **state)
{
    (void)state;
    struct hw_facts *f;
    struct hw_module_facts first, again;
    hw_autofd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_facts_new(&f), HW_OK);
    long n = reads_of(f, fd, &first);
    long later = reads_of(f, fd, &again);
    bool counts = reads() >= 0, slow = first.slow;
    hw_facts_free(f);
    assert_true(first.is_elf);
    assert_string_equal(first.cache_key, again.cache_key);
    assert_int_equal(first.load_bias, again.load_bias);
    assert_int_equal(first.build_id_len, again.build_id_len);
    assert_memory_equal(first.build_id, again.build_id, first.build_id_len);
    if (!counts || slow)
        skip();
    assert_true(n > 0);
    assert_int_equal(later, 0);
}

/* The same size and the same time of writing, as who wants to be taken for another sets them. */
static void test_changed(void **state)
{
    (void)state;
    char path[] = "/tmp/facts_test.XXXXXX";
    struct hw_facts *f;
    struct hw_module_facts first, again;
    struct stat st;
    hw_autofd int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)unlink(path);
    copy_of_this_program(fd);
    assert_int_equal(hw_facts_new(&f), HW_OK);
    assert_int_equal(hw_facts_read(f, fd, &first), HW_OK);
    assert_int_equal(fstat(fd, &st), 0);
    const struct timespec former[] = {st.st_atim, st.st_mtim};
    const struct timespec *changed = &st.st_ctim;
    struct stat now = st;
    while (now.st_ctim.tv_sec == changed->tv_sec && now.st_ctim.tv_nsec == changed->tv_nsec) {
        assert_int_equal(pwrite(fd, "none", 4, 0), 4);
        assert_int_equal(futimens(fd, former), 0);
        assert_int_equal(fstat(fd, &now), 0); /* the kernel's clock goes on in steps */
    }
    assert_int_equal(hw_facts_read(f, fd, &again), HW_OK);
    hw_facts_free(f);
    assert_true(first.is_elf);
    assert_false(again.is_elf);
    assert_int_equal(first.mtime_ns, again.mtime_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_once), cmocka_unit_test(test_changed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
