/*
 * rounding - blocks of several sizes, and what the allocator really adds to each
 *
 * mixed: sizes from 0 to 2000 bytes; odd: 33 bytes; large: around 150 KiB, with mappings of their own and, after
 * larger ones were freed, without; aligned: every function that takes an alignment, 16 bytes to 4 KiB; paged:
 * valloc and pvalloc; wide: large and aligned. A third of each is freed again. Says "KIND site bytes" of each site:
 * what malloc_usable_size and glibc's header say beyond the sizes that were asked for, of what is left (of a mapping
 * of its own the pages from the header to the block's end); then "ready", and waits for the end of its input. An
 * argument: the allocator is this one, without headers.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 60000, LARGE = 40, PAGE = 4096 };

static struct block {
    char *p;
    size_t size;
} blocks[MOST];
static size_t n_blocks;
static bool has_headers, has_pvalloc;

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

static __attribute__((noipa)) void aligned(void)
{
    size_t align = (size_t)16 << any(9), size = 1 + any(3000), n = (size + align - 1) / align;
    void *p = NULL;
    switch (any(3)) {
    case 0:
        if (posix_memalign(&p, align, size) == 0)
            keep(p, size);
        return;
    case 1:
        keep(memalign(align, size), size);
        return;
    case 2:
        keep(aligned_alloc(align, n * align), n * align);
        return;
    }
}

static __attribute__((noipa)) void paged(void)
{
    size_t size = any(9000);
    keep(has_pvalloc && any(2) ? pvalloc(size) : valloc(size), size);
}

static __attribute__((noipa)) void wide(void)
{
    size_t size = (256 << 10) + any(60000);
    keep(memalign((size_t)16 << any(11), size), size);
}

/* mimalloc aligns inside a larger block, and malloc_usable_size has what is behind the alignment only. */
struct area {
    char *blocks;
    size_t reserved, committed, used, block_size;
};
typedef bool visit_areas(void *heap, bool blocks_too,
                         bool (*)(void *, struct area *, char *, size_t, void *), void *);

struct look {
    const char *p;
    size_t block_size;
};

static bool look_at(void *heap, struct area *a, char *block, size_t size, void *arg)
{
    struct look *l = arg;
    (void)heap, (void)block, (void)size;
    if (l->p >= a->blocks && l->p < a->blocks + a->reserved)
        l->block_size = a->block_size;
    return l->block_size == 0;
}

static size_t bytes_of(const struct block *b)
{
    size_t word;
    void *(*mine)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "mi_heap_get_default");
    struct look l = {.p = b->p};
    if (mine) {
        ((visit_areas *)dlsym(RTLD_DEFAULT, "mi_heap_visit_blocks"))(mine(), false, look_at, &l);
        return l.block_size;
    }
    if (!has_headers)
        return malloc_usable_size(b->p);
    memcpy(&word, b->p - 8, sizeof word);
    if (!(word & 2))
        return malloc_usable_size(b->p) + 8;
    uintptr_t from = ((uintptr_t)b->p - 16) & ~(uintptr_t)(PAGE - 1);
    return ((uintptr_t)b->p + b->size - from + PAGE - 1) & ~(size_t)(PAGE - 1);
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
            sum += bytes_of(&blocks[i]) - blocks[i].size;
    printf("KIND %s %zu\n", site, sum);
}

int main(int argc, char **argv)
{
    char c;
    has_headers = argc == 1;
    has_pvalloc = has_headers || strcmp(argv[1], "jemalloc") != 0;
    make("odd", odd, 30000);
    make("mixed", mixed, 20000);
    make("large", large, LARGE);
    make("wide", wide, LARGE);
    char *volatile larger = malloc(1 << 20); /* from here on large blocks come from an arena */
    free(larger);
    make("large_again", large, LARGE);
    make("wide_again", wide, LARGE);
    make("aligned", aligned, 3000);
    make("paged", paged, 500);
    printf("ready\n");
    fflush(stdout);
    while (read(0, &c, 1) > 0)
        ;
    return 0;
}
