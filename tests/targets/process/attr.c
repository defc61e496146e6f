/* attr.c - pthread_getattr_np as a thread's first act: it allocates while it holds the thread's
 * lock */
#include <pthread.h>

#include "target.h"

SITE(fn_thread)

static void *run(void *arg)
{
    pthread_attr_t at;
    void *base;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &at) != 0)
        abort();
    pthread_attr_getstack(&at, &base, &size);
    pthread_attr_destroy(&at);
    for (int i = 0; i < 10; i++)
        (void)!fn_thread(44);
    return size > 0 ? arg : NULL;
}

int main(void)
{
    int good = 0;
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        void *r;
        if (pthread_create(&t, NULL, run, &good) != 0)
            return 1;
        pthread_join(t, &r);
        good += r != NULL;
    }
    printf("%d threads knew their stack\n", good);
    expect(&site_fn_thread, NULL);
    return 0;
}
