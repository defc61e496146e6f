/*
 * timed.c - what capturing a stack costs inside a program
 *
 * Linked into a second build of the client library with --wrap=hw_walk and hw_walk_known: each walk of a sampled
 * allocation is put between two reads of the time stamp counter, fenced so that nothing around it
 * overlaps with it, less what the two reads cost alone. A destructor prints
 *
 *     walk: N samples, MEAN ns mean, MEDIAN ns median, FRAMES frames a stack, ADOPTED of them
 * adopted
 *
 * The client is otherwise the product's: same code, same caches, same program around it.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "unwind/walk.h"

#define BUCKET_TICKS 16u
#define BUCKETS      4096u

void __real_hw_walk(const struct hw_walk_in *in, struct hw_walk_cache *c, struct hw_walk_out *out);
void __wrap_hw_walk(const struct hw_walk_in *in, struct hw_walk_cache *c, struct hw_walk_out *out);
bool __real_hw_walk_known(const struct hw_module_snapshot *snapshot,
                          const struct hw_walk_regs *regs, uint64_t hi, struct hw_walk_cache *c,
                          struct hw_walk_out *out);
bool __wrap_hw_walk_known(const struct hw_module_snapshot *snapshot,
                          const struct hw_walk_regs *regs, uint64_t hi, struct hw_walk_cache *c,
                          struct hw_walk_out *out);

static struct {
    uint64_t n, ticks, frames, adopted, interrupted;
    uint64_t start_ticks, start_ns, reads; /* reads: of two reads alone */
    uint64_t before;                       /* asking whether the stack is known, before the walk */
    uint32_t histogram[BUCKETS];
} sum; /* of one thread: a figure, not a count that must be right */

static uint64_t begin(void)
{
    _mm_lfence();
    uint64_t t = __rdtsc();
    _mm_lfence();
    return t;
}

static uint64_t end(void)
{
    unsigned cpu;
    uint64_t t = __rdtscp(&cpu);
    _mm_lfence();
    return t;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void count(uint64_t ticks, const struct hw_walk_out *out)
{
    ticks = ticks > sum.reads ? ticks - sum.reads : 0;
    ticks += sum.before;
    sum.before = 0;
    if (ticks >= (uint64_t)BUCKET_TICKS * BUCKETS) {
        sum.interrupted++;
        return;
    }
    sum.n++;
    sum.ticks += ticks;
    sum.frames += out->n_frames;
    sum.adopted += out->n_adopted;
    sum.histogram[ticks / BUCKET_TICKS]++;
}

void __wrap_hw_walk(const struct hw_walk_in *in, struct hw_walk_cache *c, struct hw_walk_out *out)
{
    uint64_t t0 = begin();
    __real_hw_walk(in, c, out);
    count(end() - t0, out);
}

bool __wrap_hw_walk_known(const struct hw_module_snapshot *snapshot,
                          const struct hw_walk_regs *regs, uint64_t hi, struct hw_walk_cache *c,
                          struct hw_walk_out *out)
{
    uint64_t t0 = begin();
    bool known = __real_hw_walk_known(snapshot, regs, hi, c, out);
    uint64_t ticks = end() - t0;
    if (known)
        count(ticks, out);
    else
        sum.before += ticks > sum.reads ? ticks - sum.reads : 0;
    return known;
}
__attribute__((constructor)) static void calibrate(void)
{
    sum.reads = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t t0 = begin();
        uint64_t ticks = end() - t0;
        if (ticks < sum.reads)
            sum.reads = ticks;
    }
    sum.start_ns = now_ns();
    sum.start_ticks = __rdtsc();
}

__attribute__((destructor)) static void report(void)
{
    double ns_a_tick = (double)(now_ns() - sum.start_ns) / (double)(__rdtsc() - sum.start_ticks);
    uint64_t below = 0;
    uint32_t median = 0;
    while (median < BUCKETS - 1 && (below += sum.histogram[median]) * 2 < sum.n)
        median++;
    double n = sum.n ? (double)sum.n : 1;
    char text[200];
    int len =
        snprintf(text, sizeof text,
                 "walk: %llu samples, %.1f ns mean, %.1f ns median, %.1f frames a stack, %.1f "
                 "of them adopted, %llu interrupted\n",
                 (unsigned long long)sum.n, (double)sum.ticks / n * ns_a_tick,
                 (median + 0.5) * BUCKET_TICKS * ns_a_tick, (double)sum.frames / n,
                 (double)sum.adopted / n, (unsigned long long)sum.interrupted);
    if (write(STDERR_FILENO, text, (size_t)len) < 0)
        return; /* nobody reads it */
}
