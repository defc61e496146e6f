#include "base/detached.h"

#include <pthread.h>
#include <signal.h>

#include "base/banned.h"

bool hw_detached_run(void *(*fn)(void *), void *arg, size_t stack_bytes)
{
    pthread_attr_t attr;
    pthread_t t;
    sigset_t all, old;
    sigfillset(&all);
    (void)pthread_attr_init(&attr); /* these cannot fail on Linux */
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (stack_bytes)
        (void)pthread_attr_setstacksize(&attr, stack_bytes);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&t, &attr, fn, arg);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc == 0;
}
