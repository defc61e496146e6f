/* stacks.c [LEVELS [REPEATS]] - 2^LEVELS distinct callstacks (default 2^20), one allocation each */
#include "target.h"

static struct site s = {.name = "fn_leaf"};
static unsigned long path;

NOIPA static void fn_leaf(void)
{
    site_add(&s, malloc(16), 16);
}

static void walk(int level);
NOIPA static void left(int level)
{
    walk(level);
    __asm__ volatile("");
}
NOIPA static void right(int level)
{
    walk(level);
    __asm__ volatile("");
}
NOIPA static void walk(int level)
{
    if (level == 0)
        fn_leaf();
    else if (path >> (level - 1) & 1)
        right(level - 1);
    else
        left(level - 1);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    int levels = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 20;
    long repeats = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    for (long r = 0; r < repeats; r++)
        for (path = 0; path < 1ul << levels; path++)
            walk(levels);
    expect(&s, NULL);
    return 0;
}
