/* saturate.c [THREADS [N]] - threads that do nothing but allocate and free: the ring is full at
 * once */
#include <pthread.h>

#include "target.h"

SITE(fn_thread)
static long n = 200000;

static void *run(void *arg)
{
    for (long i = 0; i < n; i++) {
        void *p = fn_thread(24);
        if (i % 100)
            FREE_OF(fn_thread, p, 24);
    }
    return arg;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 4;
    if (argc > 2)
        n = strtol(argv[2], NULL, 10);
    pthread_t t[64];
    for (int i = 0; i < threads && i < 64; i++)
        if (pthread_create(&t[i], NULL, run, NULL) != 0)
            return 1;
    for (int i = 0; i < threads && i < 64; i++)
        pthread_join(t[i], NULL);
    expect(&site_fn_thread, NULL);
    return 0;
}
