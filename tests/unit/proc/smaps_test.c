/* smaps_test.c - mappings that change while they are read, a mapping a call */
#include "proc/smaps.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "test.h"

static void write_text(const char *dir, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/smaps", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The kernel goes on behind the end of what it has said last: a heap that has grown since lies there again. */
static void test_grown(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw-smaps-XXXXXX", path[128];
    struct hw_smaps s;
    assert_non_null(mkdtemp(dir));
    write_text(dir, "1000-2000 r-xp 00000000 fe:01 7 /bin/x\nRss: 4 kB\n"
                    "2000-9000 rw-p 00000000 00:00 0 [heap]\nRss: 28 kB\n"
                    "2000-a000 rw-p 00000000 00:00 0 [heap]\nRss: 32 kB\n"
                    "f000-10000 rw-p 00000000 00:00 0\nRss: 1 kB\n"
                    /* and two that have become one */
                    "10000-11000 rw-p 00000000 00:00 0\nRss: 2 kB\n"
                    "f000-12000 rw-p 00000000 00:00 0\nRss: 5 kB\n");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(fd, /* rollup = */ 0, &s), HW_OK);
    static const struct {
        uint64_t start, end, rss_kb;
    } want[] = {{0x1000, 0x2000, 4}, {0x2000, 0xa000, 32}, {0xf000, 0x12000, 5}};
    assert_int_equal(s.entries.n, 3);
    for (size_t i = 0; i < s.entries.n; i++) {
        assert_int_equal(s.entries.v[i].start, want[i].start);
        assert_int_equal(s.entries.v[i].end, want[i].end);
        assert_int_equal(s.entries.v[i].rss_kb, want[i].rss_kb);
    }
    hw_smaps_done(&s);
    (void)close(fd);
    (void)snprintf(path, sizeof path, "%s/smaps", dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Beside a program that does nothing but grow: never more than it has, which only grows. */
static void test_growing(void **state)
{
    enum { READINGS = 300, STEP = 4096, MOST = 1 << 28 };
    (void)state;
    char path[64];
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* in case a check fails */
        for (size_t n = 0; n < MOST; n += STEP)
            memset(sbrk(STEP), 1, STEP);
        for (;;)
            (void)pause();
    }
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < READINGS; i++) {
        struct hw_smaps s, all;
        uint64_t sum_kb = 0;
        assert_int_equal(hw_smaps_read(fd, /* rollup = */ 0, &s), HW_OK);
        assert_int_equal(hw_smaps_read(fd, /* rollup = */ 1, &all), HW_OK);
        for (size_t k = 0; k < s.entries.n; k++) {
            sum_kb += s.entries.v[k].rss_kb;
            assert_true(k == 0 || s.entries.v[k - 1].end <= s.entries.v[k].start);
        }
        assert_in_range(sum_kb, 1, all.entries.v[0].rss_kb);
        hw_smaps_done(&s);
        hw_smaps_done(&all);
    }
    (void)close(fd);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

HW_TEST_MAIN(cmocka_unit_test(test_grown), cmocka_unit_test(test_growing))
