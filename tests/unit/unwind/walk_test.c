/*
 * The walker on its own live stack: incremental, cached and bare walks give the same frames and
 * ids, libgcc's unwinder (backtrace) gives the same pcs; limits, signals and edges of the stack.
 */
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#include "base/memory/map64.h"
#include "process_tables.h"
#include "unwind/walk.h"

enum { MAX_COPY = 1 << 20 };

static struct process_tables tables;
static struct hw_walk_cache *live, *over_copy;
static uint64_t stack_end;
static uint8_t *copy;

static struct walks {
    struct hw_walk_out matched, copied, bare;
    unsigned long n, n_adopted, n_frames;
} w;

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

static void same_walk(const struct hw_walk_out *a, const struct hw_walk_out *b)
{
    assert_int_equal(a->n_frames, b->n_frames);
    assert_int_equal(a->stop, b->stop);
    assert_memory_equal(a->pcs, b->pcs, a->n_frames * sizeof *a->pcs);
    assert_memory_equal(a->exact, b->exact, sizeof a->exact);
    assert_int_equal(a->stack_id, b->stack_id);
    assert_int_not_equal(a->stack_id, 0);
}

/* ours[0] is the return address of the function whose backtrace begins with its own pc. */
static void same_as_backtrace(const struct hw_walk_out *ours, void *const *bt, int n)
{
#ifdef __SANITIZE_ADDRESS__
    bt++; /* the sanitizer's own backtrace() is on the stack as well */
    n--;
#endif
    assert_int_equal(ours->n_frames, n - 1);
    for (int i = 1; i < n; i++)
        assert_int_equal(ours->pcs[i - 1], (uint64_t)(uintptr_t)bt[i]);
}

/* As it is, redzones of an instrumented build included; volatile, or it becomes memcpy again. */
static __attribute__((no_sanitize("address"), noinline)) void
copy_stack(void *dest, const volatile uint8_t *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)dest)[i] = from[i];
}

static __attribute__((noinline)) void sample(void)
{
    void *bt[HW_MAX_FRAMES];
    struct hw_walk_in in = here();
    hw_walk(&in, live, &w.matched);
    int n_bt = backtrace(bt, HW_MAX_FRAMES);
    hw_walk(&in, NULL, &w.bare);
    size_t n = (size_t)(in.hi - in.regs.sp);
    n = n < MAX_COPY ? n : MAX_COPY;
    copy_stack(copy, (const void *)(uintptr_t)in.regs.sp, n);
    in.hi = in.regs.sp + n;
    in.delta = (uint64_t)(uintptr_t)copy - in.regs.sp;
    hw_walk(&in, over_copy, &w.copied);
    same_walk(&w.matched, &w.bare);
    same_walk(&w.matched, &w.copied);
    assert_true(hw_stop_is_complete(w.matched.stop));
    same_as_backtrace(&w.matched, bt, n_bt);
    w.n++;
    w.n_adopted += w.matched.n_adopted;
    w.n_frames += w.matched.n_frames;
}

/* ---- stacks that change at random ---- */

static uint64_t rng = 7;

static unsigned next_random(void)
{
    rng = hw_hash_mix(rng, 1);
    return (unsigned)(rng >> 33);
}

#define SHAPE(name, bytes) static __attribute__((noinline)) void name(int d);
#define SHAPES(X)          X(shape0, 8) X(shape1, 40) X(shape2, 136) X(shape3, 500)
SHAPES(SHAPE)
#undef SHAPE

