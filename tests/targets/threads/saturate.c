/*
 * saturate.c [THREADS [N]] - threads that do nothing but allocate and free: the ring is full at
 * once
 *
 * N = 0: until SIGTERM; how much that was is not printed.
 */
#include <pthread.h>
#include <signal.h>

#include "target.h"

SITE(fn_thread)
static long n = 200000;
static _Atomic int stop;

static void on_term(int sig)
{
    (void)sig;
    stop = 1;
}

static void *run(void *arg)
{
    for (long i = 0; n ? i < n : !stop; i++) {
        void *p = fn_thread(24);
        if (!n || i % 100)
            FREE_OF(fn_thread, p, 24);
    }
    return arg;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 4;
    if (argc > 2)
        n = strtol(argv[2], NULL, 10);
    signal(SIGTERM, on_term);
    pthread_t t[64];
    for (int i = 0; i < threads && i < 64; i++)
        if (pthread_create(&t[i], NULL, run, NULL) != 0)
            return 1;
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(t[i], NULL);
    if (n)
        expect(&site_fn_thread, NULL);
    else
        printf("stopped\n");
    return 0;
}
