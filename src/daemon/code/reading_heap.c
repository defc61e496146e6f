/* reading_heap.c - what else is on the pages of sampled blocks, by the headers of glibc's malloc */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"
#include "daemon/code/blocking_reader_job.h"
#include "proc/glibc_heap.h"

#include "base/banned.h"

#define AT_ONCE 512u /* entries of the page map */
#define PRESENT (UINT64_C(1) << 63)
#define OF_FILE (UINT64_C(1) << 61) /* or shared */
#define FAR     (UINT64_C(16) << 20)

struct heap_job {
    struct hw_reading_job job;
    struct hw_glibc_block *blocks; /* own, as the next two */
    uint64_t *pages;
    uint32_t *used;
    size_t n_blocks, n_pages;
    unsigned region_log2;
    struct hw_glibc_walk walk;
    int mem, pagemap; /* own */
    uint64_t map_first;
    size_t n_map;
    uint64_t map[AT_ONCE];
};

static bool is_present(struct heap_job *h, uint64_t page)
{
    if (page < h->map_first || page >= h->map_first + h->n_map) {
        ssize_t got = pread(h->pagemap, h->map, sizeof h->map, (off_t)(page * sizeof *h->map));
        h->map_first = page;
        h->n_map = got > 0 ? (size_t)got / sizeof *h->map : 0;
    }
    return page - h->map_first < h->n_map &&
           (h->map[page - h->map_first] & (PRESENT | OF_FILE)) == PRESENT;
}

/* To read what is not in memory would bring it there; what is a file's could be taken away before it is read. */
static int read_page(void *ctx, uint64_t page, uint8_t out[HW_GLIBC_PAGE])
{
    struct heap_job *h = ctx;
    if (page >> 44 || !is_present(h, page))
        return HW_EGONE;
    return hw_fd_pread_all(h->mem, out, HW_GLIBC_PAGE, page * HW_GLIBC_PAGE);
}

static uint64_t region_of(const struct heap_job *h, size_t block)
{
    return h->blocks[block].chunk >> h->region_log2;
}

static size_t region_end(const struct heap_job *h, size_t first)
{
    size_t end = first;
    while (end < h->n_blocks && region_of(h, end) == region_of(h, first))
        end++;
    return end;
}

