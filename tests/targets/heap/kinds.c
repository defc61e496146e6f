/*
 * kinds - memory of many kinds, each of a known size: what an account of it has to find
 *
 * "KIND name bytes" a line: resident bytes of it, "ready", then it waits for the end of its input.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { BLOCKS = 20000, BLOCK = 1000, THREADS = 4, IN_THREAD = 2000 };

static void *blocks[BLOCKS], *theirs[THREADS * IN_THREAD];
static pthread_barrier_t ready;
static char big_bss[3 << 20];

static void kind(const char *name, size_t bytes)
{
    printf("KIND %s %zu\n", name, bytes);
}

static __attribute__((noipa)) void touch(volatile char *p, size_t n)
{
    for (size_t i = 0; i < n; i += 4096)
        p[i] = 1;
}

/* An arena of its own, a stack of a mebibyte. */
static void *thread(void *arg)
{
    char stack[MIB];
    size_t first = (size_t)arg * IN_THREAD;
    touch(stack, sizeof stack);
    for (size_t i = 0; i < IN_THREAD; i++)
        touch(theirs[first + i] = malloc(BLOCK), BLOCK);
    pthread_barrier_wait(&ready);
    for (;;)
        pause();
    return NULL;
}

static void small_blocks(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        memset(blocks[i] = malloc(BLOCK), 1, BLOCK);
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % 4) { /* one in four pins its page */
            free(blocks[i]);
            blocks[i] = NULL;
        }
    kind("live", BLOCKS / 4 * BLOCK);
    kind("free", BLOCKS / 4 * 3 * (BLOCK + 8));
}

static void mappings(void)
{
    char *anon = mmap(NULL, 20 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touch(anon, 12 * MIB);
    /* With the flags of the profiler's own memory. */
    char *like = mmap(NULL, 6 * MIB, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)madvise(like, 6 * MIB, MADV_NOHUGEPAGE);
    touch(like, 6 * MIB);
    kind("anonymous", 18 * MIB);
    /* Named like the profiler's. */
    int fd = memfd_create("heapwise-ring", 0);
    if (ftruncate(fd, 8 * (off_t)MIB) < 0)
        abort();
    touch(mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), 8 * MIB);
    kind("shared", 8 * MIB);
    FILE *f = tmpfile();
    if (!f || ftruncate(fileno(f), 5 * (off_t)MIB) < 0)
        abort();
    touch(mmap(NULL, 5 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(f), 0), 5 * MIB);
    kind("file", 5 * MIB);
    (void)mmap(NULL, 1024 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

int main(void)
{
    (void)mallopt(M_ARENA_MAX, 16);
    small_blocks();
    char *large = malloc(30 * MIB); /* half of it is never written to */
    touch(large, 15 * MIB);
    kind("large", 15 * MIB);
    mappings();
    touch(big_bss, sizeof big_bss);
    kind("bss", sizeof big_bss);
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, thread, (void *)i) != 0)
            abort();
    }
    pthread_barrier_wait(&ready);
    kind("stacks", THREADS * MIB);
    kind("arenas", (size_t)THREADS * IN_THREAD * BLOCK);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) /* a character: one block more */
        touch(malloc(BLOCK), BLOCK);
    _exit(large[0] != 1); /* as it is: nothing is given back */
}
