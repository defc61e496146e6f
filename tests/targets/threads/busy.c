/* busy THREADS - threads that do nothing but allocate, check what they have and compute with vector
 * registers, with a signal every millisecond and a thread in epoll_wait without time-out handling.
 * Ends with stdin: "ok" when nothing was ever wrong, else what. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include "target.h"

static _Atomic int over;
static _Atomic long wrong, rounds, signals;

static void on_alarm(int s)
{
    (void)s;
    signals++;
}

NOIPA static double vectors(double x)
{
    double v[8], sum = 0;
    for (int i = 0; i < 8; i++)
        v[i] = x * (i + 1);
    for (int i = 0; i < 8; i++)
        sum += v[i];
    return sum;
}

static void *allocate(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    struct {
        unsigned char *p;
        size_t n;
    } held[64] = {{0}};
    while (!over) {
        seed = seed * 1664525u + 1013904223u;
        unsigned i = seed >> 26;
        size_t n = 1 + (seed >> 8) % (seed & 15 ? 400 : 40000);
        unsigned char mark = (unsigned char)((uintptr_t)arg + i);
        if (held[i].p && (held[i].p[0] != mark || held[i].p[held[i].n - 1] != mark))
            wrong++;
        if (seed & 0x40) {
            held[i].p = realloc(held[i].p, n);
        } else {
            free(held[i].p);
            held[i].p = seed & 0x80 ? calloc(1, n) : malloc(n);
        }
        held[i].n = n;
        held[i].p[0] = held[i].p[n - 1] = mark;
        if (vectors(i) != 36.0 * i)
            wrong++;
        rounds++;
    }
    for (int i = 0; i < 64; i++)
        free(held[i].p);
    return NULL;
}

/* Signals go to the others, so nothing but an attach could end this one early. */
static void *wait_for_nothing(void *arg)
{
    struct epoll_event e;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    int *fd = arg;
    while (!over)
        if (epoll_wait(*fd, &e, 1, 50) != 0)
            wrong++;
    close(*fd);
    return NULL;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t t[16], waiter;
    struct sigaction a = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &a, NULL);
    struct itimerval each = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &each, NULL);
    int epoll =
        n > 0 ? epoll_create1(EPOLL_CLOEXEC) : -1; /* before who counts them is told "ready" */
    if (n > 0)
        pthread_create(&waiter, NULL, wait_for_nothing, &epoll);
    for (int i = 0; i < n && i < 16; i++)
        pthread_create(&t[i], NULL, allocate, (void *)(uintptr_t)(i + 1));
    printf("ready\n");
    fflush(stdout);
    struct pollfd in = {0, POLLIN, 0};
    while (n > 0 && poll(&in, 1, -1) < 0)
        ;                                                               /* EINTR */
    while (n == 0 && (++rounds % 65536 != 0 || poll(&in, 1, 0) <= 0)) { /* alone, in malloc */
        void *volatile p = malloc(64);
        free(p);
    }
    over = 1;
    for (int i = 0; i < n && i < 16; i++)
        pthread_join(t[i], NULL);
    if (n > 0)
        pthread_join(waiter, NULL);
    printf(wrong || signals == 0 ? "wrong %ld of %ld, %ld signals\n" : "ok\n", (long)wrong,
           (long)rounds, (long)signals);
    return wrong != 0;
}
