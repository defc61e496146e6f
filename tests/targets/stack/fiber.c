/* fiber.c - coroutines on stacks of their own (from malloc and from mmap), switching while they
 * hold and allocate memory; one thread hands a fiber to another; pages deep, by swapcontext and by
 * a few instructions of the program's own, with nothing mapped above */
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "target.h"

enum { FIBERS = 8, STACK = 131072, ROUNDS = 200 };
SITE(fn_fiber)
SITE(fn_scheduler)
static ucontext_t scheduler, fiber[FIBERS];

NOIPA static void deeper(int depth)
{
    volatile char frame[700];
    frame[0] = 1;
    if (depth > 0)
        deeper(depth - 1);
    else
        (void)!fn_fiber(56);
    frame[699] = frame[0];
}

static void body(int id)
{
    for (;;) {
        void *p = fn_fiber(100);
        deeper(id * 5);
        swapcontext(&fiber[id], &scheduler);
        FREE_OF(fn_fiber, p, 100);
    }
}

static void *rounds(void *arg)
{
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < FIBERS; i++) {
            (void)!fn_scheduler(8);
            swapcontext(&scheduler, &fiber[i]);
        }
    return arg;
}

#if defined(__x86_64__)
SITE(fn_own)
static void *own_sp, *own_back;
__attribute__((naked, noinline)) static void own_switch(void **from, void *to)
{
    (void)from, (void)to;
    __asm__("push %rbp\n\tpush %rbx\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
            "mov %rsp, (%rdi)\n\tmov %rsi, %rsp\n\t"
            "pop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbx\n\tpop %rbp\n\tret");
}

NOIPA static void own_deeper(int depth)
{
    volatile char frame[900];
    frame[0] = 1;
    if (depth > 0)
        own_deeper(depth - 1);
    else
        (void)!fn_own(24);
    frame[899] = frame[0];
}

NOIPA static void own_body(void)
{
    for (int i = 0;; i++) {
        own_deeper(i % 40);
        own_switch(&own_sp, own_back);
    }
}

/* The stack ends right below an unmapped page, as far as it was used. */
static void own_fiber(void)
{
    char *low =
        mmap(NULL, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (low == MAP_FAILED || munmap(low + STACK, 4096) != 0)
        exit(1);
    void **top = (void **)(void *)(low + STACK);
    *--top = NULL; /* own_body's return address: nobody */
    *--top = (void *)own_body;
    own_sp = top - 6;
    for (int i = 0; i < 200; i++)
        own_switch(&own_back, own_sp);
}
#else
SITE(fn_own)
static void own_fiber(void)
{
    (void)!fn_own(24);
}
#endif

int main(void)
{
    own_fiber();
    for (int i = 0; i < FIBERS; i++) {
        void *stack =
            i % 2 ? malloc(STACK)
                  : mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (!stack || stack == MAP_FAILED)
            return 1;
        getcontext(&fiber[i]);
        fiber[i].uc_stack.ss_sp = stack;
        fiber[i].uc_stack.ss_size = STACK;
        makecontext(&fiber[i], (void (*)(void))body, 1, i);
    }
    rounds(NULL);
    pthread_t t; /* the same fibers go on under another thread */
    if (pthread_create(&t, NULL, rounds, NULL) != 0)
        return 1;
    pthread_join(t, NULL);
    expect(&site_fn_fiber, &site_fn_scheduler, &site_fn_own, NULL);
    return 0;
}
