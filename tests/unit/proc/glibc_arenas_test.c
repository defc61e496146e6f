/*
 * glibc_arenas_test.c - arenas of a child that stands still, against its own malloc_info(), to the byte
 */
#include "test.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/heaps/glibc_arenas.h"

enum { THREADS = 8, BLOCKS = 40000, CACHED = 7 };
enum {
    RECORD_WORDS = 275,
    AT_FAST = 2,
    AT_TOP = 12,
    AT_BINS = 14,
    BINS = 127,
    AT_NEXT = 270,
    AT_SYSTEM = 273
};
#define FAR         (UINT64_C(1) << 34)
#define SMALLEST    32u
#define MOST_CACHED 1040u

static bool has_threads, is_large;
static uint64_t far_at; /* a page of the child's, far behind its heap; 0 = none */
static uint64_t twin[RECORD_WORDS] __attribute__((aligned(16)));
static pthread_barrier_t done;
static char said[1 << 16];

/* First seven blocks of each class that a thread's cache has room for, as many as it takes, so all others that are freed
 * go to their arena: holes of several sizes, some of them beyond a page, and small ones in fastbins. */
static void use_heap(size_t seed)
{
    static _Thread_local void *cached[(MOST_CACHED - SMALLEST) / 16 + 1][CACHED];
    size_t n_classes = sizeof cached / sizeof *cached, n = BLOCKS / (1 + seed % 3);
    char **all = malloc(n * sizeof *all);
    for (size_t c = 0; c < n_classes; c++)
        for (size_t i = 0; i < CACHED; i++)
            cached[c][i] = malloc(SMALLEST + c * 16 - 8);
    for (size_t i = 0; i < n; i++) {
        size_t size = i % 50 == 0 ? 9000 : 24 + (i * 7 + seed) % 900;
        all[i] = malloc(size);
        memset(all[i], 7, size);
    }
    for (size_t c = 0; c < n_classes; c++)
        for (size_t i = 0; i < CACHED; i++)
            free(cached[c][i]);
    for (size_t i = 0; i < n; i++)
        if (i % (3 + seed))
            free(all[i]);
    for (size_t i = 0; i < n; i += (3 + seed) * 20) /* kept until the others were joined */
        free(all[i]);
    free(all);
}

/* 240 MiB, of which a thirtieth is in memory; every third block is freed. */
static void fill(void)
{
    enum { LARGE = 2400, BYTES = 100000 };
    static char *all[LARGE];
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
    for (size_t i = 0; i < LARGE; i++)
        all[i] = malloc(BYTES);
    for (size_t i = 0; i < LARGE; i += 3)
        free(all[i]);
}

static void *run(void *arg)
{
    use_heap((size_t)(uintptr_t)arg);
    (void)pthread_barrier_wait(&done);
    (void)pause(); /* until it is killed */
    return NULL;
}

static void be_child(int out)
{
    static char buffer[1 << 16];
    pthread_t t[THREADS];
    FILE *f = fdopen(out, "w");
    if (far_at)
        (void)memset(mmap((void *)(uintptr_t)far_at, 4096, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     0, 4096);
    (void)setvbuf(f, buffer, _IOFBF, sizeof buffer);
    (void)pthread_barrier_init(&done, NULL, THREADS + 1);
    for (size_t i = 0; has_threads && i < THREADS; i++)
        (void)pthread_create(&t[i], NULL, run, (void *)(uintptr_t)(i + 1));
    if (has_threads)
        (void)pthread_barrier_wait(&done);
    use_heap(0);
    if (is_large)
        fill();
    (void)malloc_info(0, f);
    (void)fputc('\0', f);
    (void)fflush(f);
    for (;;)
        (void)pause();
}

static pid_t start(void)
{
    int fds[2];
    size_t n = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        /* A heap of its own: what the parent has allocated is in it, too, and does no harm. */
        be_child(fds[1]);
        _exit(0);
    }
    (void)close(fds[1]);
    while (n == 0 || said[n - 1] != '\0') {
        ssize_t got = read(fds[0], said + n, sizeof said - n);
        assert_true(got > 0);
        n += (size_t)got;
    }
    (void)close(fds[0]);
    return pid;
}

static uint64_t heap_start_of(int dir)
{
    char *text;
    size_t n;
    assert_int_equal(hw_file_read(dir, "stat", 4096, &text, &n, NULL), HW_OK);
    char *at = strrchr(text, ')');
    for (int field = 2; field < 47; field++)
        at = strchr(at + 1, ' ');
    uint64_t start = strtoull(at, NULL, 10);
    free(text);
    return start;
}

