/*
 * glibc_heap.h - how full the pages around known blocks of glibc's malloc are, read from outside
 *
 * Why:     of a sampled block it is known where it lies, but not what else is on its page. The headers between two
 *          sampled blocks tell: each chunk has its size before it, and the next one says whether it is in use.
 * Shapes:  a walk goes from one known block to the next, chunk by chunk, and has to arrive at it exactly: if not, the
 *          memory changed meanwhile or is not what it seems, and the pages in between are unknown. A chunk in a
 *          fastbin or a thread's cache is marked as in use; its link, which glibc protects with its own address
 *          (2.32 and later), tells that it is free. An older glibc's count as used.
 *          Of a page every byte is covered or it stays unknown.
 * Units:   bytes; pages are numbers (address / 4096).
 * Owns:    nothing.
 * Errors:  HW_ELIMIT: max_pages were read. What cannot be read is unknown, no error.
 * Cost:    a page is read at a time, each once where walks follow each other. Sizes and links are the target's words: no
 *          walk goes further than max_gap, none goes back.
 * Threads: pure, but for read_page.
 * Source:  glibc's malloc.c (struct malloc_chunk, PROTECT_PTR, tcache_entry)
 */
#ifndef HW_PROC_GLIBC_HEAP_H
#define HW_PROC_GLIBC_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_GLIBC_PAGE    4096u
#define HW_GLIBC_UNKNOWN UINT32_MAX
#define HW_GLIBC_UNREAD  (UINT32_MAX - 1) /* nobody looked */

struct hw_glibc_block {
    uint64_t chunk; /* its address less 16 */
    uint64_t bytes; /* of the chunk, at least */
};

struct hw_glibc_walk {
    int (*read_page)(void *ctx, uint64_t page,
                     uint8_t out[HW_GLIBC_PAGE]); /* < 0: it is not there */
    void *ctx;
    uint64_t max_pages;
    uint64_t
        max_gap; /* bytes between two blocks; beyond, the second one is as if it were the first */
    uint64_t heap_start; /* of the first chunk of the main arena; 0 = not known */
    uint64_t n_read;     /* pages */
    uint64_t n_broken;   /* walks that did not arrive */
    struct {
        uint64_t number;
        bool is_there;
        uint8_t bytes[HW_GLIBC_PAGE];
    } page; /* the newest; zero-initialised is none */
};

/*
 * What is used on pages[0..n_pages) around blocks [first, end), both ascending. used: as pages, on entry
 * HW_GLIBC_UNKNOWN where nothing is known yet. A block in use takes what is between its header and the next one's.
 */
int hw_glibc_walk(struct hw_glibc_walk *w, const struct hw_glibc_block *blocks, size_t first,
                  size_t end, const uint64_t *pages, size_t n_pages, uint32_t *used);

#endif
