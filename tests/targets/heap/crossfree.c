/* crossfree.c - two threads allocate, two others free what those allocated */
#include <pthread.h>
#include <sched.h>

#include "target.h"

enum { PAIRS = 2, N = 50000, SLOTS = 256 };
SITE(fn_producer)
static struct {
    _Atomic(void *) slot[SLOTS];
} ring[PAIRS];

static void *produce(void *arg)
{
    intptr_t r = (intptr_t)arg;
    for (int i = 0; i < N; i++) {
        void *p = fn_producer(40), *empty;
        do {
            empty = NULL;
            if (ring[r].slot[i % SLOTS])
                sched_yield();
        } while (!atomic_compare_exchange_weak(&ring[r].slot[i % SLOTS], &empty, p));
    }
    return NULL;
}

static void *consume(void *arg)
{
    intptr_t r = (intptr_t)arg;
    for (int i = 0; i < N - 100; i++) { /* the last hundred stay */
        void *p;
        while (!(p = atomic_exchange(&ring[r].slot[i % SLOTS], NULL)))
            sched_yield();
        FREE_OF(fn_producer, p, 40);
    }
    return NULL;
}

int main(void)
{
    pthread_t t[2 * PAIRS];
    for (intptr_t i = 0; i < PAIRS; i++) {
        pthread_create(&t[2 * i], NULL, produce, (void *)i);
        pthread_create(&t[2 * i + 1], NULL, consume, (void *)i);
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        pthread_join(t[i], NULL);
    expect(&site_fn_producer, NULL);
    return 0;
}
