/*
 * live_direct_map.h - live samples of small blocks, found by their address alone
 *
 * Why:     when every allocation is recorded, every free is a lookup, and its cost is one cache
 *          miss. A word for each 32 bytes of heap keeps the order of the heap: if the program has a
 *          block in its caches, so is its word, and there is no key to store.
 * Shapes:  two levels, for blocks at least 32 and at least 128 bytes apart: a word for each 32 and
 *          one for each 128 bytes, so that no word is shared and none costs more than an entry of
 *          the map of live_set.c, 32 bytes. Regions of 2 MiB of address space own a chunk of each
 *          level, for good. Before that a chunk is inaccessible, so that a program which locks its
 *          memory does not get all of them. A word is
 *              tag << 48 | sample id | which of the granule's addresses
 *          or 0, empty, or HELD. Sample ids are multiples of 8. A block goes to the map if its word
 *          is taken, its chunk is owned by another region, or it is too large.
 * Threads: an empty word is claimed by compare-and-swap, since two blocks of other allocators may
 *          share it. Everything after that is a plain store: only the thread that owns the block
 *          may free it or move it, whatever allocator it is from.
 */
#ifndef HW_CLIENT_SAMPLE_LIVE_DIRECT_MAP_H
#define HW_CLIENT_SAMPLE_LIVE_DIRECT_MAP_H

#include "client/client.h"

#define HW_LIVE_DIRECT_MAX_INTERVAL 256u
#define HW_LIVE_DIRECT_SIZE_0       104u /* glibc: up to here less than 128 bytes apart */
#define HW_LIVE_DIRECT_SIZE_1       496u /* up to 512 bytes apart */

#define HW_LIVE_DIRECT_LEVELS      2u
#define HW_LIVE_DIRECT_REGION_BITS 21u
#define HW_LIVE_DIRECT_CHUNKS      512u /* 1 GiB of heap */
#define HW_LIVE_DIRECT_HELD        1u   /* claimed, or taken by a realloc: tag 0 */

/* Words in a chunk of a level, and where the level begins: 256 and 64 MiB of address space. */
#define HW_LIVE_DIRECT_GRANULE_BITS(level) (5u + 2 * (level))
#define HW_LIVE_DIRECT_CHUNK_BITS(level)                                                           \
    (HW_LIVE_DIRECT_REGION_BITS - HW_LIVE_DIRECT_GRANULE_BITS(level))
#define HW_LIVE_DIRECT_LEVEL_WORDS(level)                                                          \
    ((uint64_t)HW_LIVE_DIRECT_CHUNKS << HW_LIVE_DIRECT_CHUNK_BITS(level))
#define HW_LIVE_DIRECT_WORDS (HW_LIVE_DIRECT_LEVEL_WORDS(0) + HW_LIVE_DIRECT_LEVEL_WORDS(1))

extern HW_HIDDEN _Atomic(_Atomic uint64_t *) hw_live_direct_words; /* NULL = there are none */
extern HW_HIDDEN _Atomic uint32_t hw_live_direct_owner[HW_LIVE_DIRECT_CHUNKS];
#define HW_LIVE_DIRECT_OPENING UINT32_MAX /* an owner: no region has that number */

/* Makes the chunk, which has no owner, the region's. false: it has another owner now, or it is
 * not possible. */
bool hw_live_direct_open(_Atomic uint64_t *words, uint32_t chunk, uint32_t region);

/* A heap of up to 1 GiB in one piece has all its chunks. */
static inline uint32_t hw_live_direct_chunk(uint64_t region)
{
    return (uint32_t)(region ^ (region >> 9) * 0x9e3779b1u >> 13) & (HW_LIVE_DIRECT_CHUNKS - 1);
}

/* 0 or 1; HW_LIVE_DIRECT_LEVELS = not here. */
static inline uint32_t hw_live_direct_level(uint32_t heap_id, uint64_t id, uint64_t size)
{
    if (heap_id != HW_HEAP_ID_LIBC || id >> 47 != 0)
        return HW_LIVE_DIRECT_LEVELS;
    if (size <= HW_LIVE_DIRECT_SIZE_0)
        return id & 7 ? HW_LIVE_DIRECT_LEVELS : 0;
    return size > HW_LIVE_DIRECT_SIZE_1 || (id & 15) ? HW_LIVE_DIRECT_LEVELS : 1;
}

