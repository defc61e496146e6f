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
#include <sys/mman.h>
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

/* ---- a heap that this process only pretends to have ---- */

enum { POOL = 16384, CLASSES = 32, MIB = 1 << 20 };

struct object {
    uint64_t address, pools_end;
    uint32_t n_free, n_all;
    uint64_t links[3];
};

static struct {
    uint64_t *table; /* in a file that is called as the interpreter */
    struct object *objects;
    uint8_t *arenas; /* two */
    char dir[64];
} forged;

static void *map(size_t n, int fd)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
                   fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE, fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static uint64_t at_of(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static struct object *put_arena(size_t i, uint64_t at, uint32_t n_used)
{
    forged.objects[i] =
        (struct object){at, at + n_used * POOL, MIB / POOL - n_used, MIB / POOL, {0}};
    return &forged.objects[i];
}

/* One arena with a pool of one block, one that is free. */
static int forge(void **state)
{
    char path[128];
    (void)state;
    (void)snprintf(forged.dir, sizeof forged.dir, "/tmp/python_heap_test.XXXXXX");
    assert_non_null(mkdtemp(forged.dir));
    (void)snprintf(path, sizeof path, "%s/python3", forged.dir);
    hw_autofd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, 4096), 0);
    forged.table = map(4096, fd);
    forged.objects = map(65536, -1);
    memset(forged.objects, 0, 65536);
    forged.arenas = map(2 * MIB + POOL, -1);
    forged.arenas += (POOL - at_of(forged.arenas) % POOL) % POOL;
    uint8_t *pool = forged.arenas;
    uint32_t count = 1, words[4] = {0, 0, POOL, POOL - 16}; /* arena, class, next, limit */
    memcpy(pool, &count, sizeof count);
    memcpy(pool + 32, words, sizeof words);
    for (size_t i = 0; i < CLASSES; i++)
        forged.table[2 * i] = forged.table[2 * i + 1] =
            i ? at_of(forged.table) + 16 * i - 16 : at_of(pool);
    forged.table[2 * CLASSES] = at_of(forged.objects);
    (void)put_arena(0, at_of(pool), 1);
    (void)put_arena(1, at_of(pool) + MIB, 0);
    return 0;
}

static int unforge(void **state)
{
    char path[128];
    (void)state;
    (void)snprintf(path, sizeof path, "%s/python3", forged.dir);
    (void)munmap(forged.table, 4096);
    (void)unlink(path);
    return rmdir(forged.dir);
}

static void a_forged_heap_is_read(void **state)
{
    (void)state;
    struct hw_python_heap h = read_process(getpid());
    assert_int_equal(h.state, HW_PYTHON_HEAP_KNOWN);
    assert_int_equal(h.arenas, 2);
    assert_int_equal(h.used, 16);
    assert_int_equal(h.committed, 2 * MIB);
}

/* None of its pools says whose it is. */
static void an_arena_counts_once(void **state)
{
    (void)state;
    for (uint64_t shift = 0; shift < MIB; shift += MIB / 2) {
        (void)put_arena(2, at_of(forged.arenas) + MIB - shift, 0);
        assert_int_equal(read_process(getpid()).state, HW_PYTHON_HEAP_CHANGED);
    }
}

static void an_arena_is_mapped(void **state)
{
    (void)state;
    (void)put_arena(2, UINT64_C(1) << 46, 0);
    assert_int_equal(read_process(getpid()).state, HW_PYTHON_HEAP_CHANGED);
    forged.objects[2].address = 0;
    (void)put_arena(20, UINT64_C(1) << 46, 0); /* where the array may end */
    assert_int_equal(read_process(getpid()).state, HW_PYTHON_HEAP_CHANGED);
    (void)put_arena(2, at_of(forged.table), 0)
        ->n_free--; /* a file's, and not at a pool: one less */
    forged.objects[2].n_all = MIB / POOL - 1;
    assert_int_equal(read_process(getpid()).state, HW_PYTHON_HEAP_CHANGED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_python_is_as_it_says),
        cmocka_unit_test(without_arenas_nothing_is_told),
        cmocka_unit_test_setup_teardown(a_forged_heap_is_read, forge, unforge),
        cmocka_unit_test_setup_teardown(an_arena_counts_once, forge, unforge),
        cmocka_unit_test_setup_teardown(an_arena_is_mapped, forge, unforge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
