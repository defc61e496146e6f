/*
 * pins.h - free memory that live blocks pin: which pages they lie on, and what else is on these pages
 *
 * Why:     a page with one live block on it is resident, however much of it is free. Who frees three blocks of
 *          four gives nothing back, and a profile of live bytes does not show why.
 * Shapes:  of glibc's malloc: a block has 8 bytes of header before its address and ends at a multiple of 16
 *          less 8; blocks with mappings of their own pin nothing. What of a page is free is divided among the live
 *          blocks there by the bytes that they have on it, so all blocks together pin what is free on these pages.
 *          With every block known, what none covers is free. Of sampled blocks the headers around them say
 *          what is used (proc/glibc_heap.h), and each block's share counts as often as the block stands for
 *          others: an estimate without bias, with a variance. Where not all blocks were looked at, those
 *          that were stand for the others, too; the mebibyte is what is chosen, so it is what varies. Where more
 *          than HW_PINS_MOST_LOST of those looked at remained unknown, it is no measurement (HW_EFORMAT).
 *          Addresses and sizes are the target's words: blocks that overlap leave nothing free.
 * Units:   bytes; pages are numbers (address / HW_PINS_PAGE).
 * Owns:    its lists. Zero-initialised is empty.
 * Errors:  HW_ENOMEM; HW_EFORMAT: see above.
 * Cost:    O(n log n) of n live blocks, 80 bytes a block and 24 a page while it is made. Of more than
 *          HW_PINS_BLOCKS sampled blocks only those in some mebibytes are taken.
 * Threads: one owner at a time.
 * Source:  glibc's malloc.c (struct malloc_chunk, request2size)
 */
#ifndef HW_DAEMON_DUMP_PINS_H
#define HW_DAEMON_DUMP_PINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/books/idle_samples.h"
#include "daemon/dump/measured_heap.h"

#define HW_PINS_PAGE      UINT64_C(4096)
#define HW_PINS_REGION    UINT64_C(20) /* log2 of what is chosen at once */
#define HW_PINS_BLOCKS    65536u
#define HW_PINS_MOST_LOST 0.5

struct hw_pins_block {
    uint64_t lo, hi; /* from behind its size to behind the next one's */
    uint32_t stack;
    bool is_known;   /* how full its pages are */
    bool is_unread;  /* nobody looked */
    double weight;   /* blocks that it stands for */
    double variance; /* of this number */
    double pins;
};

struct hw_pins_piece {
    uint32_t block, bytes; /* of it, on a page */
};

struct hw_pins_page {
    size_t first, n; /* pieces */
    uint32_t used;   /* HW_GLIBC_UNKNOWN, HW_GLIBC_UNREAD: not known */
};

struct hw_pins_map {
    HW_VEC(struct hw_pins_block) blocks; /* by address */
    HW_VEC(uint64_t) numbers;            /* of pages, ascending */
    HW_VEC(struct hw_pins_page) pages;
    HW_VEC(struct hw_pins_piece) pieces;
    double all; /* blocks that all samples stand for, also those that were not taken */
};

/* where of a sample: its stack. interval_bytes: 1 = they are all there are. */
int hw_pins_map_init(struct hw_pins_map *m, const struct hw_idle_sample *s, size_t n,
                     uint64_t interval_bytes);
void hw_pins_map_done(struct hw_pins_map *m);

/* What stacks pin, of blocks on pages that are not full. resident: by page of the map. */
int hw_pins_take(struct hw_measured_heap *p, struct hw_pins_map *m, const bool *resident,
                 struct hw_snap_book *out);
/* After take. Of all blocks, the share that the figures are of. */
double hw_pins_share(const struct hw_pins_map *m);
/* Of those that were looked at, the share whose pages remained unknown. They are not like the others, which adds to
 * the error as much as they are. */
double hw_pins_lost(const struct hw_pins_map *m);

#endif
