/*
 * pinned - free memory that live blocks pin, of a known amount by site
 *
 * The argument says how: none (nothing is freed), nth (all but every 64th block), two (two sites' blocks of
 * unlike sizes between blocks that are freed), page (one small block a page), whole (freed in a row, as whole
 * pages), fragment, steady, map (goes on until the end of its input: free memory grows, nothing grows, mappings
 * grow), or lies (as nth; then the sizes of freed chunks are overwritten, and a part of the heap is unmapped). Says "PIN site bytes" of each site, computed from its own addresses; "ready", then
 * waits for the end of its input; at a letter t it calls malloc_trim(0) and says "TRIM before after", its resident bytes.
 */
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 400000, PAGE = 4096, SITES = 2 };

static struct block {
    char *p;
    int site;
} blocks[MOST];
static size_t n_blocks;

static __attribute__((noipa)) char *site_a(size_t n)
{
    char *p = malloc(n);
    return memset(p, 1, n);
}

static __attribute__((noipa)) char *site_b(size_t n)
{
    char *p = malloc(n);
    return memset(p, 2, n);
}

static __attribute__((noipa)) char *passing(size_t n)
{
    char *p = malloc(n);
    return memset(p, 3, n);
}

static void keep(char *p, int site)
{
    blocks[n_blocks++] = (struct block){p, site};
}

/* What stands in blocks is kept, the rest freed: far more than the thread's cache holds. */
static char *gone[MOST];
static size_t n_gone;

static void let_go(void)
{
    for (size_t i = 0; i < n_gone; i++)
        free(gone[i]);
}

static void every_64th(bool frees)
{
    for (size_t i = 0; i < 100000; i++)
        if (!frees || i % 64 == 63)
            keep(site_a(100), 0);
        else
            gone[n_gone++] = passing(100);
}

static void two_sites(void)
{
    for (size_t i = 0; i < 4000; i++) {
        keep(site_a(48), 0);
        for (int k = 0; k < 6; k++)
            gone[n_gone++] = passing(400);
        keep(site_b(600), 1);
        for (int k = 0; k < 2; k++)
            gone[n_gone++] = passing(1000);
    }
}

static void one_a_page(void)
{
    for (size_t i = 0; i < 4000; i++) {
        keep(site_b(64), 1);
        gone[n_gone++] = passing(4000);
    }
}

/* One block stays behind them, so that the top of the heap does not take them back. */
static void whole_pages(void)
{
    for (size_t i = 0; i < 20000; i++)
        gone[n_gone++] = passing(400);
    keep(site_a(100), 0);
}

static __attribute__((noipa)) char *shrunk(char *p)
{
    return realloc(p, 64); /* in place */
}

static __attribute__((noipa)) char *shrunk_too(char *p)
{
    char *q = realloc(p, 64);
    return q;
}

/* Blocks that shrink, a third of them elsewhere, each larger than the holes behind those before; or as many that are freed. */
static void fragment(bool stops)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    for (size_t step = 0; poll(&in, 1, 100) == 0; step++) {
        char *big[24];
        for (size_t i = 0; i < 24; i++)
            big[i] = passing(stops ? 8192 : 8192 + 256 * (step % 400));
        for (size_t i = 0; i < 24; i++)
            if (stops)
                free(big[i]);
            else
                (void)(i % 3 ? shrunk : shrunk_too)(big[i]);
    }
}

static void map_more(void)
{
    struct pollfd in = {.fd = 0, .events = POLLIN};
    while (poll(&in, 1, 100) == 0) {
        void *p = mmap(NULL, 128 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 1, 128 << 10);
    }
}

/* Of the allocator's memory nothing is right any more. It is not called again. */
static void lie(void)
{
    const size_t sizes[] = {0, 1, 24, 0x21, (size_t)-1, 1ul << 40, 0x70, 4096};
    for (size_t i = 0; i < n_gone / 2; i++)
        memcpy(gone[i] - 8, &sizes[i % 8], sizeof *sizes);
    uintptr_t from = (uintptr_t)gone[n_gone * 3 / 4] / PAGE * PAGE;
    munmap((void *)from, 64 * PAGE);
}

static void make(const char *how)
{
    if (strcmp(how, "two") == 0)
        two_sites();
    else if (strcmp(how, "page") == 0)
        one_a_page();
    else if (strcmp(how, "whole") == 0)
        whole_pages();
    else if (strcmp(how, "fragment") == 0 || strcmp(how, "steady") == 0)
        fragment(strcmp(how, "steady") == 0);
    else if (strcmp(how, "map") == 0)
        map_more();
    else
        every_64th(strcmp(how, "none") != 0);
}

static int by_address(const void *a, const void *b)
{
    const struct block *x = a, *y = b;
    return (x->p > y->p) - (x->p < y->p);
}

/* The bytes of a block on a page: from its header, which begins 8 bytes before it. */
static size_t on_page(const struct block *b, uintptr_t page)
{
    uintptr_t from = (uintptr_t)b->p - 8, to = (uintptr_t)b->p + malloc_usable_size(b->p);
    from = from > page ? from : page;
    to = to < page + PAGE ? to : page + PAGE;
    return to > from ? to - from : 0;
}

/* What is free on the pages of blocks, divided by what each site has on them. */
static void tell(void)
{
    double pins[SITES] = {0};
    uintptr_t done = 0;
    qsort(blocks, n_blocks, sizeof *blocks, by_address);
    for (size_t i = 0; i < n_blocks; i++) {
        uintptr_t first = ((uintptr_t)blocks[i].p - 8) / PAGE * PAGE;
        uintptr_t last =
            ((uintptr_t)blocks[i].p + malloc_usable_size(blocks[i].p) - 1) / PAGE * PAGE;
        for (uintptr_t page = first > done ? first : done + PAGE; page <= last; page += PAGE) {
            size_t here[SITES] = {0}, all = 0;
            for (size_t k = i ? i - 1 : 0; k < n_blocks && (uintptr_t)blocks[k].p - 8 < page + PAGE;
                 k++) {
                here[blocks[k].site] += on_page(&blocks[k], page);
                all += on_page(&blocks[k], page);
            }
            for (int s = 0; all && s < SITES; s++)
                pins[s] += (double)(PAGE - all) * (double)here[s] / (double)all;
            done = page;
        }
    }
    for (int s = 0; s < SITES; s++)
        printf("PIN site_%c %.0f\n", 'a' + s, pins[s]);
}

static long resident(void)
{
    char text[64] = "";
    long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
        sscanf(text, "%*d %ld", &pages);
    close(fd);
    return pages * PAGE;
}

static void trim(void)
{
    long before = resident();
    malloc_trim(0);
    printf("TRIM %ld %ld\n", before, resident());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char c;
    make(argc > 1 ? argv[1] : "nth");
    let_go();
    tell();
    printf("ready\n");
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "lies") == 0)
        lie();
    while (read(0, &c, 1) > 0)
        if (c == 't')
            trim();
    return 0;
}
