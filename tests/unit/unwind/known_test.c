/*
 * Stacks that were walked before (hw_walk_known), on the live stack: each time it knows one, a walk without any cache
 * must give the same. Compiled without frame pointers, so that their register has data.
 */
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#include "base/memory/map64.h"
#include "process_tables.h"
#include "unwind/walk.h"

static struct process_tables tables;
static struct hw_walk_cache *cache;
static uint64_t stack_end;
static unsigned n, n_known;
static uint64_t rng = 7;

static uint64_t next_random(void)
{
    rng = hw_hash_mix(rng, 1);
    return rng >> 33;
}

static __attribute__((noinline)) void sample(void)
{
    static struct hw_walk_out out, bare;
    const uint64_t *frame = __builtin_frame_address(0);
    struct hw_walk_in in = {
        .tables = tables.dir,
        .snapshot = process_tables_snapshot(&tables),
        .regs = {.pc = frame[1], .sp = (uint64_t)(uintptr_t)(frame + 2), .fp = frame[0]},
        .hi = stack_end,
        .max_frames = HW_MAX_FRAMES};
    bool known = hw_walk_known(in.snapshot, &in.regs, in.hi, cache, &out);
    if (!known)
        hw_walk(&in, cache, &out);
    hw_walk(&in, NULL, &bare);
    assert_int_equal(out.n_frames, bare.n_frames);
    assert_int_equal(out.stop, HW_STOP_END);
    assert_int_equal(out.stop, bare.stop);
    assert_int_equal(out.generation, bare.generation);
    assert_int_equal(out.stack_id, bare.stack_id);
    n_known += known;
    n++;
}

/* The same pc and sp from several callers. Six values are kept: one is in the frame pointer's register. */
static __attribute__((noinline)) uint64_t wrapper(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t data = next_random(), more = next_random(), most = next_random();
    sample();
    return data * a + b * more + c * most;
}

#define CALLER(k)                                                                                  \
    static __attribute__((noinline)) uint64_t caller##k(uint64_t a)                                \
    {                                                                                              \
        uint64_t x = next_random(), y = next_random(), z = a + (k);                                \
        return wrapper(x, y, z) * x + (y ^ z) + (k);                                               \
    }
CALLER(0)
CALLER(1)
CALLER(2)
CALLER(3)

/* Frames that only the frame pointer finds: pc and sp are the same, their places are not. The wrapper saves the
 * register. */
static __attribute__((noinline)) uint64_t bent(unsigned bytes, bool directly)
{
    volatile char *p = __builtin_alloca(bytes);
    p[0] = 1;
    if (directly)
        sample();
    else
        (void)wrapper(bytes, 2, 3);
    return (uint64_t)p[0];
}

/* What the other one left may still be where the frame was last time. */
#define BEND(k)                                                                                    \
    static __attribute__((noinline)) uint64_t bend##k(unsigned bytes)                              \
    {                                                                                              \
        volatile char *p = __builtin_alloca(bytes);                                                \
        p[0] = 1;                                                                                  \
        return bent(512 - bytes, next_random() % 2) + (uint64_t)p[0] + (k);                        \
    }
BEND(0)
BEND(1)

static __attribute__((noinline)) uint64_t deep(unsigned d, uint64_t way)
{
    volatile char pad[64];
    pad[way % 64] = 1;
    if (d == 0)
        return wrapper(way, 1, 2);
    uint64_t r = deep(d - 1, way / 2);
    return way % 2 ? r + deep(d - 1, way / 2 + 1) : r + (uint64_t)pad[0];
}

static void begin(void)
{
    hw_walk_cache_reset(cache);
    n = n_known = 0;
}

static void data_decides_nothing(void **state)
{
    static uint64_t (*const callers[])(uint64_t) = {caller0, caller1, caller2, caller3};
    (void)state;
    begin();
    for (unsigned i = 0; i < 2000; i++)
        (void)callers[next_random() % 4](i);
    print_message("%u of %u known\n", n_known, n);
    assert_true(n_known > 500); /* nearly all, unless two of them have one place */
}

static void what_decides_is_compared(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < 4000; i++)
        (void)(next_random() % 2 ? bend0 : bend1)(16 * (1 + (unsigned)next_random() % 3));
    print_message("%u of %u known\n", n_known, n);
    assert_true(n_known > 100);
}

/* More than there is room for, and deeper than an entry has words. */
static void many_stacks(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < 3000; i++)
        (void)deep((unsigned)next_random() % 100 / (i % 7 + 1), next_random() % 64);
    print_message("%u of %u known\n", n_known, n);
    assert_true(n_known > 0);
}

static int setup(void **state)
{
    bool changed;
    int mark;
    (void)state;
    cache = calloc(1, hw_walk_cache_bytes());
    if (!cache || process_tables_open(&tables, getpid()) < 0 ||
        process_tables_refresh(&tables, &changed) < 0)
        return -1;
    stack_end = process_tables_mapping_end(&tables, (uint64_t)(uintptr_t)&mark);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    process_tables_done(&tables);
    free(cache);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_decides_nothing),
        cmocka_unit_test(what_decides_is_compared),
        cmocka_unit_test(many_stacks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
