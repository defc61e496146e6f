/*
 * go_profile_test.c - samples of Go's runtime that this process only pretends to have
 *
 * Its variables are a page of a file: the rate, and the newest bucket. Buckets are on pages without a file.
 */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/heaps/go_profile.h"

enum { RATE = 8, NEWEST = 16, MODULE = 64, WORDS = 512, BUCKETS = 64 * 512, DATA_WORD = 38 };
enum { NEXT = 1, KIND, HASH, SIZE, DEPTH, STACK };
enum { ALLOCATED, FREED, BYTES, BYTES_FREED, COUNTS };

struct fake {
    uint64_t *variables, *buckets;
    size_t used; /* words of buckets */
};

static uint64_t address(const uint64_t *p)
{
    return (uint64_t)(uintptr_t)p;
}

static uint64_t step(uint64_t h, uint64_t v)
{
    h += v;
    h += h << 10;
    return h ^ h >> 6;
}

static uint64_t *counts_of(uint64_t *b)
{
    return b + STACK + b[DEPTH];
}

/* In the list before those that are in it; its stack is pc, pc + 1, ... */
static uint64_t *add_bucket(struct fake *f, uint64_t size, uint64_t depth, uint64_t pc)
{
    uint64_t *b = f->buckets + f->used, h = 0;
    b[NEXT] = f->variables[NEWEST];
    b[KIND] = 1;
    b[SIZE] = size;
    b[DEPTH] = depth;
    for (uint64_t i = 0; i < depth; i++) {
        b[STACK + i] = pc + i;
        h = step(h, pc + i);
    }
    h = step(h, size);
    h += h << 3;
    b[HASH] = h ^ h >> 11;
    f->used += STACK + depth + 4 * COUNTS;
    f->variables[NEWEST] = address(b);
    return b;
}

static void set_counts(uint64_t *b, size_t cycle, uint64_t allocated, uint64_t freed)
{
    uint64_t *c = counts_of(b) + cycle * COUNTS;
    c[ALLOCATED] = allocated;
    c[FREED] = freed;
    c[BYTES] = allocated * b[SIZE];
    c[BYTES_FREED] = freed * b[SIZE];
}

