/*
 * block_size.h - how many bytes an allocator takes for a block of a size
 *
 * Why:     "in use" and "requested" differ by headers and rounding. What each block adds is known from its size,
 *          without asking the process.
 * Shapes:  glibc: 8 bytes of header, multiples of 16, at least 32; a block with a mapping of its own has
 *          16 bytes of header and whole pages. The others have classes and no header. 0 from an allocator that is not known.
 * Units:   bytes.
 * Threads: pure.
 * Source:  glibc's malloc.c (request2size); malloc_usable_size of jemalloc 5.3, gperftools 2.10, mimalloc 2.0.9 for
 *          each size (unit model/block_size compares those that are installed)
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

/* What glibc leaves in a chunk if it is too small to be one. */
#define HW_BLOCKS_REST 16

/* By the name of proc/allocator.h; NULL is none. */
enum hw_block_rule hw_block_rule_of(const char *allocator);

/* The classes of the others. */
uint64_t hw_block_class(enum hw_block_rule rule, uint64_t size);

static inline uint64_t hw_block_in_arena(uint64_t size)
{
    uint64_t block = (size + 8 + 15) & ~UINT64_C(15);
    return block < 32 ? 32 : block;
}

/* Of glibc's large blocks; one in 256 of them is taken for one with a mapping of its own. */
static inline bool hw_block_is_in_arena(uint64_t size, uint64_t address)
{
    return size >= HW_BLOCKS_OWN_MAPPING && address % 4096 != 16;
}

/* in_arena: a large block of glibc that has no mapping of its own. Sizes below 2^60. */
static inline uint64_t hw_block_bytes(enum hw_block_rule rule, uint64_t size, bool in_arena)
{
    if (rule != HW_BLOCKS_GLIBC)
        return hw_block_class(rule, size);
    if (size < HW_BLOCKS_OWN_MAPPING || in_arena)
        return hw_block_in_arena(size);
    return (hw_block_in_arena(size) + 8 + 4095) & ~UINT64_C(4095);
}

#endif