static void read_child(pid_t pid, struct hw_glibc_arenas *out)
{
    char path[64];
    struct hw_smaps s;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    hw_autofd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int mem = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = openat(dir, "pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(dir, 0, &s), HW_OK);
    assert_int_equal(hw_glibc_arenas_read(&s, mem, pagemap, heap_start_of(dir), out), HW_OK);
    hw_smaps_done(&s);
}

/* The number behind the next such attribute. */
static uint64_t number_of(const char **at, const char *key)
{
    const char *found = strstr(*at, key);
    assert_non_null(found);
    *at = found + strlen(key);
    return strtoull(*at, NULL, 10);
}

static void check(bool threads)
{
    struct hw_glibc_arenas a;
    size_t n = 0, n_found = 0;
    has_threads = threads;
    pid_t pid = start();
    read_child(pid, &a);
    uint64_t cached = 0,
             full = CACHED * ((MOST_CACHED - SMALLEST) / 16 + 1) * (SMALLEST + MOST_CACHED) / 2;
    for (const char *at = said; (at = strstr(at, "<heap nr=")); n++) {
        uint64_t fast = number_of(&at, "<total type=\"fast\" count=\"");
        fast = number_of(&at, "size=\"");
        uint64_t n_rest = number_of(&at, "<total type=\"rest\" count=\"");
        /* It adds the flag in each chunk's size, but for the top's. */
        uint64_t rest = number_of(&at, "size=\"") - (n_rest - 1);
        uint64_t system = number_of(&at, "<system type=\"current\" size=\"");
        print_message("malloc_info: system %zu fast %zu rest %zu\n", (size_t)system, (size_t)fast,
                      (size_t)rest);
        for (size_t i = 0; i < a.v.n; i++) {
            const struct hw_glibc_arena *x = &a.v.v[i];
            n_found += x->state == HW_GLIBC_ARENA_KNOWN && x->system == system && x->fast == fast &&
                       x->is_free + x->top == rest &&
                       x->in_use + x->cached == system - fast - rest && x->resident <= system &&
                       x->returnable <= rest;
        }
    }
    for (size_t i = 0; i < a.v.n; i++) {
        const struct hw_glibc_arena *x = &a.v.v[i];
        print_message("main %d state %d system %zu in use %zu free %zu top %zu cached %zu fast %zu "
                      "returnable %zu resident %zu threads %zu\n",
                      x->is_main, (int)x->state, (size_t)x->system, (size_t)x->in_use,
                      (size_t)x->is_free, (size_t)x->top, (size_t)x->cached, (size_t)x->fast,
                      (size_t)x->returnable, (size_t)x->resident, (size_t)x->threads);
        cached += x->cached;
    }
    assert_true(n >= 1);
    assert_int_equal(a.v.n, n);
    assert_int_equal(n_found, n);
    assert_true(a.v.v[0].is_main);
    assert_int_equal(a.v.v[0].has_cached, !is_large);
    assert_int_equal(cached, is_large ? 0 : full * (threads ? THREADS + 1 : 1));
    hw_glibc_arenas_done(&a);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static void a_large_arena_is_known_by_its_lists(void **state)
{
    (void)state;
    is_large = true;
    check(/* threads = */ false);
    is_large = false;
}

/* What it has and what it had at most, the same before the first trim, stand beside each other in its record. */
static void lie(pid_t pid, const struct hw_glibc_arena *a, uint64_t bytes)
{
    char path[64];
    uint64_t record[280], lies[2] = {bytes, bytes};
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    hw_autofd int mem = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(mem, record, sizeof record, (off_t)a->at), sizeof record);
    for (size_t i = 0; i + 1 < sizeof record / sizeof *record; i++)
        if (record[i] == a->system && record[i + 1] == a->system) {
            assert_int_equal(pwrite(mem, lies, sizeof lies, (off_t)(a->at + i * 8)), sizeof lies);
            return;
        }
    fail();
}

/* Without a bound its pages are counted for years. */
static void a_size_that_cannot_be_ends(void **state)
{
    struct hw_glibc_arenas before, after;
    (void)state;
    has_threads = false;
    pid_t pid = start();
    read_child(pid, &before);
    lie(pid, &before.v.v[0], UINT64_C(1) << 62);
    read_child(pid, &after);
    assert_int_equal(after.v.n, 1);
    assert_int_not_equal(after.v.v[0].state, HW_GLIBC_ARENA_KNOWN);
    hw_glibc_arenas_done(&before);
    hw_glibc_arenas_done(&after);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static int open_memory(pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    int mem = open(path, O_RDWR | O_CLOEXEC);
    assert_true(mem >= 0);
    return mem;
}

static void put(int mem, uint64_t at, const void *p, size_t n)
{
    assert_int_equal(pwrite(mem, p, n, (off_t)at), n);
}

static void end_child(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* A chunk from the heap's beginning to a page far behind it, which has the top: the walk arrives, but over nothing. */
static void a_chunk_over_unmapped_memory_is_no_memory(void **state)
{
    struct hw_glibc_arenas before, after;
    uint64_t r[RECORD_WORDS], words[2] = {0};
    (void)state;
    hw_autofd int own = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uint64_t start_at = heap_start_of(own);
    has_threads = false;
    far_at = start_at + FAR;
    pid_t pid = start();
    read_child(pid, &before);
    assert_int_equal(before.v.v[0].state, HW_GLIBC_ARENA_KNOWN);
    hw_autofd int mem = open_memory(pid);
    assert_int_equal(pread(mem, r, sizeof r, (off_t)before.v.v[0].at), sizeof r);
    r[AT_TOP] = far_at;
    r[AT_SYSTEM] = r[AT_SYSTEM + 1] = FAR + 4096;
    put(mem, before.v.v[0].at, r, sizeof r);
    words[1] = FAR | 1;
    put(mem, start_at, words, sizeof words);
    words[1] = 4096 | 1;
    put(mem, far_at, words, sizeof words);
    read_child(pid, &after);
    end_child(pid);
    far_at = 0;
    assert_int_equal(after.v.n, 1);
    assert_int_equal(after.v.v[0].state, HW_GLIBC_ARENA_CHANGED);
    assert_int_equal(after.v.v[0].system, 0); /* nobody has mapped that much */
    hw_glibc_arenas_done(&before);
    hw_glibc_arenas_done(&after);
}

/* The main arena's record a second time, in the same ring: its heap would count twice. */
static void a_second_main_arena_is_none(void **state)
{
    struct hw_glibc_arenas before, after;
    uint64_t r[RECORD_WORDS], at = (uint64_t)(uintptr_t)twin;
    (void)state;
    has_threads = true;
    pid_t pid = start();
    read_child(pid, &before);
    uint64_t main_at = before.v.v[0].at;
    hw_autofd int mem = open_memory(pid);
    assert_int_equal(pread(mem, r, sizeof r, (off_t)main_at), sizeof r);
    put(mem, main_at + AT_NEXT * 8, &at, sizeof at);
    for (size_t i = 0; i < 2 * BINS; i++)
        if (r[AT_BINS + i] >= main_at && r[AT_BINS + i] < main_at + sizeof r)
            r[AT_BINS + i] += at - main_at;
    put(mem, at, r, sizeof r);
    read_child(pid, &after);
    end_child(pid);
    assert_int_equal(after.v.n, 0);
    hw_glibc_arenas_done(&before);
    hw_glibc_arenas_done(&after);
}

/* Each arena has a ring of one chunk in a fastbin: chunks or time end it, and neither of them is a change. */
static void rings_are_a_limit_and_no_change(void **state)
{
    struct hw_glibc_arenas before, after;
    (void)state;
    has_threads = true;
    pid_t pid = start();
    read_child(pid, &before);
    hw_autofd int mem = open_memory(pid);
    for (size_t i = 0; i < before.v.n; i++) {
        uint64_t r[RECORD_WORDS], at = before.v.v[i].at, *free_chunk = r + AT_BINS;
        assert_int_equal(pread(mem, r, sizeof r, (off_t)at), sizeof r);
        while (*free_chunk >= at && *free_chunk < at + sizeof r)
            assert_true(++free_chunk < r + AT_BINS + 2 * BINS);
        uint64_t ring[2] = {SMALLEST | 1, *free_chunk ^ (*free_chunk + 16) >> 12};
        put(mem, *free_chunk + 8, ring, sizeof ring);
        put(mem, at + AT_FAST * 8, free_chunk, sizeof *free_chunk);
    }
    read_child(pid, &after);
    end_child(pid);
    assert_int_equal(after.v.n, before.v.n);
    for (size_t i = 0; i < after.v.n; i++)
        assert_int_equal(after.v.v[i].state, HW_GLIBC_ARENA_LIMIT);
    hw_glibc_arenas_done(&before);
    hw_glibc_arenas_done(&after);
}

static void one_arena_is_as_malloc_info_has_it(void **state)
{
    (void)state;
    check(false);
}

static void arenas_of_threads_are_as_malloc_info_has_them(void **state)
{
    (void)state;
    check(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_arena_is_as_malloc_info_has_it),
        cmocka_unit_test(arenas_of_threads_are_as_malloc_info_has_them),
        cmocka_unit_test(a_large_arena_is_known_by_its_lists),
        cmocka_unit_test(a_size_that_cannot_be_ends),
        cmocka_unit_test(a_chunk_over_unmapped_memory_is_no_memory),
        cmocka_unit_test(a_second_main_arena_is_none),
        cmocka_unit_test(rings_are_a_limit_and_no_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
