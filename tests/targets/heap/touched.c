/*
 * touched - mappings of several calls, of each of which another part is in memory
 *
 * "KIND call bytes" a line: what mincore says of the call's mapping, "ready", then it waits for the end of its input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB  ((size_t)1 << 20)
#define PAGE ((size_t)4096)

static __attribute__((noipa)) void touch(volatile char *p, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i += step)
        p[i] = 1;
}

static void tell(const char *call, void *at, size_t n)
{
    static unsigned char there[64 * MIB / PAGE];
    size_t pages = 0;
    if (mincore(at, n, there) < 0)
        abort();
    for (size_t i = 0; i < n / PAGE; i++)
        pages += there[i] & 1;
    printf("KIND %s %zu\n", call, pages * PAGE);
}

static char *mine(char *p)
{
    if (p == MAP_FAILED)
        abort();
    return p;
}

#define MAP(at, n, prot)                                                                           \
    mmap(at, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | ((at) ? MAP_FIXED : 0), -1, 0)

/* One page in four; a neighbour of what `densely` maps, which the kernel joins. */
static __attribute__((noipa)) char *sparsely(char *at)
{
    char *p = mine(MAP(at, 16 * MIB, PROT_READ | PROT_WRITE));
    touch(p, 16 * MIB, 4 * PAGE);
    return p;
}

static __attribute__((noipa)) char *densely(char *at)
{
    char *p = mine(MAP(at, 16 * MIB, PROT_READ | PROT_WRITE));
    touch(p, 12 * MIB, PAGE);
    return p;
}

/* Alone, as its neighbours may not be read. */
static __attribute__((noipa)) char *alone(char *at)
{
    char *p = mine(MAP(at, 24 * MIB, PROT_READ | PROT_WRITE));
    touch(p, 9 * MIB, PAGE);
    return p;
}

/* Given back, but still mapped. */
static __attribute__((noipa)) char *dropped(char *at)
{
    char *p = mine(MAP(at, 10 * MIB, PROT_READ | PROT_WRITE));
    touch(p, 10 * MIB, PAGE);
    (void)madvise(p, 6 * MIB, MADV_DONTNEED);
    return p;
}

static __attribute__((noipa)) char *reserved(void)
{
    return mine(MAP(NULL, 4096 * MIB, PROT_NONE));
}

/* By no name that anybody could stand before. */
static void raw(void)
{
    void *p = (void *)syscall(SYS_mmap, NULL, 6 * MIB, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (p == MAP_FAILED)
        abort();
    touch(p, 6 * MIB, PAGE);
}

int main(void)
{
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* else pages that nobody touched are there, too */
    char *room = reserved();
    char *a = densely(room + MIB), *b = sparsely(a + 16 * MIB);
    char *c = alone(b + 32 * MIB), *d = dropped(c + 64 * MIB);
    raw();
    tell("densely", a, 16 * MIB);
    tell("sparsely", b, 16 * MIB);
    tell("alone", c, 24 * MIB);
    tell("dropped", d, 10 * MIB);
    printf("KIND reserved 0\n");
    puts("ready");
    fflush(stdout);
    for (int ch; (ch = getchar()) != EOF;)
        free(malloc((size_t)ch));
    _exit(room[MIB] != 1); /* as it is: nothing is given back */
}
