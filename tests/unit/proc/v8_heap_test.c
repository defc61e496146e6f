/*
 * v8_heap_test.c - V8's spaces: as Node.js itself has them, and of a heap that this process only pretends to have
 */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/heaps/v8_heap.h"

/* Objects of each space but few; then it tells, and stands still. */
static const char program[] =
    "const v8 = require('v8'), fs = require('fs'), { Worker, isMainThread } = "
    "require('worker_threads');"
    "const keep = [];"
    "for (let i = 0; i < 100000; i++) keep.push({ a: i, s: 'x' + i });"
    "keep.push(new Array(300000).fill(1.5));"
    "const outside = Buffer.alloc(20 << 20, 1);"
    "gc(); gc();"
    "for (let i = 0; i < 20000; i++) keep.push([i]);"
    "const stop = new Int32Array(new SharedArrayBuffer(4));"
    "const all = {};"
    "for (const s of v8.getHeapSpaceStatistics()) all[s.space_name] = s;"
    "const of = (s) => all[s] ? all[s].space_size + ' ' + all[s].space_used_size : '0 0';"
    "fs.writeSync(1, [process.versions.v8.split('.').slice(0, 2).join(' '),"
    "  of('new_space'), of('old_space'), of('code_space'), of('map_space'), of('shared_space'),"
    "  of('trusted_space'), of('new_large_object_space'), of('large_object_space')].join(' ') + "
    "'\\n');"
    "Atomics.wait(stop, 0, 0);";

static const enum hw_v8_space_name told[] = {HW_V8_NEW,       HW_V8_OLD,    HW_V8_CODE,
                                             HW_V8_MAP,       HW_V8_SHARED, HW_V8_TRUSTED,
                                             HW_V8_NEW_LARGE, HW_V8_LARGE};
enum { TOLD = sizeof told / sizeof *told, SLACK = 65536, CHUNK = 262144 };

static struct hw_v8_heap read_process(pid_t pid, uint32_t major, uint32_t minor)
{
    char path[64];
    struct hw_smaps s;
    struct hw_v8_heap h;
    (void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
    hw_autofd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int mem = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = openat(dir, "pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(dir, 0, &s), HW_OK);
    assert_int_equal(hw_v8_heap_read(&s, mem, pagemap, major, minor, &h), HW_OK);
    hw_smaps_done(&s);
    return h;
}

static bool is_near(uint64_t a, uint64_t b)
{
    return a <= b + SLACK && b <= a + SLACK;
}

/* To tell takes some memory. What is left of a block for the next objects, up to a chunk, V8 leaves out. */
static void check(const struct hw_v8_heap *h, const char *said)
{
    for (size_t i = 0; i < TOLD; i++) {
        const struct hw_v8_space *s = &h->spaces[told[i]];
        char *end;
        uint64_t size = strtoull(said, &end, 10), used = strtoull(end, &end, 10);
        said = end;
        print_message("%zu: %zu of %zu, %zu in memory; it says %zu of %zu\n", i, (size_t)s->used,
                      (size_t)s->committed, (size_t)s->resident, (size_t)used, (size_t)size);
        assert_int_equal(s->committed, size);
        assert_true(told[i] == HW_V8_NEW ? is_near(s->used, used)
                    : told[i] >= HW_V8_NEW_LARGE
                        ? s->used == used
                        : s->used + SLACK >= used && s->used <= used + CHUNK + SLACK);
        assert_true(s->resident <= s->committed);
        assert_true(s->has_used == (size > 0));
    }
}

static void a_program_is_as_it_says(void **state)
{
    char said[512];
    int out[2];
    size_t n = 0;
    (void)state;
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], 1);
        (void)execlp("node", "node", "--expose-gc", "--single-threaded-gc", "-e", program,
                     (char *)NULL);
        _exit(127);
    }
    (void)close(out[1]);
    for (ssize_t got = 1; got > 0 && (n == 0 || said[n - 1] != '\n') && n + 1 < sizeof said;
         n += (size_t)got)
        got = read(out[0], said + n, sizeof said - 1 - n);
    said[n] = '\0';
    if (n == 0) {
        (void)waitpid(pid, NULL, 0);
        print_message("no Node.js\n");
        skip();
    }
    char *end;
    uint32_t major = (uint32_t)strtoul(said, &end, 10), minor = (uint32_t)strtoul(end, &end, 10);
    struct hw_v8_heap h = read_process(pid, major, minor),
                      other = read_process(pid, major + 90, minor);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    (void)close(out[0]);
    assert_int_equal(other.state, HW_V8_HEAP_VERSION);
    if (h.state == HW_V8_HEAP_VERSION) {
        print_message("V8 %u.%u is not known\n", major, minor);
        skip();
    }
    assert_int_equal(h.state, HW_V8_HEAP_KNOWN);
    check(&h, end);
    assert_true(h.spaces[HW_V8_READ_ONLY].committed > 0);
}

/* ---- a heap of four chunks: three young ones, one old ---- */

enum { PAGE = 4096, N_CHUNKS = 4, BEGIN = 256, LINK = 33, SUMS = 17, YOUNG = 1, OLD = 2 };

static uint8_t *area; /* aligned; N_CHUNKS, then a record of the isolate */
static uint64_t *isolate;

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static uint64_t *chunk(size_t i)
{
    return (uint64_t *)(void *)(area + i * CHUNK);
}

static uint64_t *space(size_t i)
{
    return isolate + 512 + i * 64;
}

