/*
 * arenas - threads whose arenas or caches keep what they have freed
 *
 *   arenas bursts FILE    eight threads, one after the other, allocate 8 MiB and free all but the last block
 *   arenas caches FILE    sixty-four threads, one after the other, free as many blocks as their caches take
 *
 * Writes malloc_info() to FILE when nothing changes any more, then "ready"; waits for the end of its input.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BURSTS = 8, CACHES = 64, BLOCKS = 8192, BYTES = 1000, CLASSES = 64, CACHED = 7 };

static pthread_barrier_t all_there, turn, done;
static void *kept[BURSTS];

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

static __attribute__((noipa)) void burst(void **blocks, size_t who)
{
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = memset(must(malloc(BYTES)), 1, BYTES);
    for (size_t i = 0; i + 1 < BLOCKS; i++)
        free(blocks[i]);
    kept[who] = blocks[BLOCKS - 1];
}

static __attribute__((noipa)) void fill_cache(void)
{
    void *all[CLASSES][CACHED];
    for (size_t c = 0; c < CLASSES; c++)
        for (size_t i = 0; i < CACHED; i++)
            all[c][i] = memset(must(malloc(24 + c * 16)), 1, 24 + c * 16);
    for (size_t c = 0; c < CLASSES; c++)
        for (size_t i = 0; i < CACHED; i++)
            free(all[c][i]);
}

static void *run_burst(void *arg)
{
    static void *blocks[BLOCKS];
    size_t who = (size_t)arg;
    free(must(malloc(1))); /* now it has its arena */
    (void)pthread_barrier_wait(&all_there);
    for (size_t i = 0; i < BURSTS; i++) {
        if (i == who)
            burst(blocks, who);
        (void)pthread_barrier_wait(&turn);
    }
    (void)pthread_barrier_wait(&done);
    (void)pause();
    return NULL;
}

static void *run_caches(void *arg)
{
    free(must(malloc(1)));
    for (size_t i = 0; i < CACHES; i++) {
        (void)pthread_barrier_wait(&turn);
        if (i == (size_t)arg)
            fill_cache();
    }
    (void)pthread_barrier_wait(&done);
    (void)pause();
    return arg;
}

int main(int argc, char **argv)
{
    static char buffer[1 << 16];
    pthread_t t;
    if (argc != 3)
        return 2;
    int bursts = strcmp(argv[1], "bursts") == 0;
    size_t n = bursts ? BURSTS : CACHES;
    FILE *f = fopen(argv[2], "w");
    if (!f || setvbuf(f, buffer, _IOFBF, sizeof buffer) != 0)
        abort();
    (void)pthread_barrier_init(&all_there, NULL, (unsigned)n);
    (void)pthread_barrier_init(&turn, NULL, (unsigned)n);
    (void)pthread_barrier_init(&done, NULL, (unsigned)n + 1);
    for (size_t i = 0; i < n; i++)
        if (pthread_create(&t, NULL, bursts ? run_burst : run_caches, (void *)i) != 0)
            abort();
    (void)pthread_barrier_wait(&done);
    (void)malloc_info(0, f);
    (void)fflush(f); /* not closed: that would free */
    (void)write(1, "ready\n", 6);
    while (read(0, buffer, 1) > 0)
        ;
    _exit(0);
}
