/* sigalloc.c - signal handlers that allocate: on the thread's stack and on an alternate one */
#include <pthread.h>
#include <signal.h>

#include "target.h"

SITE(fn_main)
SITE(fn_handler)
SITE(fn_alt)
static void *last;

static void on_usr1(int sig)
{
    (void)sig;
    void *p = fn_handler(120);
    FREE_OF(fn_handler, p, 120);
    last = fn_handler(40);
}

static void on_usr2(int sig)
{
    (void)sig;
    last = fn_alt(72);
    if (site_fn_alt.objs % 2)
        FREE_OF(fn_alt, last, 72);
}

static void *run(void *arg)
{
    (void)arg;
    stack_t ss = {.ss_sp = malloc(65536), .ss_size = 65536};
    if (!ss.ss_sp || sigaltstack(&ss, NULL) < 0)
        abort();
    for (int i = 0; i < 500; i++) {
        (void)!fn_main(30);
        raise(SIGUSR1); /* synchronous: never inside malloc, where a handler may not allocate */
        raise(SIGUSR2);
    }
    ss.ss_flags = SS_DISABLE;
    sigaltstack(&ss, NULL);
    return NULL;
}

int main(void)
{
    struct sigaction a = {.sa_handler = on_usr1},
                     b = {.sa_handler = on_usr2, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &a, NULL);
    sigaction(SIGUSR2, &b, NULL);
    pthread_t t;
    run(NULL);
    pthread_create(&t, NULL, run, NULL);
    pthread_join(t, NULL);
    expect(&site_fn_main, &site_fn_handler, &site_fn_alt, NULL);
    return 0;
}
