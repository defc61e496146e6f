/* deep.c - recursion through 64 MiB of stack, allocating on the way down and at the bottom */
#include <pthread.h>

#include "target.h"

SITE(fn_way)
SITE(fn_bottom)
enum { DEPTH = 64 * 1024 }; /* frames of a bit more than 1 KiB */

NOIPA static long down(int depth)
{
    volatile char pad[1000];
    pad[0] = (char)depth;
    if (depth % 1000 == 0)
        (void)!fn_way(24);
    if (depth == 0) {
        for (int i = 0; i < 100; i++)
            (void)!fn_bottom(80);
        return pad[0];
    }
    return down(depth - 1) + pad[0];
}

static void *run(void *arg)
{
    long *sum = arg;
    *sum = down(DEPTH);
    return NULL;
}

int main(void)
{
    pthread_attr_t at;
    pthread_t t;
    long sum = 0;
    pthread_attr_init(&at);
    pthread_attr_setstacksize(&at, 96u << 20);
    if (pthread_create(&t, &at, run, &sum) != 0)
        return 1;
    pthread_join(t, NULL);
    printf("sum %ld\n", sum);
    expect(&site_fn_way, &site_fn_bottom, NULL);
    return 0;
}
