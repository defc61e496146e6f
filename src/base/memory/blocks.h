/*
 * blocks.h - many small pieces of bytes, given back to the system before all of them are done with
 *
 * Why:     an arena keeps everything until its end. What is put in first, and then used up in about
 *          the same order, need not be in memory together with what is made of it.
 * Owns:    blocks of 1 MiB straight from the kernel; hw_blocks_done frees those still there.
 *          Zero-initialised is empty.
 * Errors:  NULL when out of memory.
 * Threads: one owner at a time.
 */
#ifndef HW_BASE_MEMORY_BLOCKS_H
#define HW_BASE_MEMORY_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define HW_BLOCKS_SLACK 16 /* bytes that can be read behind each piece */

struct hw_block;

struct hw_blocks {
    struct hw_block *first, *current;
};

void hw_blocks_done(struct hw_blocks *b);
/* A copy. It stays until hw_blocks_release was called for it, once. */
const uint8_t *hw_blocks_add(struct hw_blocks *b, struct hw_bytes piece);
void hw_blocks_release(struct hw_blocks *b, const uint8_t *piece);

#endif
