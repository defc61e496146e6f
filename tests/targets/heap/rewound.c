/*
 * rewound.c - a wild pointer keeps writing over one word of shared memory: how far the ring was read
 *
 * It is never the same value, so that it looks as if somebody went on reading. Threads allocate
 * meanwhile, and the longest that one allocation took is measured. Without a ring nothing is
 * written. Through the kernel, as in scribble.c.
 *
 * rewound: says "held" if an allocation did not end before the writing did, after 20 s at the
 * latest.
 */
#include <pthread.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

#define READ_POS 128u /* wire/ring.h */
#define MOST_S   20

SITE(fn_busy)
static _Atomic int stop;

static void *run(void *arg)
{
    _Atomic int *done = arg;
    for (int i = 0; i < 200000; i++)
        FREE_OF(fn_busy, fn_busy(24), 24);
    *done = 1;
    return NULL;
}

static char *find_ring(void)
{
    char line[512], *at = NULL;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && !at && fgets(line, sizeof line, f)) {
        unsigned long lo;
        if (strstr(line, "/memfd:heapwise-ring") && sscanf(line, "%lx", &lo) == 1)
            at = (char *)lo;
    }
    if (f)
        fclose(f);
    return at;
}

static void *write_over(void *at)
{
    for (uint64_t v = 1; !stop; v = v * 6364136223846793005u + 1442695040888963407u) {
        struct iovec from = {&v, sizeof v}, to = {(char *)at + READ_POS, sizeof v};
        (void)!process_vm_writev(getpid(), &from, 1, &to, 1, 0);
    }
    return NULL;
}

int main(void)
{
    static _Atomic int done[2];
    pthread_t t[2], writer;
    FREE_OF(fn_busy, fn_busy(24), 24);
    char *ring = find_ring();
    if (ring)
        pthread_create(&writer, NULL, write_over, ring);
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, run, &done[i]);
    time_t until = time(NULL) + MOST_S;
    while (!(done[0] && done[1]) && time(NULL) < until)
        usleep(1000);
    printf("%s\n", done[0] && done[1] ? "free" : "held");
    fflush(stdout);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    if (ring)
        pthread_join(writer, NULL);
    return 0;
}
