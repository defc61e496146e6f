#include "model/memory/block_size.h"

#include <stddef.h>
#include <string.h>

#include "base/bytes.h"
#include "base/memory/lower_bound.h"

#include "base/banned.h"

enum hw_block_rule hw_block_rule_of(const char *allocator)
{
    static const struct {
        const char *name;
        enum hw_block_rule rule;
    } known[] = {{"glibc", HW_BLOCKS_GLIBC},
                 {"jemalloc", HW_BLOCKS_JEMALLOC},
                 {"tcmalloc", HW_BLOCKS_TCMALLOC},
                 {"mimalloc", HW_BLOCKS_MIMALLOC}};
    for (size_t i = 0; allocator && i < HW_ARRAY_LEN(known); i++)
        if (strcmp(allocator, known[i].name) == 0)
            return known[i].rule;
    return HW_BLOCKS_UNKNOWN;
}

static uint64_t round_up(uint64_t size, uint64_t step)
{
    return (size + step - 1) / step * step;
}

/* Multiples of 16, then four classes per power of two. */
static uint64_t quarter_power_class(uint64_t size)
{
    if (size <= 8)
        return 8;
    if (size <= 128)
        return round_up(size, 16);
    int log2 = 63 - __builtin_clzll(size - 1); /* of the next lower power */
    return round_up(size, UINT64_C(1) << (log2 - 2));
}

/* Sizes of which a number of objects fills whole pages of 8192 bytes with little left over. */
static uint64_t tcmalloc_class(uint64_t size)
{
    static const uint32_t classes[] = {
        8,    16,    32,    48,    64,    80,    96,    112,   128,   144,   160,  176,
        192,  208,   224,   240,   256,   288,   320,   352,   384,   416,   448,  480,
        512,  576,   640,   704,   768,   896,   1024,  1152,  1280,  1408,  1536, 1792,
        2048, 2304,  2560,  2816,  3072,  3328,  4096,  4608,  5120,  6144,  6656, 8192,
        9216, 10240, 12288, 13312, 16384, 20480, 24576, 26624, 32768, 40960, 49152};
    size_t n = HW_ARRAY_LEN(classes);
    if (size > classes[n - 1])
        return round_up(size, 8192);
    return classes[HW_LOWER_BOUND(i, 0, n, classes[i] < size)];
}

static uint64_t mimalloc_class(uint64_t size)
{
    if (size <= 131072)
        return quarter_power_class(size);
    uint64_t mib = UINT64_C(1) << 20;
    return round_up(size, size <= mib / 2    ? mib / 16
                          : size <= 8 * mib  ? mib / 2
                          : size <= 32 * mib ? mib
                                             : 4 * mib);
}

uint64_t hw_block_class(enum hw_block_rule rule, uint64_t size)
{
    switch (rule) {
    case HW_BLOCKS_JEMALLOC:
        return quarter_power_class(size);
    case HW_BLOCKS_TCMALLOC:
        return tcmalloc_class(size);
    case HW_BLOCKS_MIMALLOC:
        return mimalloc_class(size);
    case HW_BLOCKS_UNKNOWN:
    case HW_BLOCKS_GLIBC:
        break;
    }
    return size;
}

#define PAGE 4096

uint64_t hw_block_beyond_by_address(uint64_t size, uint64_t address)
{
    if (size < HW_BLOCKS_OWN_MAPPING || address % PAGE != 16)
        return 0;
    return round_up(hw_block_in_arena(size) + 8, PAGE) - hw_block_in_arena(size);
}

#define JEMALLOC_SMALL 14336 /* the largest */
#define JEMALLOC_LARGE 16384 /* the smallest; begins on a page; more alignment costs no memory */

static uint64_t jemalloc_aligned(uint64_t size, uint64_t align)
{
    if (size <= JEMALLOC_SMALL && align <= PAGE) {
        uint64_t block = quarter_power_class(round_up(size ? size : 1, align));
        if (block < JEMALLOC_LARGE)
            return block;
    }
    return size <= JEMALLOC_LARGE ? JEMALLOC_LARGE : quarter_power_class(size);
}

/* If the class's size is a multiple of the alignment, all its blocks are aligned, up to the size of
 * a page. */
static uint64_t tcmalloc_aligned(uint64_t size, uint64_t align)
{
    if (size == 0)
        size = 1;
    return align <= 8192 ? tcmalloc_class(round_up(size, align)) : round_up(size, 8192);
}

/* mimalloc aligns inside a larger block, except for small sizes whose classes are aligned anyway.
 * (It also tries the next block of the small class, but never fills up that class's pages.) */
static uint64_t mimalloc_aligned(uint64_t size, uint64_t align)
{
    bool is_power = size && (size & (size - 1)) == 0;
    bool is_natural = size >= align && (is_power ? size <= 1024 : size <= 128 && size % align == 0);
    return mimalloc_class(is_natural ? size : size + align - 1);
}

uint64_t hw_block_beyond_aligned(enum hw_block_rule rule, uint64_t size, uint32_t align_log2,
                                 bool whole_pages)
{
    uint64_t align = UINT64_C(1) << (align_log2 < 47 ? align_log2 : 47), block = 0;
    uint64_t rounded = whole_pages ? round_up(size ? size : 1, PAGE) : size;
    switch (rule) {
    case HW_BLOCKS_JEMALLOC:
        block = jemalloc_aligned(rounded, align);
        break;
    case HW_BLOCKS_TCMALLOC:
        block = tcmalloc_aligned(rounded, align);
        break;
    case HW_BLOCKS_MIMALLOC:
        block = mimalloc_aligned(rounded, align);
        break;
    case HW_BLOCKS_UNKNOWN:
    case HW_BLOCKS_GLIBC: /* the size is in its chunks */
        break;
    }
    uint64_t plain = hw_block_class(rule, size);
    return block > plain ? block - plain : 0;
}

/* _int_memalign allocates the block, the alignment and another small chunk. */
uint64_t hw_block_gap(uint64_t size, uint64_t bytes, uint32_t align_log2)
{
    uint64_t align = UINT64_C(1) << (align_log2 < 47 ? align_log2 : 47);
    uint64_t whole = round_up(hw_block_in_arena(hw_block_in_arena(size) + align + 32) + 8, PAGE);
    return whole > bytes ? whole - bytes : 0;
}