static __attribute__((noinline)) void any(int d)
{
    static void (*const to[])(int) = {shape0, shape1, shape2, shape3};
    if (d <= 0) {
        sample();
        if (next_random() % 2)
            sample();
        return;
    }
    unsigned n = d <= 4 || next_random() % 8 == 0 ? 2 : 1;
    for (unsigned i = 0; i < n && w.n < 3000; i++)
        to[next_random() % 4](d - (int)(next_random() % 3));
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

#define SHAPE(name, bytes)                                                                         \
    static void name(int d)                                                                        \
    {                                                                                              \
        volatile char pad[(bytes) + 1];                                                            \
        pad[next_random() % (bytes)] = (char)d;                                                    \
        any(d - 1);                                                                                \
        (void)pad[0];                                                                              \
    }
SHAPES(SHAPE)
#undef SHAPE

/* A variable array and an over-aligned local make frames with other rules. */
static __attribute__((noinline)) int compare_and_sample(const void *a, const void *b)
{
    _Alignas(64) volatile char wide[64];
    wide[0] = 1;
    if (w.n < 6000)
        sample();
    return *(const int *)a - *(const int *)b + (wide[0] - 1);
}

static void all_ways_agree(void **state)
{
    (void)state;
    while (w.n < 3000)
        any((int)(next_random() % 60));
    assert_true(w.n_adopted * 2 > w.n_frames);
    for (int k = 0; k < 20; k++) {
        int v[16];
        for (int i = 0; i < 16; i++)
            v[i] = (int)next_random() % 1000;
        qsort(v, 16, sizeof *v, compare_and_sample); /* through libc */
    }
    print_message("%lu samples, %lu of %lu frames adopted\n", w.n, w.n_adopted, w.n_frames);
}

/* ---- limits ---- */

static __attribute__((noinline)) void deep(int d)
{
    if (d) {
        deep(d - 1);
        __asm__ volatile("" ::: "memory");
        return;
    }
    struct hw_walk_in in = here();
    static struct hw_walk_out full, cut, again;
    hw_walk(&in, live, &full);
    in.max_frames = 5;
    hw_walk(&in, live, &cut);
    assert_int_equal(cut.n_frames, 5);
    assert_int_equal(cut.stop, HW_STOP_LIMIT);
    assert_memory_equal(cut.pcs, full.pcs, 5 * sizeof *cut.pcs);
    hw_walk(&in, NULL, &again);
    same_walk(&cut, &again);
    in.max_frames = HW_MAX_FRAMES; /* the cache holds five frames; the stack goes on */
    hw_walk(&in, live, &again);
    same_walk(&full, &again);
    hw_walk(&in, live, &again);
    same_walk(&full, &again);
}

static void limits_cut_and_recover(void **state)
{
    (void)state;
    deep(3);
    deep(40);
    deep((int)HW_MAX_FRAMES * 2);
    deep(40);
}

static __attribute__((noinline)) void at_edges(int d)
{
    if (d) {
        at_edges(d - 1);
        __asm__ volatile("" ::: "memory");
        return;
    }
    /* The copied stack ends at a guard page; every length must be survived. */
    struct hw_walk_in in = here();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *m = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    assert_int_equal(mprotect(m + page, page, PROT_NONE), 0);
    static struct hw_walk_out full, out;
    hw_walk(&in, NULL, &full);
    for (size_t n = 0; n <= page; n++) {
        copy_stack(m + page - n, (const void *)(uintptr_t)in.regs.sp, n);
        in.hi = in.regs.sp + n;
        in.delta = (uint64_t)(uintptr_t)(m + page - n) - in.regs.sp;
        hw_walk(&in, over_copy, &out);
        assert_true(out.n_frames >= 1 && out.n_frames <= full.n_frames);
        assert_memory_equal(out.pcs, full.pcs, out.n_frames * sizeof *out.pcs);
        if (!hw_stop_is_complete(out.stop))
            assert_int_equal(out.stop, HW_STOP_BOUNDS);
    }
    in.hi = in.regs.sp - 8;
    hw_walk(&in, over_copy, &out);
    assert_int_equal(out.n_frames, 1);
    assert_int_equal(out.stop, HW_STOP_BOUNDS);
    in.hi = in.regs.sp + 64;
    in.regs.sp++;
    hw_walk(&in, over_copy, &out);
    assert_int_equal(out.stop, HW_STOP_BAD_CFA);
    assert_int_equal(munmap(m, 2 * page), 0);
}

static void short_stacks_are_survived(void **state)
{
    (void)state;
    at_edges(30);
}

/* ---- signals ---- */

static struct hw_walk_out in_handler;
static void *handler_bt[HW_MAX_FRAMES];
static int n_handler_bt;
static struct hw_walk_range main_stack;

static __attribute__((noinline)) void handler_sample(void)
{
    struct hw_walk_in in = here();
    if (in.regs.sp < main_stack.lo || in.regs.sp >= main_stack.hi)
        in.hi = process_tables_mapping_end(&tables, in.regs.sp);
    in.others[0] = main_stack;
    in.n_others = 1;
    hw_walk(&in, live, &in_handler);
    n_handler_bt = backtrace(handler_bt, HW_MAX_FRAMES);
}

static void on_signal(int sig)
{
    (void)sig;
    handler_sample();
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void raise_deep(int d)
{
    if (d) {
        raise_deep(d - 1);
        __asm__ volatile("" ::: "memory");
        return;
    }
    (void)raise(SIGUSR1);
}

static void check_signal_stack(void)
{
    raise_deep(10);
    assert_true(hw_stop_is_complete(in_handler.stop));
    same_as_backtrace(&in_handler, handler_bt, n_handler_bt);
    uint64_t exact = 0;
    for (size_t i = 0; i < HW_MAX_FRAMES / 64; i++)
        exact |= in_handler.exact[i];
    assert_int_equal(exact, 1 << 2); /* handler, trampoline, interrupted instruction */
}

static void signal_frames_are_stepped(void **state)
{
    (void)state;
    bool changed;
    struct sigaction sa = {.sa_handler = on_signal};
    assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
    check_signal_stack();
    check_signal_stack();

    size_t n = 1 << 20;
    void *alt = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(alt != MAP_FAILED);
    stack_t ss = {.ss_sp = alt, .ss_size = n};
    assert_int_equal(sigaltstack(&ss, NULL), 0);
    sa.sa_flags = SA_ONSTACK;
    assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
    assert_int_equal(process_tables_refresh(&tables, &changed), 0);
    check_signal_stack();
    sample();
    check_signal_stack();
    ss.ss_flags = SS_DISABLE;
    assert_int_equal(sigaltstack(&ss, NULL), 0);
}

/* ---- modules that are missing ---- */

static unsigned n_asked;

static bool is_new(void *arg, uint64_t pc)
{
    (void)pc;
    n_asked++;
    return *(bool *)arg;
}

static __attribute__((noinline)) void with_modules(struct hw_module_snapshot *s)
{
    struct hw_walk_in in = here();
    static struct hw_walk_out full, out;
    hw_walk(&in, NULL, &full);
    in.snapshot = NULL;
    hw_walk(&in, live, &out);
    assert_int_equal(out.stop, HW_STOP_PENDING);
    assert_int_equal(out.n_frames, 1);

    in.snapshot = s; /* nothing known: all code looks generated, unless somebody knows better */
    bool answer = true;
    in.is_new_module = is_new;
    in.is_new_module_arg = &answer;
    hw_walk(&in, live, &out);
    assert_int_equal(out.stop, HW_STOP_NO_MODULE);
    assert_int_equal(out.stop_pc, full.pcs[0]);
    assert_true(hw_stop_wants_copy(out.stop));
    answer = false;
    hw_walk(&in, live, &out);
    assert_true(out.n_by_fp > 0);
    unsigned before = n_asked;
    hw_walk(&in, live, &out);
    assert_int_equal(n_asked, before); /* the answer is kept */

    in.snapshot = process_tables_snapshot(&tables); /* and forgotten with the snapshot */
    hw_walk(&in, live, &out);
    assert_true(hw_stop_is_complete(out.stop));
    assert_memory_equal(out.pcs, full.pcs, full.n_frames * sizeof *full.pcs);
}

static void missing_modules_are_told(void **state)
{
    (void)state;
    struct hw_module_snapshot *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->generation = process_tables_snapshot(&tables)->generation;
    with_modules(s);
    with_modules(s);
    free(s);
}

static int setup(void **state)
{
    (void)state;
    bool changed;
    void *warm[4];
    (void)backtrace(warm, 4); /* loads libgcc before the modules are listed */
    int mark;
    live = calloc(1, hw_walk_cache_bytes());
    over_copy = calloc(1, hw_walk_cache_bytes());
    copy = malloc(MAX_COPY);
    if (!live || !over_copy || !copy || process_tables_open(&tables, getpid()) < 0 ||
        process_tables_refresh(&tables, &changed) < 0)
        return -1;
    stack_end = process_tables_mapping_end(&tables, (uint64_t)(uintptr_t)&mark);
    main_stack = (struct hw_walk_range){stack_end - (8u << 20), stack_end};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    process_tables_done(&tables);
    free(live);
    free(over_copy);
    free(copy);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ways_agree), cmocka_unit_test(limits_cut_and_recover),
        cmocka_unit_test(short_stacks_are_survived), cmocka_unit_test(signal_frames_are_stepped),
        cmocka_unit_test(missing_modules_are_told)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
