/*
 * arm64_walk.c - the walker on its own stack, compiled for arm64 and run under emulation
 *
 * Linked statically at fixed addresses, so its own table (argv[1]) has bias 0. Walks are compared
 * with the chain of frame records, cached ones with bare ones, and a thread stopped in a leaf
 * function (return address still in the link register) with what is known of it.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "stop_name.h"
#include "unwind/regs.h"
#include "unwind/walk.h"

extern char __executable_start[], etext[];

static struct world {
    struct hw_tables_dir dir;
    _Alignas(8) char table[4 << 20];
    struct {
        struct hw_module_snapshot s;
        struct hw_module m;
    } snap;
} world;

static struct hw_walk_cache *cache;
static uint64_t stack_end;
static unsigned long n_walks, n_adopted, n_frames;

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("line %d: %s\n", __LINE__, #cond);                                              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static struct hw_walk_in input(uint64_t pc, uint64_t sp, uint64_t fp)
{
    return (struct hw_walk_in){.tables = &world,
                               .snapshot = &world.snap.s,
                               .regs = {.pc = pc, .sp = sp, .fp = fp},
                               .hi = stack_end,
                               .max_frames = HW_MAX_FRAMES};
}

static void must_equal(const struct hw_walk_out *a, const struct hw_walk_out *b)
{
    CHECK(a->n_frames == b->n_frames && a->stop == b->stop && a->stack_id == b->stack_id);
    CHECK(memcmp(a->pcs, b->pcs, a->n_frames * sizeof *a->pcs) == 0);
}

static __attribute__((noinline)) void sample(void)
{
    static struct hw_walk_out a, b;
    const uint64_t *record = __builtin_frame_address(0); /* {caller's fp, return address} */
    uint64_t sp, pc;
    __asm__ volatile("mov %0, sp\n\tadr %1, ." : "=r"(sp), "=r"(pc));
    struct hw_walk_in in = input(pc, sp, (uint64_t)(uintptr_t)record);
    hw_walk(&in, cache, &a);
    hw_walk(&in, NULL, &b);
    must_equal(&a, &b);
    if (!hw_stop_is_complete(a.stop))
        printf("%s at %#lx, frame %u\n", stop_name(a.stop), (long)a.stop_pc, a.n_frames);
    CHECK(hw_stop_is_complete(a.stop));
    uint32_t i = 1;
    for (const uint64_t *r = record; r && r[1] && i < a.n_frames;
         r = (const uint64_t *)(uintptr_t)r[0], i++)
        CHECK(a.pcs[i] == hw_regs_strip(r[1]));
    CHECK(i == a.n_frames || i + 1 == a.n_frames); /* _start makes no record */
    CHECK(i >= 4);
    n_walks++;
    n_frames += a.n_frames;
    n_adopted += a.n_adopted;
}

static __attribute__((noinline)) int go(int d)
{
    volatile char room[64 + 100 * ((unsigned)d % 3)];
    room[0] = (char)d;
    if (d <= 0) {
        sample();
        return room[0];
    }
    int r = go(d - 1 - (int)(random() % 3));
    if (random() % 16 == 0)
        r += go(d - 2);
    return r + room[0];
}

static int compare(const void *a, const void *b)
{
    sample();
    return *(const int *)a - *(const int *)b;
}

/* ---- stopped in a leaf ---- */

__asm__(".text\n.type leaf, %function\nleaf:\n.cfi_startproc\nudf #0\nret\n.cfi_endproc\n"
        ".size leaf, . - leaf\n");
void leaf(void);
static volatile sig_atomic_t n_stopped;

static void on_ill(int sig, siginfo_t *si, void *arg)
{
    (void)sig;
    static struct hw_walk_out a, b;
    ucontext_t *uc = arg;
    struct hw_walk_in in = input(uc->uc_mcontext.pc, uc->uc_mcontext.sp, uc->uc_mcontext.regs[29]);
    in.regs.lr = uc->uc_mcontext.regs[30];
    in.first_is_exact = true;
    hw_walk(&in, cache, &a);
    hw_walk(&in, NULL, &b);
    must_equal(&a, &b);
    CHECK(hw_stop_is_complete(a.stop));
    CHECK(a.pcs[0] == (uint64_t)(uintptr_t)leaf && (a.exact[0] & 1));
    CHECK(a.pcs[1] == in.regs.lr);
    const uint64_t *record = (const uint64_t *)(uintptr_t)in.regs.fp;
    CHECK(a.pcs[2] == hw_regs_strip(record[1]));

    /* What the SIGNAL rule counts on: siginfo, then the context. */
    CHECK((const char *)uc - (const char *)si == 128);
    n_stopped++;
    uc->uc_mcontext.pc += 4;
}

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    CHECK(f);
    size_t n = fread(world.table, 1, sizeof world.table, f);
    (void)fclose(f);
    CHECK(hw_table_check(world.table, n) == 0);
    world.snap.s.n_modules = 1;
    world.snap.m = (struct hw_module){.lo = (uint64_t)(uintptr_t)__executable_start,
                                      .hi = (uint64_t)(uintptr_t)etext,
                                      .table_off = offsetof(struct world, table)};
    cache = calloc(1, hw_walk_cache_bytes());
    CHECK(cache);
    stack_end = ((uint64_t)(uintptr_t)argv & ~0xfffull) + 0x1000;
    for (int i = 0; i < 400; i++)
        (void)go((int)(random() % 40));
    int v[20];
    for (int i = 0; i < 20; i++)
        v[i] = (int)(random() % 100);
    qsort(v, 20, sizeof *v, compare);

    struct sigaction sa = {.sa_sigaction = on_ill, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGILL, &sa, NULL) == 0);
    leaf();
    leaf();
    CHECK(n_stopped == 2);
    printf("arm64: %lu walks, %lu frames, %lu adopted\n", n_walks, n_frames, n_adopted);
    return 0;
}
