/* threads.c - 200 threads start, allocate and end, twenty at a time; some blocks outlive them */
#include <pthread.h>

#include "target.h"

SITE(fn_thread)
SITE(fn_main)

static void *run(void *arg)
{
    void *p[100];
    for (int i = 0; i < 100; i++)
        p[i] = fn_thread(32 + (size_t)(i % 4) * 16);
    for (int i = 1; i < 100; i++)
        FREE_OF(fn_thread, p[i], 32 + (size_t)(i % 4) * 16);
    (void)arg;
    return p[0];
}

int main(void)
{
    for (int wave = 0; wave < 10; wave++) {
        pthread_t t[20];
        for (int i = 0; i < 20; i++)
            if (pthread_create(&t[i], NULL, run, NULL) != 0)
                return 1;
        for (int i = 0; i < 20; i++) {
            void *p;
            pthread_join(t[i], &p);
            if (i % 2)
                FREE_OF(fn_thread, p, 32);
            (void)!fn_main(10);
        }
    }
    expect(&site_fn_thread, &site_fn_main, NULL);
    return 0;
}
