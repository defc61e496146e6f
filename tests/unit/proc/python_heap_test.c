/*
 * python_heap_test.c - pymalloc of each Python that is here, against its own sys._debugmallocstats(), to the byte
 */
#include "test.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/heaps/python_heap.h"

#define MAX_SAID (1u << 20)

/* Some objects are freed, so that blocks, pools and arenas are free; then it tells, and changes nothing. */
static const char program[] = "import sys, os, signal\n"
                              "a = [(i, str(i), [i]) for i in range(60000)]\n"
                              "b = [bytes(i % 400) for i in range(60000)]\n"
                              "del a[::3]; del b[1000:50000]\n"
                              "sys._debugmallocstats()\n"
                              "os.write(2, b'\\0')\n"
                              "signal.pause()\n";

static char said[MAX_SAID];

static pid_t start(const char *python, const char *allocator)
{
    int fds[2];
    size_t n = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(fds[1], 2);
        if (allocator)
            (void)setenv("PYTHONMALLOC", allocator, 1);
        (void)execl(python, python, "-S", allocator ? "-s" : "-E", "-c", program, (char *)NULL);
        _exit(127);
    }
    (void)close(fds[1]);
    while (n == 0 || said[n - 1] != '\0') {
        ssize_t got = read(fds[0], said + n, sizeof said - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    (void)close(fds[0]);
    said[n ? n - 1 : 0] = '\0';
    return pid;
}

/* "# bytes in allocated blocks        =            8,340,224", "12 unused pools * 16384 bytes = 196,608" */
static uint64_t figure(const char *what)
{
    const char *at = strstr(said, what);
    uint64_t n = 0;
    assert_non_null(at);
    at = strchr(at, '=');
    assert_non_null(at);
    for (at++; *at && *at != '\n'; at++)
        if (*at >= '0' && *at <= '9')
            n = n * 10 + (uint64_t)(*at - '0');
    return n;
}

static struct hw_python_heap read_process(pid_t pid)
{
    char path[64];
    struct hw_smaps s;
    struct hw_python_heap h;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    hw_autofd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int mem = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = openat(dir, "pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(dir, 0, &s), HW_OK);
    assert_int_equal(hw_python_heap_read(&s, mem, pagemap, &h), HW_OK);
    hw_smaps_done(&s);
    return h;
}

static void stop(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static void check(const char *python)
{
    pid_t pid = start(python, NULL);
    struct hw_python_heap h = read_process(pid);
    stop(pid);
    print_message("%s: state %d, %zu arenas: %zu used, %zu and %zu free of %zu, %zu resident\n",
                  python, (int)h.state, (size_t)h.arenas, (size_t)h.used, (size_t)h.free_blocks,
                  (size_t)h.free_pools, (size_t)h.committed, (size_t)h.resident);
    assert_int_equal(h.state, HW_PYTHON_HEAP_KNOWN);
    assert_int_equal(h.arenas, figure("# arenas allocated current"));
    assert_int_equal(h.used, figure("# bytes in allocated blocks"));
    assert_int_equal(h.free_blocks, figure("# bytes in available blocks"));
    assert_int_equal(h.free_pools, figure("unused pools"));
    assert_int_equal(h.committed, h.arenas << 20);
    assert_true(h.free_blocks > 0 && h.free_pools > 0);
}

static void each_python_is_as_it_says(void **state)
{
    static const char *const where[] = {"/usr/bin/python3", "/usr/local/bin/python3",
                                        "~/.pyenv/versions/3.1[0-3].*/bin/python3"};
    glob_t found = {0};
    (void)state;
    for (size_t i = 0; i < sizeof where / sizeof *where; i++)
        (void)glob(where[i], GLOB_TILDE | (i ? GLOB_APPEND : 0), NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check(found.gl_pathv[i]);
    size_t n = found.gl_pathc;
    globfree(&found);
    if (n == 0)
        skip();
}

static void without_arenas_nothing_is_told(void **state)
{
    (void)state;
    if (access("/usr/bin/python3", X_OK) < 0)
        skip();
    pid_t pid = start("/usr/bin/python3", "malloc");
    struct hw_python_heap h = read_process(pid);
    stop(pid);
    assert_int_equal(h.state, HW_PYTHON_HEAP_UNKNOWN);
    h = read_process(getpid());
    assert_int_equal(h.state, HW_PYTHON_HEAP_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_python_is_as_it_says),
        cmocka_unit_test(without_arenas_nothing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
