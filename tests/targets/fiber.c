/* fiber.c - coroutines on stacks of their own (from malloc and from mmap), switching while they
 * hold and allocate memory; one thread hands a fiber to another */
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
    if (depth > 0)
        deeper(depth - 1);
    else
        (void)!fn_fiber(56);
    __asm__ volatile("");
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

int main(void)
{
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
    expect(&site_fn_fiber, &site_fn_scheduler, NULL);
    return 0;
}
