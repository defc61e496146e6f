/*
 * scribble.c - a wild pointer writes over whatever shared memory it can write to, ring included
 *
 * Threads allocate meanwhile. The program ends as it would anyhow; the recorder must survive.
 * Writes go through the kernel: a ring that is found damaged is unmapped while we write, and the
 * fault would be that of this program's pointers.
 */
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include "target.h"

SITE(fn_thread)
static _Atomic int stop;

static void *run(void *arg)
{
    for (int i = 0; i < 50000 || !stop; i++)
        FREE_OF(fn_thread, fn_thread(24), 24);
    return arg;
}

static uint64_t rnd(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

int main(void)
{
    struct {
        char *lo, *hi;
    } ranges[64];
    int n = 0;
    char line[512];
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, run, NULL);
    usleep(50000);
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && n < 64 && fgets(line, sizeof line, f)) {
        unsigned long lo, hi;
        char perm[8];
        if (strstr(line, "/memfd:") && sscanf(line, "%lx-%lx %7s", &lo, &hi, perm) == 3 &&
            perm[1] == 'w' && perm[3] == 's') {
            ranges[n].lo = (char *)lo;
            ranges[n++].hi = (char *)hi;
        }
    }
    if (f)
        fclose(f);
    for (int k = 0; n && k < 200000; k++) {
        int r = (int)(rnd() % (unsigned)n);
        size_t size = (size_t)(ranges[r].hi - ranges[r].lo);
        size_t at = k % 4 ? rnd() % size : rnd() % 4096 % size; /* the first page holds positions */
        uint64_t v = rnd();
        struct iovec from = {&v, sizeof v}, to = {ranges[r].lo + (at & ~(size_t)7), sizeof v};
        (void)!process_vm_writev(getpid(), &from, 1, &to, 1, 0);
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    puts("scribbled");
    return 0;
}
