/* inlibc.c - threads whose every allocation is asked for by libc, deep on their stacks */
#include <pthread.h>

#include "target.h"

static struct site site_strdup = {.name = "__GI___strdup"};

NOIPA static void deeper(int depth)
{
    volatile char frame[800];
    frame[0] = 1;
    if (depth > 0)
        deeper(depth - 1);
    else
        (void)site_add(&site_strdup, strdup("seven.."), 8);
    frame[799] = frame[0];
}

static void *fn_thread(void *arg)
{
    for (int i = 0; i < 100; i++)
        deeper(i % 30);
    return arg;
}

int main(void)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&t[i], NULL, fn_thread, NULL) != 0)
            return 1;
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    expect(&site_strdup, NULL);
    return 0;
}
