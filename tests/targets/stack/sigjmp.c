/* sigjmp.c - leaves signal handlers by siglongjmp, also from an alternate stack, and goes on */
#include <setjmp.h>
#include <signal.h>

#include "target.h"

SITE(fn_before)
SITE(fn_handler)
SITE(fn_after)
static sigjmp_buf back;

static void on_signal(int sig)
{
    (void)!fn_handler(64);
    siglongjmp(back, sig);
}

NOIPA static void nest(int depth)
{
    if (depth == 0)
        raise(SIGUSR1);
    else
        nest(depth - 1);
    __asm__ volatile("");
}

int main(void)
{
    static char alt[65536];
    stack_t ss = {.ss_sp = alt, .ss_size = sizeof alt};
    sigaltstack(&ss, NULL);
    struct sigaction a = {.sa_handler = on_signal};
    volatile int jumps = 0;
    for (volatile int i = 0; i < 400; i++) {
        a.sa_flags = i % 2 ? SA_ONSTACK : 0;
        sigaction(SIGUSR1, &a, NULL);
        (void)!fn_before(16);
        if (sigsetjmp(back, 1) == 0)
            nest(i % 50);
        else
            jumps++;
        void *p = fn_after(32);
        FREE_OF(fn_after, p, 32);
    }
    printf("%d jumps\n", jumps);
    expect(&site_fn_before, &site_fn_handler, &site_fn_after, NULL);
    return 0;
}