static void put_chunk(size_t i, size_t of, uint64_t allocated)
{
    uint64_t *w = chunk(i), at = address(w);
    memset(w, 0, PAGE);
    w[0] = w[11] = CHUNK;
    w[2] = address(isolate + 256);
    w[3] = at + BEGIN;
    w[4] = at + CHUNK;
    w[5] = allocated;
    w[8] = address(space(of));
    w[10] = at;
    space(of)[1] = w[2];
    space(of)[3] += CHUNK;
}

static void put_heap(void)
{
    memset(isolate, 0, (size_t)2 * PAGE);
    for (size_t i = 0; i < 3; i++)
        put_chunk(i, 0, CHUNK - BEGIN);
    put_chunk(3, 1, 6000); /* more than the sum: it was not swept */
    space(0)[2] = YOUNG;
    space(1)[2] = OLD;
    space(1)[SUMS] = space(1)[SUMS + 1] = CHUNK - BEGIN;
    space(1)[SUMS + 2] = 5000;
    chunk(2)[LINK] = address(chunk(0)); /* 2, 0, 1 */
    chunk(0)[LINK] = address(chunk(1));
    chunk(0)[LINK + 1] = address(chunk(2));
    chunk(1)[LINK + 1] = address(chunk(0));
    isolate[100] = address(chunk(0)) + BEGIN;
    isolate[101] = isolate[100] + 1000;
    isolate[102] = address(chunk(0)) + CHUNK;
}

static int make(void **state)
{
    uint8_t *p = mmap(NULL, (size_t)(N_CHUNKS + 2) * CHUNK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    if (p == MAP_FAILED)
        return -1;
    area = p + (CHUNK - address(p) % CHUNK) % CHUNK;
    isolate = chunk(N_CHUNKS) + CHUNK / 2 / 8;
    return 0;
}

static struct hw_v8_heap read_own(void)
{
    return read_process(getpid(), 11, 3);
}

static void what_is_young_ends_where_the_next_object_goes(void **state)
{
    (void)state;
    put_heap();
    struct hw_v8_heap h = read_own();
    assert_int_equal(h.state, HW_V8_HEAP_KNOWN);
    assert_int_equal(h.spaces[HW_V8_NEW].committed, 3 * CHUNK);
    assert_int_equal(h.spaces[HW_V8_NEW].used, CHUNK - BEGIN + 1000); /* a whole one before it */
    assert_int_equal(h.spaces[HW_V8_OLD].used, 5000);
    assert_int_equal(h.spaces[HW_V8_OLD].committed, CHUNK);
    assert_int_equal(h.spaces[HW_V8_OLD].resident, PAGE);
    assert_int_equal(h.spaces[HW_V8_CODE].committed, 0);
}

static void what_is_young_is_not_guessed(void **state)
{
    (void)state;
    put_heap();
    memcpy(isolate + 110, isolate + 100, 24); /* two places */
    assert_false(read_own().spaces[HW_V8_NEW].has_used);
    put_heap();
    isolate[101] = isolate[102] + 8;
    assert_false(read_own().spaces[HW_V8_NEW].has_used);
    put_heap();
    chunk(1)[LINK] = address(chunk(2)); /* rings */
    chunk(2)[LINK + 1] = address(chunk(1));
    struct hw_v8_heap h = read_own();
    assert_int_equal(h.state, HW_V8_HEAP_KNOWN);
    assert_false(h.spaces[HW_V8_NEW].has_used);
}

/* What is no chunk is none of the heap. */
static void assert_only_young(void)
{
    struct hw_v8_heap h = read_own();
    assert_int_equal(h.state, HW_V8_HEAP_KNOWN);
    assert_int_equal(h.spaces[HW_V8_OLD].committed, 0);
    assert_int_equal(h.spaces[HW_V8_NEW].committed, 3 * CHUNK);
}

static void a_liar_is_not_believed(void **state)
{
    (void)state;
    put_heap();
    space(1)[3] *= 2; /* more than its chunks */
    assert_int_equal(read_own().state, HW_V8_HEAP_CHANGED);
    put_heap();
    space(1)[SUMS] = space(1)[SUMS + 1] = CHUNK; /* likewise */
    assert_int_equal(read_own().state, HW_V8_HEAP_CHANGED);
    put_heap();
    space(1)[2] = 200; /* no such space */
    assert_int_equal(read_own().state, HW_V8_HEAP_CHANGED);
    put_heap();
    space(1)[1] += 8; /* another heap's */
    assert_int_equal(read_own().state, HW_V8_HEAP_CHANGED);
    put_heap();
    chunk(3)[5] = CHUNK; /* more than fits */
    assert_only_young();
    put_heap();
    chunk(3)[0] = chunk(3)[11] = space(1)[3] = UINT64_C(1) << 40; /* nothing is mapped there */
    assert_only_young();
    put_heap();
    chunk(3)[0] = chunk(3)[11] = space(1)[3] = PAGE; /* shorter than what is in it */
    assert_only_young();
}

/* Where memory ends, no address is behind it. */
static void a_heap_at_the_end_of_memory_ends(void **state)
{
    (void)state;
    put_heap();
    for (size_t i = 0; i < N_CHUNKS; i++)
        chunk(i)[2] = UINT64_MAX;
    space(0)[1] = space(1)[1] = UINT64_MAX;
    struct hw_v8_heap h = read_own();
    assert_int_equal(h.state, HW_V8_HEAP_KNOWN);
    assert_false(h.spaces[HW_V8_NEW].has_used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_is_as_it_says),
        cmocka_unit_test(what_is_young_ends_where_the_next_object_goes),
        cmocka_unit_test(what_is_young_is_not_guessed),
        cmocka_unit_test(a_liar_is_not_believed),
        cmocka_unit_test(a_heap_at_the_end_of_memory_ends),
    };
    return cmocka_run_group_tests(tests, make, NULL);
}
