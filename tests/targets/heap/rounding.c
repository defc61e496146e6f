/*
 * rounding - blocks of several sizes, and what the allocator really adds to each
 *
 * mixed: sizes from 0 to 2000 bytes; odd: 33 bytes; large: around 150 KiB, with mappings of their own and, after
 * larger ones were freed, without. A third of each is freed again. Says "KIND site bytes" of each site: what
 * malloc_usable_size and glibc's header say beyond the sizes that were asked for, of what is left; then "ready", and
 * waits for the end of its input. An argument: the allocator is another one, without headers.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 60000, LARGE = 40 };

static struct block {
    char *p;
    size_t size;
} blocks[MOST];
static size_t n_blocks;
static int has_headers;

static uint32_t state = 12345;

static uint32_t any(uint32_t below)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static void keep(char *p, size_t size)
{
    memset(p, 1, size);
    blocks[n_blocks++] = (struct block){p, size};
}

static __attribute__((noipa)) void mixed(void)
{
    size_t size = any(2001);
    keep(malloc(size), size);
}

static __attribute__((noipa)) void odd(void)
{
    keep(malloc(33), 33);
}

static __attribute__((noipa)) void large(void)
{
    size_t size = (128 << 10) + any(60000);
    keep(malloc(size), size);
}

static size_t header_of(const struct block *b)
{
    size_t word;
    if (!has_headers)
        return 0;
    memcpy(&word, b->p - 8, sizeof word);
    return word & 2 ? 16 : 8; /* a mapping of its own */
}

static void make(const char *site, void (*one)(void), size_t n)
{
    size_t sum = 0;
    n_blocks = 0;
    for (size_t i = 0; i < n; i++)
        one();
    for (size_t i = 0; i < n; i++)
        if (i % 3 == 2)
            free(blocks[i].p);
        else
            sum += malloc_usable_size(blocks[i].p) + header_of(&blocks[i]) - blocks[i].size;
    printf("KIND %s %zu\n", site, sum);
}

int main(int argc, char **argv)
{
    char c;
    (void)argv;
    has_headers = argc == 1;
    make("odd", odd, 30000);
    make("mixed", mixed, 20000);
    make("large", large, LARGE);
    char *volatile larger = malloc(1 << 20); /* from here on large blocks come from an arena */
    free(larger);
    make("large_again", large, LARGE);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        ;
    return 0;
}
