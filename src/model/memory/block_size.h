/*
 * block_size.h - how many bytes an allocator takes for a block of a size
 *
 * Why:     "in use" and "requested" differ by headers and rounding. What each block adds is known from its size,
 *          without asking the process.
 * Shapes:  glibc: 8 bytes of header, multiples of 16, at least 32; a block with a mapping of its own has
 *          16 bytes of header and whole pages. The others have classes and no header. 0 from an allocator that is not known.
 *          What a block takes beyond that (alignment, a rest too small to be a chunk) is a number of its own.
 * Units:   bytes.
 * Threads: pure.
 * Source:  glibc's malloc.c (request2size); malloc_usable_size of jemalloc 5.3, gperftools 2.10, mimalloc 2.0.9 for
 *          each size and alignment (e2e/record/rounding.py)
 */
#ifndef HW_MODEL_MEMORY_BLOCK_SIZE_H
#define HW_MODEL_MEMORY_BLOCK_SIZE_H

#include <stdbool.h>
#include <stdint.h>

enum hw_block_rule {
    HW_BLOCKS_UNKNOWN,
    HW_BLOCKS_GLIBC,
    HW_BLOCKS_JEMALLOC,
    HW_BLOCKS_TCMALLOC,
    HW_BLOCKS_MIMALLOC
};

/* From here on glibc maps a block by itself, unless an arena has room or the program has freed larger ones. */
#define HW_BLOCKS_OWN_MAPPING ((UINT64_C(128) << 10) - 15)

/* By the name of proc/allocator.h; NULL is none. */
enum hw_block_rule hw_block_rule_of(const char *allocator);

/* The classes of the others. */
uint64_t hw_block_class(enum hw_block_rule rule, uint64_t size);

static inline uint64_t hw_block_in_arena(uint64_t size)
{
    uint64_t block = (size + 8 + 15) & ~UINT64_C(15);
    return block < 32 ? 32 : block;
}

/* Sizes below 2^60; glibc's blocks lie in an arena. */
static inline uint64_t hw_block_bytes(enum hw_block_rule rule, uint64_t size)
{
    return rule == HW_BLOCKS_GLIBC ? hw_block_in_arena(size) : hw_block_class(rule, size);
}

/* What one of glibc's takes beyond that, by its address: large blocks may have a mapping of their own, and one in 256
 * is taken for one that has not. Of clients that do not tell it. */
uint64_t hw_block_beyond_by_address(uint64_t size, uint64_t address);

/* The same of an aligned one of the others. whole_pages: pvalloc. mimalloc takes less for a few of the first. */
uint64_t hw_block_beyond_aligned(enum hw_block_rule rule, uint64_t size, uint32_t align_log2,
                                 bool whole_pages);

/* Of one of glibc's with a mapping of its own: the whole pages that alignment leaves around it. bytes: what it takes
 * beside them. */
uint64_t hw_block_gap(uint64_t size, uint64_t bytes, uint32_t align_log2);

#endif
