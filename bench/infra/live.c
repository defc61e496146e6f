/* live: 1,000,000 blocks held through 50,000 callstacks, each of four functions out of 16 a level. */
#include <stdio.h>
#include <stdlib.h>

enum { STACKS = 50000, BLOCKS = 20, LEVELS = 4 };
static void *volatile kept;

#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define DECLARE(i) static void f##i(unsigned path, int level, size_t size);
EACH(DECLARE)
#define NAME(i) f##i,
static void (*const next[])(unsigned, int, size_t) = {EACH(NAME)};

static __attribute__((noinline)) void hold(size_t size)
{
    for (int i = 0; i < BLOCKS; i++) {
        void **p = malloc(size);
        if (!p)
            abort();
        *p = kept;
        kept = p;
    }
}

#define DEFINE(i)                                                                                  \
    static __attribute__((noinline)) void f##i(unsigned path, int level, size_t size)              \
    {                                                                                              \
        if (level == 0)                                                                            \
            hold(size);                                                                            \
        else                                                                                       \
            next[path & 15](path >> 4, level - 1, size);                                           \
        __asm__ volatile("" ::: "memory"); /* no tail call */                                      \
    }
EACH(DEFINE)

int main(void)
{
    for (unsigned i = 0; i < STACKS; i++)
        next[i & 15](i >> 4, LEVELS - 1, 64 + i % 7 * 16);
    puts("holding");
    return 0;
}
