/*
 * walk.c - what a walk costs
 *
 * Usage: walk
 *
 * hot:      the same stack again and again, everything in the first-level cache
 *   full    over a copy, so that nothing is taken from the previous sample
 *   adopted the live stack, all frames but the last taken from the previous sample
 * in situ:  a program that goes up and down its call tree at random and touches 256 KiB of memory
 *           between two samples, so that rules and frames come from the second-level cache
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process_tables.h"
#include "unwind/walk.h"

enum {
    HOT_BLOCKS = 500,
    HOT_ROUNDS = 50,
    SITU_SAMPLES = 4000,
    TOUCHED = 256 << 10,
    MAX_COPY = 1 << 20
};

static struct process_tables tables;
static struct hw_walk_cache *cache;
static struct hw_walk_out out;
static uint64_t stack_end;
static uint8_t *touched, *copy;
static volatile uint64_t sink;

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What the hook does: its return address, its CFA, its caller's fp. */
static __attribute__((always_inline)) inline struct hw_walk_in here(void)
{
    const uint64_t *frame = __builtin_frame_address(0);
    return (struct hw_walk_in){
        .tables = tables.dir,
        .snapshot = process_tables_snapshot(&tables),
        .regs = {.pc = frame[1], .sp = (uint64_t)(uintptr_t)(frame + 2), .fp = frame[0]},
        .hi = stack_end,
        .max_frames = HW_MAX_FRAMES};
}

enum what { HOT, SITU_MATCH };

struct plan {
    enum what what;
    int depth;
    uint64_t ns, ns_full; /* hot: picoseconds of a walk */
    uint64_t n, frames, adopted, samples[SITU_SAMPLES];
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Picoseconds of a walk: the median of many short blocks, as other programs run here too. */
static uint64_t hot_ps(const struct hw_walk_in *in)
{
    static uint64_t block[HOT_BLOCKS];
    for (int b = 0; b < HOT_BLOCKS; b++) {
        uint64_t t0 = now_ns();
        for (int i = 0; i < HOT_ROUNDS; i++)
            hw_walk(in, cache, &out);
        block[b] = (now_ns() - t0) * 1000 / HOT_ROUNDS;
    }
    qsort(block, HOT_BLOCKS, sizeof *block, by_value);
    return block[HOT_BLOCKS / 2];
}

static __attribute__((noinline)) void leaf_hot(struct plan *p)
{
    struct hw_walk_in in = here();
    struct hw_walk_in over_copy = in;
    size_t n = (size_t)(in.hi - in.regs.sp);
    n = n < MAX_COPY ? n : MAX_COPY;
    memcpy(copy, (void *)(uintptr_t)in.regs.sp, n);
    over_copy.hi = in.regs.sp + n;
    over_copy.delta = (uint64_t)(uintptr_t)copy - in.regs.sp;
    hw_walk(&in, cache, &out);
    p->ns_full = hot_ps(&over_copy);
    p->ns = hot_ps(&in);
    p->frames = out.n_frames;
    p->adopted = out.n_adopted;
}

static __attribute__((noinline)) void leaf_situ(struct plan *p)
{
    if (p->n == SITU_SAMPLES)
        return;
    struct hw_walk_in in = here();
    for (int i = 0; i < TOUCHED; i += 64)
        sink += touched[i]++;
    uint64_t t0 = now_ns();
    hw_walk(&in, cache, &out);
    p->samples[p->n++] = now_ns() - t0;
    p->frames += out.n_frames;
    p->adopted += out.n_adopted;
}

/* Frames of several shapes, each a place of its own in the code. */
#define SHAPE(name, bytes) static __attribute__((noinline)) void name(struct plan *p, int d);
#define SHAPES(X)          X(s0, 8) X(s1, 40) X(s2, 72) X(s3, 136) X(s4, 264) X(s5, 24) X(s6, 56) X(s7, 500)
SHAPES(SHAPE)
#undef SHAPE

static __attribute__((noinline)) void down(struct plan *p, int d)
{
    static void (*const to[])(struct plan *, int) = {s0, s1, s2, s3, s4, s5, s6, s7};
    if (d <= 0) {
        if (p->what == HOT)
            leaf_hot(p);
        else
            leaf_situ(p);
        return;
    }
    /* Deep in the stack calls vary, near the root they rarely do: as programs do. */
    unsigned r = (unsigned)random();
    to[p->what == HOT || d > 8 ? (unsigned)d % 8 : r % 8](p, d);
    if (p->what != HOT && (d <= 3 || r % 16 == 0))
        to[r / 8 % 8](p, d);
}

#define SHAPE(name, bytes)                                                                         \
    static void name(struct plan *p, int d)                                                        \
    {                                                                                              \
        volatile char pad[bytes];                                                                  \
        pad[0] = (char)d;                                                                          \
        down(p, d - 2);                                                                            \
        sink += (uint64_t)pad[0];                                                                  \
    }
SHAPES(SHAPE)

/* The clock's own cost is in every in-situ sample. */
static uint64_t clock_ns(void)
{
    uint64_t v[1001];
    for (int i = 0; i < 1001; i++) {
        uint64_t t0 = now_ns();
        v[i] = now_ns() - t0;
    }
    qsort(v, 1001, sizeof *v, by_value);
    return v[500];
}

int main(void)
{
    bool changed;
    cache = calloc(1, hw_walk_cache_bytes());
    touched = calloc(1, TOUCHED);
    copy = malloc(MAX_COPY);
    struct plan *p = calloc(1, sizeof *p);
    int mark;
    if (!cache || !touched || !copy || !p || process_tables_open(&tables, getpid()) < 0 ||
        process_tables_refresh(&tables, &changed) < 0)
        return 1;
    stack_end = process_tables_mapping_end(&tables, (uint64_t)(uintptr_t)&mark);
    uint64_t clock = clock_ns();
    static const int depths[] = {10, 30, 60, 120};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        *p = (struct plan){.what = HOT, .depth = depths[i]};
        hw_walk_cache_reset(cache);
        down(p, depths[i] - 6);
        printf("hot     depth %3" PRIu64 "  full %6.1f ns (%.2f a frame)   adopted %6.1f ns "
               "(%.2f a frame, %" PRIu64 " adopted)\n",
               p->frames, (double)p->ns_full / 1e3, (double)p->ns_full / 1e3 / (double)p->frames,
               (double)p->ns / 1e3, (double)p->ns / 1e3 / (double)p->frames, p->adopted);
    }
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        *p = (struct plan){.what = SITU_MATCH, .depth = depths[i]};
        hw_walk_cache_reset(cache);
        while (p->n < SITU_SAMPLES)
            down(p, depths[i] - 6);
        qsort(p->samples, p->n, sizeof *p->samples, by_value);
        printf("in situ depth %5.1f  median %4" PRIu64 " ns  p90 %4" PRIu64
               " ns  %4.1f %% adopted\n",
               (double)p->frames / (double)p->n, p->samples[p->n / 2] - clock,
               p->samples[p->n * 9 / 10] - clock, 100.0 * (double)p->adopted / (double)p->frames);
    }
    return 0;
}