/* Coprime to n and far from its simple fractions, so that regions are visited evenly. */
static size_t stride(size_t n)
{
    size_t step = (size_t)((double)n * 0.6180339887) | 1;
    for (;; step += 2) {
        size_t a = n, b = step;
        while (b) {
            size_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return step;
    }
}

/* The pages of a region's blocks. */
static void set_pages(struct heap_job *h, size_t first, size_t end, uint32_t used)
{
    uint64_t lo = h->blocks[first].chunk / HW_GLIBC_PAGE;
    uint64_t hi = (h->blocks[end - 1].chunk + h->blocks[end - 1].bytes) / HW_GLIBC_PAGE;
    size_t from = HW_LOWER_BOUND(i, 0, h->n_pages, h->pages[i] < lo);
    for (size_t i = from; i < h->n_pages && h->pages[i] <= hi; i++)
        if (h->used[i] >= HW_GLIBC_UNREAD || used == HW_GLIBC_UNREAD)
            h->used[i] = used;
}

static int walk_regions(struct heap_job *h)
{
    size_t n = 0;
    size_t *firsts = calloc(h->n_blocks + 1, sizeof *firsts);
    if (!firsts)
        return HW_ENOMEM;
    for (size_t i = 0; i < h->n_blocks; i = region_end(h, i))
        firsts[n++] = i;
    size_t step = n ? stride(n) : 1;
    /* Few regions: in order, so that a page is read once. */
    bool in_order = h->n_blocks && h->blocks[h->n_blocks - 1].chunk - h->blocks[0].chunk <=
                                       h->walk.max_pages * HW_GLIBC_PAGE;
    h->walk.max_gap = in_order ? FAR : FAR / 16;
    for (size_t i = 0, at = h->job.who.start_ticks % (n ? n : 1); i < n;
         i++, at = (at + step) % n) {
        size_t first = firsts[in_order ? i : at], end = region_end(h, first);
        set_pages(h, first, end, HW_GLIBC_UNKNOWN);
        if (hw_glibc_walk(&h->walk, h->blocks, first, end, h->pages, h->n_pages, h->used) < 0) {
            set_pages(h, first, end, HW_GLIBC_UNREAD); /* else long ways would count less */
            break;
        }
    }
    free(firsts);
    return HW_OK;
}

uint64_t hw_reading_heap_start(int proc_dir)
{
    char *text, *at;
    size_t n;
    uint64_t start = 0;
    if (hw_file_read(proc_dir, "stat", 4096, &text, &n, NULL) < 0)
        return 0;
    at = strrchr(text, ')');
    for (int field = 2; at && field < 47; field++)
        at = strchr(at + 1, ' ');
    if (at)
        start = strtoull(at, NULL, 10);
    free(text);
    return start;
}

static void run_heap(struct hw_reading_job *j)
{
    struct heap_job *h = (struct heap_job *)(void *)j;
    h->mem = openat(j->who.dir, "mem", O_RDONLY | O_CLOEXEC);
    h->pagemap = openat(j->who.dir, "pagemap", O_RDONLY | O_CLOEXEC);
    if (h->mem < 0 || h->pagemap < 0) {
        j->rc = HW_ESYS;
        return;
    }
    h->walk.read_page = read_page;
    h->walk.ctx = h;
    h->walk.heap_start = hw_reading_heap_start(j->who.dir);
    j->rc = walk_regions(h);
}

static void drop_heap(struct hw_reading_job *j)
{
    struct heap_job *h = (struct heap_job *)(void *)j;
    free(h->blocks);
    free(h->pages);
    free(h->used);
    hw_autofd_close(&h->mem);
    hw_autofd_close(&h->pagemap);
}

static struct heap_job *job_new(const struct hw_reading_who *who, size_t n_blocks, size_t n_pages)
{
    struct heap_job *h = hw_reading_job_new(sizeof *h, who, run_heap, drop_heap);
    if (!h)
        return NULL;
    h->mem = h->pagemap = -1;
    h->blocks = calloc(n_blocks + 1, sizeof *h->blocks);
    h->pages = calloc(n_pages + 1, sizeof *h->pages);
    h->used = calloc(n_pages + 1, sizeof *h->used);
    h->n_blocks = n_blocks;
    h->n_pages = n_pages;
    if (h->blocks && h->pages && h->used)
        return h;
    hw_reading_job_free(&h->job);
    return NULL;
}

int hw_reading_heap(struct hw_blocking_reader *l, struct hw_reading_who who,
                    const struct hw_glibc_block *blocks, size_t n_blocks, const uint64_t *pages,
                    size_t n_pages, unsigned region_log2, uint64_t max_pages, uint32_t *used,
                    uint64_t *n_broken, uint64_t *cpu_ns)
{
    struct heap_job *h = job_new(&who, n_blocks, n_pages);
    if (!h)
        return HW_ENOMEM;
    if (n_blocks)
        memcpy(h->blocks, blocks, n_blocks * sizeof *blocks);
    if (n_pages)
        memcpy(h->pages, pages, n_pages * sizeof *pages);
    for (size_t i = 0; i < n_pages; i++)
        h->used[i] = HW_GLIBC_UNREAD;
    h->region_log2 = region_log2;
    h->walk.max_pages = max_pages;
    int rc = hw_reading_job_do(l, &h->job);
    if (rc < 0)
        return rc;
    rc = h->job.rc;
    *cpu_ns = h->job.cpu_ns;
    *n_broken = h->walk.n_broken;
    if (n_pages)
        memcpy(used, h->used, n_pages * sizeof *used);
    hw_reading_job_free(&h->job);
    return rc;
}
