/*
 * near.h - live samples of small blocks, found by their address alone
 *
 * Why:     when every allocation is recorded, every free is a lookup, and its cost is one cache
 *          miss. A word for each 32 bytes of heap keeps the order of the heap: what the program
 *          has in its caches has its words there too, and there is no key to store.
 * Shapes:  regions of 2 MiB of address space own a chunk of 65536 words, for good. A word is
 *              tag << 48 | sample id | held << 2 | (address / 8) % 4
 *          with tag 0 for a claimed one and 0 for an empty one. Sample ids are multiples of 8.
 *          What finds its word taken, its chunk owned by another region or is too large (its share
 *          of words would be more memory than an entry of the map of live.c) goes to that map.
 * Threads: an empty word is claimed by compare-and-swap, since two blocks of 8 or 16 bytes may
 *          share it. Everything after that is a plain store: only the thread that owns the block
 *          may free it or move it, whatever allocator it is from.
 */
#ifndef HW_CLIENT_NEAR_H
#define HW_CLIENT_NEAR_H

#include "client/client.h"

#define HW_NEAR_MAX_SIZE     128u
#define HW_NEAR_MAX_INTERVAL 256u

#define HW_NEAR_GRANULE_BITS 5u
#define HW_NEAR_REGION_BITS  21u
#define HW_NEAR_CHUNK_BITS   (HW_NEAR_REGION_BITS - HW_NEAR_GRANULE_BITS)
#define HW_NEAR_CHUNKS       512u /* 1 GiB of heap; 256 MiB of address space */
#define HW_NEAR_HELD         4u

extern HW_HIDDEN _Atomic(_Atomic uint64_t *) hw_near_words; /* NULL = there are none */
extern HW_HIDDEN _Atomic uint32_t hw_near_owner[HW_NEAR_CHUNKS];

/* A heap of up to 1 GiB in one piece has all its chunks. */
static inline uint32_t hw_near_chunk(uint64_t region)
{
    return (uint32_t)(region ^ (region >> 9) * 0x9e3779b1u >> 13) & (HW_NEAR_CHUNKS - 1);
}

static inline bool hw_near_can(uint32_t heap_id, uint64_t id)
{
    return heap_id == HW_HEAP_ID_LIBC && (id & 7) == 0 && id >> 47 == 0;
}

/* The word of an address; NULL = not here. own: take the chunk if nobody has it. */
static inline _Atomic uint64_t *hw_near_word(uint64_t id, bool own)
{
    _Atomic uint64_t *words = atomic_load_explicit(&hw_near_words, memory_order_acquire);
    if (!words)
        return NULL;
    uint32_t region = (uint32_t)(id >> HW_NEAR_REGION_BITS) + 1; /* 0 = nobody */
    uint32_t chunk = hw_near_chunk(region);
    uint32_t owner = atomic_load_explicit(&hw_near_owner[chunk], memory_order_relaxed);
    if (hw_unlikely(owner != region)) {
        if (!own || owner != 0 ||
            (!atomic_compare_exchange_strong(&hw_near_owner[chunk], &owner, region) &&
             owner != region))
            return NULL;
    }
    uint64_t at = id >> HW_NEAR_GRANULE_BITS & ((1u << HW_NEAR_CHUNK_BITS) - 1);
    return words + ((uint64_t)chunk << HW_NEAR_CHUNK_BITS) + at;
}

static inline bool hw_near_holds(const void *slot)
{
    uintptr_t base = (uintptr_t)atomic_load_explicit(&hw_near_words, memory_order_relaxed);
    return base && (uintptr_t)slot - base < (8ull * HW_NEAR_CHUNKS) << HW_NEAR_CHUNK_BITS;
}

static inline _Atomic uint64_t *hw_near_claim(uint64_t id)
{
    _Atomic uint64_t *w = hw_near_word(id, true);
    uint64_t none = 0;
    if (!w || !atomic_compare_exchange_strong_explicit(w, &none, HW_NEAR_HELD, memory_order_acquire,
                                                       memory_order_relaxed))
        return NULL;
    return w;
}

static inline void hw_near_publish(_Atomic uint64_t *w, uint64_t id, uint64_t val)
{
    atomic_store_explicit(w, (val & ~7ull) | (id >> 3 & 3), memory_order_release);
}

static inline _Atomic uint64_t *hw_near_take(uint64_t id, uint64_t *val)
{
    _Atomic uint64_t *w = hw_near_word(id, false);
    if (!w)
        return NULL;
    uint64_t v = atomic_load_explicit(w, memory_order_acquire);
    if (v >> 48 == 0 || (v & 7) != (id >> 3 & 3))
        return NULL;
    atomic_store_explicit(w, v | HW_NEAR_HELD, memory_order_relaxed);
    *val = v & ~7ull;
    return w;
}

static inline void hw_near_put_back(_Atomic uint64_t *w)
{
    uint64_t v = atomic_load_explicit(w, memory_order_relaxed);
    atomic_store_explicit(w, v & ~(uint64_t)HW_NEAR_HELD, memory_order_release);
}

#endif
