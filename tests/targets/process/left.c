/*
 * left.c - a handler leaves a call of malloc by siglongjmp, then another thread allocates
 *
 * Only a call that takes 40 ms. The other thread's calls take no time by themselves; the program
 * ends with 1 if each waited.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#include "target.h"

#define BLOCK 300000
#define CALLS 200

SITE(fn_left)
SITE(fn_other)
static sigjmp_buf back;

static void on_alarm(int sig)
{
    siglongjmp(back, sig);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *other(void *unused)
{
    (void)unused;
    for (int i = 0; i < CALLS; i++)
        FREE_OF(fn_other, fn_other(BLOCK), BLOCK);
    return NULL;
}

int main(void)
{
    struct sigaction a = {.sa_handler = on_alarm};
    struct itimerval soon = {.it_value = {0, 40000}}, none = {{0, 0}, {0, 0}};
    pthread_t t;
    sigaction(SIGALRM, &a, NULL);
    if (sigsetjmp(back, 1) == 0) {
        setitimer(ITIMER_REAL, &soon, NULL);
        FREE_OF(fn_left, fn_left(BLOCK), BLOCK);
    }
    setitimer(ITIMER_REAL, &none, NULL);
    double began = seconds();
    if (pthread_create(&t, NULL, other, NULL) != 0)
        return 1;
    pthread_join(t, NULL);
    expect(&site_fn_other, NULL);
    return seconds() - began > CALLS * 0.1; /* each waits 200 ms if they do */
}