/* Which address of the granule: four of 8 bytes, or eight of 16. */
static inline uint64_t hw_live_direct_place(uint64_t id, uint32_t level)
{
    return level ? id >> 4 & 7 : id >> 3 & 3;
}

/* The word of an address on a level; NULL = not here. own: take the chunk if it has no owner. */
static inline _Atomic uint64_t *hw_live_direct_word(uint64_t id, uint32_t level, bool own)
{
    _Atomic uint64_t *words = atomic_load_explicit(&hw_live_direct_words, memory_order_acquire);
    if (!words)
        return NULL;
    uint32_t region = (uint32_t)(id >> HW_LIVE_DIRECT_REGION_BITS) + 1; /* 0 = none */
    uint32_t chunk = hw_live_direct_chunk(region);
    uint32_t owner = atomic_load_explicit(&hw_live_direct_owner[chunk], memory_order_relaxed);
    if (hw_unlikely(owner != region)) {
        if (!own || owner != 0 || !hw_live_direct_open(words, chunk, region))
            return NULL;
    }
    uint64_t mask = (1ull << HW_LIVE_DIRECT_CHUNK_BITS(level)) - 1;
    uint64_t at = id >> HW_LIVE_DIRECT_GRANULE_BITS(level) & mask;
    return words + (level ? HW_LIVE_DIRECT_LEVEL_WORDS(0) : 0) +
           ((uint64_t)chunk << HW_LIVE_DIRECT_CHUNK_BITS(level)) + at;
}

static inline bool hw_live_direct_holds(const void *slot)
{
    uintptr_t base = (uintptr_t)atomic_load_explicit(&hw_live_direct_words, memory_order_relaxed);
    return base && (uintptr_t)slot - base < 8 * HW_LIVE_DIRECT_WORDS;
}

static inline uint32_t hw_live_direct_level_of(const void *slot)
{
    uintptr_t base = (uintptr_t)atomic_load_explicit(&hw_live_direct_words, memory_order_relaxed);
    return (uintptr_t)slot - base >= 8 * HW_LIVE_DIRECT_LEVEL_WORDS(0);
}

static inline _Atomic uint64_t *hw_live_direct_claim(uint64_t id, uint32_t level)
{
    _Atomic uint64_t *w = hw_live_direct_word(id, level, true);
    uint64_t none = 0;
    if (!w)
        return NULL;
    bool done =
        hw_is_single_threaded()
            ? hw_single_thread_cas_u64(w, &none, HW_LIVE_DIRECT_HELD)
            : atomic_compare_exchange_strong_explicit(w, &none, HW_LIVE_DIRECT_HELD,
                                                      memory_order_acquire, memory_order_relaxed);
    return done ? w : NULL;
}

/* Also puts a taken one back. */
static inline void hw_live_direct_publish(_Atomic uint64_t *w, uint64_t id, uint64_t val)
{
    uint64_t place = hw_live_direct_place(id, hw_live_direct_level_of(w));
    atomic_store_explicit(w, (val & ~7ull) | place, memory_order_release);
}

static inline _Atomic uint64_t *hw_live_direct_take(uint64_t id, uint64_t *val)
{
    _Atomic uint64_t *w = hw_live_direct_word(id, 0, false);
    if (!w || (id & 7))
        return NULL;
    _Atomic uint64_t *w1 = hw_live_direct_word(id, 1, false);
    uint64_t v = atomic_load_explicit(w, memory_order_acquire);
    uint64_t v1 = atomic_load_explicit(w1, memory_order_acquire); /* not after a wait for v */
    if (v >> 48 == 0 || (v & 7) != hw_live_direct_place(id, 0)) {
        if (v1 >> 48 == 0 || (v1 & 7) != hw_live_direct_place(id, 1) || (id & 15))
            return NULL;
        w = w1;
        v = v1;
    }
    atomic_store_explicit(w, HW_LIVE_DIRECT_HELD, memory_order_relaxed);
    *val = v & ~7ull;
    return w;
}

#endif
