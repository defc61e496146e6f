/*
 * block_size.h - how many bytes an allocator uses for a block of some size
 *
 * Why:     "in use" and "requested" differ by headers and rounding. What each block adds follows
 *          from its size, without asking the process.
 * Shapes:  glibc: 8 bytes of header, multiples of 16, at least 32; a block with its own mapping has
 *          16 bytes of header and whole pages. The others have size classes and no header. An
 *          unknown allocator adds nothing. What a block takes in addition (alignment, a rest too
 *          small to be a chunk) is a separate number.
 * Units:   bytes.
 * Threads: pure.
 * Source:  glibc's malloc.c (request2size); malloc_usable_size of jemalloc 5.3, gperftools 2.10,
 *          mimalloc 2.0.9 for each size and alignment (e2e/record/rounding.py)
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

/* From this size on glibc gives a block its own mapping, unless an arena has room or the program
 * has freed larger ones. */
#define HW_BLOCKS_OWN_MAPPING ((UINT64_C(128) << 10) - 15)

/* By the name that proc/allocator.h has; NULL: unknown. */
enum hw_block_rule hw_block_rule_of(const char *allocator);

/* The size class; the size itself for glibc and unknown allocators. */
uint64_t hw_block_class(enum hw_block_rule rule, uint64_t size);

static inline uint64_t hw_block_in_arena(uint64_t size)
{
    uint64_t block = (size + 8 + 15) & ~UINT64_C(15);
    return block < 32 ? 32 : block;
}

/* size: below 2^60; glibc: as in an arena. */
static inline uint64_t hw_block_bytes(enum hw_block_rule rule, uint64_t size)
{
    return rule == HW_BLOCKS_GLIBC ? hw_block_in_arena(size) : hw_block_class(rule, size);
}

/* What a glibc block uses in addition, judged by its address: a large block may have its own
 * mapping, and one in 256 of those in an arena looks as if it had. For clients that do not report
 * it. */
uint64_t hw_block_beyond_by_address(uint64_t size, uint64_t address);

/* The same for an aligned block of the other allocators. whole_pages: pvalloc. mimalloc uses less
 * for a few of the first blocks. */
uint64_t hw_block_beyond_aligned(enum hw_block_rule rule, uint64_t size, uint32_t align_log2,
                                 bool whole_pages);

/* For a glibc block with its own mapping: the whole pages that alignment leaves around it. bytes:
 * what it uses without them. */
uint64_t hw_block_gap(uint64_t size, uint64_t bytes, uint32_t align_log2);

#endif