static void *map(int flags, int fd, size_t words)
{
    void *p = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | flags, fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static void begin(struct fake *f)
{
    char path[] = "/tmp/go_profile_test.XXXXXX";
    hw_autofd int fd = mkstemp(path);
    assert_int_equal(unlink(path) | ftruncate(fd, WORDS * 8), 0);
    *f = (struct fake){.variables = map(0, fd, WORDS), .buckets = map(MAP_ANONYMOUS, -1, BUCKETS)};
    f->variables[RATE] = 4096;
    memset(f->buckets, 0, (size_t)BUCKETS * 8);
}

static void end(struct fake *f)
{
    (void)munmap(f->variables, WORDS * 8), (void)munmap(f->buckets, (size_t)BUCKETS * 8);
}

static struct hw_go_profile read_it(const struct fake *f)
{
    struct hw_smaps s;
    struct hw_go_profile p;
    struct hw_go_places at = {.table = 0x401000,
                              .table_bytes = 0x1000,
                              .data_word = DATA_WORD,
                              .rate = address(f->variables + RATE)};
    hw_autofd int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int mem = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = openat(dir, "pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(dir, 0, &s), HW_OK);
    assert_int_equal(hw_go_profile_read(&s, mem, pagemap, &at, &p), HW_OK);
    hw_smaps_done(&s);
    return p;
}

static void is_state(const struct fake *f, enum hw_go_profile_state state)
{
    struct hw_go_profile p = read_it(f);
    assert_int_equal(p.state, state);
    if (state != HW_GO_PROFILE_KNOWN)
        assert_int_equal(p.buckets.n + p.pcs.n, 0);
    hw_go_profile_done(&p);
}

static void buckets_are_those_of_the_list(void **state)
{
    struct fake f;
    (void)state;
    begin(&f);
    set_counts(add_bucket(&f, 100, 3, 0x5000), 0, 7, 2);
    set_counts(add_bucket(&f, 1, 1, 0x6000), 0, 1, 1);
    uint64_t *deep = add_bucket(&f, 65536, 1024, 0x7000);
    set_counts(deep, 0, 5, 0);
    set_counts(deep, 1, 100, 50); /* counts after the next collection */
    struct hw_go_profile p = read_it(&f);
    assert_int_equal(p.state, HW_GO_PROFILE_KNOWN);
    assert_int_equal(p.rate, 4096);
    assert_false(p.is_before_collections);
    assert_int_equal(p.buckets.n, 3);
    assert_int_equal(p.buckets.v[0].allocated, 5);
    assert_int_equal(p.buckets.v[0].n, 1024);
    assert_int_equal(p.pcs.v[p.buckets.v[0].first + 1023], 0x7000 + 1023);
    assert_int_equal(p.buckets.v[1].freed, 1);
    assert_int_equal(p.buckets.v[2].size, 100);
    assert_int_equal(p.buckets.v[2].allocated, 7);
    assert_int_equal(p.buckets.v[2].freed, 2);
    assert_int_equal(p.pcs.v[p.buckets.v[2].first], 0x5000);
    hw_go_profile_done(&p);
    end(&f);
}

static void before_a_collection_all_counts(void **state)
{
    struct fake f;
    (void)state;
    begin(&f);
    uint64_t *b = add_bucket(&f, 16, 2, 0x5000);
    set_counts(b, 1, 3, 0);
    set_counts(b, 3, 4, 1);
    struct hw_go_profile p = read_it(&f);
    assert_true(p.is_before_collections);
    assert_int_equal(p.buckets.v[0].allocated, 7);
    assert_int_equal(p.buckets.v[0].freed, 1);
    hw_go_profile_done(&p);
    end(&f);
}

static void a_rate_of_nothing_is_off(void **state)
{
    struct fake f;
    (void)state;
    begin(&f);
    set_counts(add_bucket(&f, 16, 2, 0x5000), 0, 1, 0);
    f.variables[RATE] = 0;
    is_state(&f, HW_GO_PROFILE_OFF);
    f.variables[RATE] = UINT64_MAX;
    is_state(&f, HW_GO_PROFILE_OFF);
    f.variables[RATE] = 1;
    is_state(&f, HW_GO_PROFILE_KNOWN);
    f.variables[NEWEST] = 0; /* no sample yet */
    is_state(&f, HW_GO_PROFILE_KNOWN);
    end(&f);
}

/* Each lie ends with no figures, in bounded time. */
static void lies_are_not_believed(void **state)
{
    struct fake f;
    (void)state;
    begin(&f);
    uint64_t *old = add_bucket(&f, 32, 2, 0x5000), *new = add_bucket(&f, 64, 2, 0x6000);
    set_counts(old, 0, 4, 1);
    set_counts(new, 0, 4, 1);
    is_state(&f, HW_GO_PROFILE_KNOWN);
    const struct {
        uint64_t *word, value;
        enum hw_go_profile_state state;
    } lies[] = {
        {&old[NEXT], address(new), HW_GO_PROFILE_LIMIT}, /* a ring */
        {&old[NEXT], address(old), HW_GO_PROFILE_LIMIT},
        {&old[NEXT], 8, HW_GO_PROFILE_CHANGED}, /* nothing is there */
        {&old[NEXT], address(old) + 4, HW_GO_PROFILE_CHANGED},
        {&old[HASH], 1, HW_GO_PROFILE_CHANGED},
        {&old[DEPTH], UINT64_MAX / 4, HW_GO_PROFILE_CHANGED},
        {&old[SIZE], 0, HW_GO_PROFILE_CHANGED},
        {&old[KIND], 2, HW_GO_PROFILE_CHANGED},
        {&old[STACK], 1, HW_GO_PROFILE_CHANGED},
        {counts_of(old) + FREED, 5, HW_GO_PROFILE_CHANGED},
        {counts_of(old) + ALLOCATED, UINT64_MAX, HW_GO_PROFILE_CHANGED},
        {counts_of(old) + BYTES, 129, HW_GO_PROFILE_CHANGED},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        uint64_t before = *lies[i].word;
        *lies[i].word = lies[i].value;
        is_state(&f, lies[i].state);
        *lies[i].word = before;
    }
    is_state(&f, HW_GO_PROFILE_KNOWN);
    end(&f);
}

/* What samples stand for cannot be more than addresses are, nor more than can be counted. */
static void no_more_than_memory(void **state)
{
    struct fake f;
    (void)state;
    begin(&f);
    f.variables[RATE] = 524288;
    uint64_t *small = add_bucket(&f, 1, 2, 0x5000),
             *large = add_bucket(&f, UINT64_C(1) << 40, 2, 0x6000);
    set_counts(small, 0, UINT64_C(1) << 57, UINT64_C(1) << 57);
    is_state(&f, HW_GO_PROFILE_CHANGED);
    set_counts(small, 0, UINT64_C(1) << 37, UINT64_C(1) << 37);
    is_state(&f, HW_GO_PROFILE_KNOWN);
    set_counts(small, 0, UINT64_C(1) << 37, 0);
    is_state(&f, HW_GO_PROFILE_CHANGED);
    set_counts(small, 0, UINT64_C(1) << 27, 0);
    set_counts(large, 0, 63, 0);
    is_state(&f, HW_GO_PROFILE_KNOWN);
    set_counts(large, 0, 64, 0); /* one is enough, both are too many */
    is_state(&f, HW_GO_PROFILE_CHANGED);
    end(&f);
}

static void the_module_says_where_code_is(void **state)
{
    struct fake f;
    (void)state;
    begin(&f);
    uint64_t *m = f.variables + MODULE;
    m[0] = 0x401000;
    m[1] = 0x401048;
    m[22] = 0x400000;
    m[23] = 0x400800;
    m[DATA_WORD - 1] = 0x500000;
    m[DATA_WORD] = 0x500100;
    struct hw_go_profile p = read_it(&f);
    assert_int_equal(p.text, 0x400000);
    assert_int_equal(p.data, 0x500100);
    m[1] = 0x402048; /* beyond the table */
    p = read_it(&f);
    assert_int_equal(p.text | p.data, 0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_those_of_the_list),
        cmocka_unit_test(before_a_collection_all_counts),
        cmocka_unit_test(a_rate_of_nothing_is_off),
        cmocka_unit_test(lies_are_not_believed),
        cmocka_unit_test(no_more_than_memory),
        cmocka_unit_test(the_module_says_where_code_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
