/* keys.c - key destructors of ending threads free what the thread held, and allocate once more */
#include <pthread.h>

#include "target.h"

SITE(fn_held)
SITE(fn_late)
SITE(fn_round)
static pthread_key_t keys[8], last;

static void destroy(void *p)
{
    FREE_OF(fn_held, p, 500);
    void *late = fn_late(60);
    FREE_OF(fn_late, late, 60);
}

/* Runs in each of libc's four rounds: the last ones are behind whatever a guest keeps in keys. */
static void again(void *p)
{
    pthread_setspecific(last, p);
    (void)!fn_round(70);
}

static void *run(void *arg)
{
    for (int i = 0; i < 8; i++)
        pthread_setspecific(keys[i], fn_held(500));
    pthread_setspecific(last, &last);
    return arg;
}

int main(void)
{
    for (int i = 0; i < 8; i++)
        pthread_key_create(&keys[i], destroy);
    pthread_key_create(&last, again);
    for (int i = 0; i < 50; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, run, NULL) != 0)
            return 1;
        pthread_join(t, NULL);
    }
    expect(&site_fn_held, &site_fn_late, &site_fn_round, NULL);
    return 0;
}
