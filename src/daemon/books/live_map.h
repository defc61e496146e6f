/*
 * live_map.h - live samples by id, in any order
 *
 * Why:     live_samples.h keeps samples that were allocated together in one place; this table has those
 *          that outlived their neighbours, and those that do not fit there.
 * Shapes:  open addressing, a slot is 32 bytes, at most 5/8 full. Ids are ring positions: 256 bytes
 *          of the ring have their home in 256 bytes of the table. Removal leaves no tombstones.
 * Owns:    its slots, straight from the kernel: huge pages where there are any. Zero-initialised is
 *          empty.
 * Errors:  HW_ENOMEM; the table is as it was.
 * Threads: one owner at a time.
 */
#ifndef HW_DAEMON_BOOKS_LIVE_MAP_H
#define HW_DAEMON_BOOKS_LIVE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"

struct hw_live_map_slot {
    uint64_t key;                         /* sample id + 1; 0 = free */
    uint64_t alloc_size : 48, takes : 16; /* hw_alloc_takes() */
    uint64_t sample_size;
    uint32_t cell;
    uint16_t interval; /* number of the heap's interval at that time */
    uint8_t heap_id;
    uint8_t away; /* slots from home; 255 = at least so many */
};
_Static_assert(sizeof(struct hw_live_map_slot) == 32, "two a cache line");

struct hw_live_map {
    struct hw_live_map_slot *slots; /* owned; NULL while empty */
    size_t mask;                    /* number of slots - 1 */
    size_t n, max;
    uint64_t seed; /* a target chooses where its samples lie */
};

#define HW_LIVE_MAP_BLOCK_LOG2 3

void hw_live_map_done(struct hw_live_map *l);
/* The id's slot, found or made (*fresh: the caller fills it). UINT64_MAX is no id. Borrowed until
 * the next change. */
int hw_live_map_at(struct hw_live_map *l, uint64_t id, struct hw_live_map_slot **slot, bool *fresh);
/* Removes it and gives what it was. */
bool hw_live_map_take(struct hw_live_map *l, uint64_t id, struct hw_live_map_slot *out);

static inline size_t hw_live_map_home(const struct hw_live_map *l, uint64_t id)
{
    uint64_t unit = id >> 5;
    return (hw_hash_u64(unit >> HW_LIVE_MAP_BLOCK_LOG2 ^ l->seed) << HW_LIVE_MAP_BLOCK_LOG2 |
            (unit & ((1u << HW_LIVE_MAP_BLOCK_LOG2) - 1))) &
           l->mask;
}

static inline void hw_live_map_prefetch(const struct hw_live_map *l, uint64_t id)
{
    if (!l->slots)
        return;
    size_t home = hw_live_map_home(l, id);
    hw_prefetch_write(&l->slots[home]);
    hw_prefetch_write(&l->slots[(home + 2) & l->mask]); /* removal reads to the run's end */
}

#endif
