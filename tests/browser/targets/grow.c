/* A program for the pages: a table that stays, requests that come and go, a cache that grows,
 * recursion, and functions whose names (given by objcopy, see run.mjs) attack who shows them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static void *volatile kept[65536];
static size_t n_kept;

KEEP void keep(void *p)
{
    kept[n_kept++ % 65536] = p;
}

KEEP void load_table(void)
{
    keep(memset(malloc(8 << 20), 1, 8 << 20));
}

KEEP void cache_insert(int i)
{
    keep(memset(malloc((size_t)(200 + i % 300)), 1, 200));
}

KEEP void handle_request(int i)
{
    void *volatile p = malloc((size_t)(64 + i % 512));
    if (i % 4 == 0)
        keep(p);
    else
        free(p);
}

KEEP void recurse(int depth)
{
    if (depth == 0)
        keep(malloc(30000));
    else
        recurse(depth - 1);
    __asm__ volatile("");
}

KEEP void name_markup(void)
{
    keep(malloc(400000));
    __asm__ volatile("");
}

KEEP void name_bidi(void)
{
    keep(malloc(300000));
    __asm__ volatile("");
}

KEEP void name_control(void)
{
    keep(malloc(200000));
    __asm__ volatile("");
}

int main(void)
{
    load_table();
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < 1500; i++)
            cache_insert(i);
        for (int i = 0; i < 4000; i++)
            handle_request(i);
        recurse(12 + round % 3);
        name_markup();
        name_bidi();
        name_control();
        usleep(100000);
    }
    return 0;
}
