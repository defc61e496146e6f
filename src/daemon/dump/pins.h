/*
 * pins.h - free memory that live blocks pin: which pages they lie on, and what else is on these pages
 *
 * Why:     a page with one live block on it is resident, however much of it is free. A program that
 *          frees three blocks of four returns nothing to the kernel, and a profile of live bytes
 *          does not show why.
 * Shapes:  of glibc's malloc with every block known: a block has 8 bytes of header before its address and ends at
 *          a multiple of 16 less 8; blocks with mappings of their own pin nothing. What of a page no live
 *          block covers is divided among the stacks by the bytes that they have on it, so all stacks together
 *          pin what is free on these pages. Addresses and sizes come from the target: blocks that
 *          overlap leave nothing free.
 * Units:   bytes; pages are numbers (address / HW_PINS_PAGE).
 * Owns:    its lists. Zero-initialised is empty.
 * Errors:  HW_ENOMEM.
 * Cost:    O(n log n) of n live blocks, 12 bytes per block and 24 per page while it is computed.
 * Threads: one owner at a time.
 * Source:  glibc's malloc.c (struct malloc_chunk, request2size)
 */
#ifndef HW_DAEMON_DUMP_PINS_H
#define HW_DAEMON_DUMP_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/books/idle.h"
#include "daemon/dump/measured_heap.h"

#define HW_PINS_PAGE UINT64_C(4096)

struct hw_pins_piece {
    uint32_t stack, bytes; /* of a block, on a page */
};

struct hw_pins_page {
    size_t first, n; /* pieces */
    uint32_t used;
};

struct hw_pins_map {
    HW_VEC(uint64_t) numbers; /* of pages, ascending */
    HW_VEC(struct hw_pins_page) pages;
    HW_VEC(struct hw_pins_piece) pieces;
};

/* where of a sample: its stack. */
int hw_pins_map_init(struct hw_pins_map *m, const struct hw_idle_sample *s, size_t n);
void hw_pins_map_done(struct hw_pins_map *m);

/* What stacks pin, of blocks on pages that are not full. resident: by page of the map. */
int hw_pins_take(struct hw_measured_heap *p, const struct hw_pins_map *m, const bool *resident,
                 struct hw_snap_book *out);

#endif
