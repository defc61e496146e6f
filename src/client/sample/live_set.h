/*
 * live_set.h - which blocks are sampled
 *
 * Why:     every free asks. A byte counter says "surely not" in one load; behind it an exact map
 *          gives the sample id. A wrong "no" would show a leak that does not exist, for ever.
 * Shapes:  counters: 2^20 bytes, made once. Map: segments that are added and never moved, of
 *          buckets of 4 slots (one cache line); each key has two buckets in every segment.
 *          Slot key: 0 empty, 1 claimed, 2 held by a realloc, else (heap, id). A slot that claim
 *          or take gave may also be one of live_direct_map.h's words: it is for these functions
 *          only.
 * Threads: any; claim and take are one compare-and-swap each, in a visit, and so is everything done
 *          with their slot: a detach unmaps the whole set when it sees nobody inside. A realloc
 *          holds its slot between two visits, and compares the epochs before it touches the slot
 *          again.
 */
#ifndef HW_CLIENT_SAMPLE_LIVE_SET_H
#define HW_CLIENT_SAMPLE_LIVE_SET_H

#include "client/client.h"

#define HW_LIVE_COUNTERS (1u << 20)

struct hw_live_set_slot {
    _Atomic uint64_t key;
    _Atomic uint64_t val; /* session tag << 48 | sample id */
};

extern HW_HIDDEN _Atomic uint8_t hw_live_set_counters[HW_LIVE_COUNTERS];

/* Neighbours in memory share cache lines; the high bits separate arenas. */
static inline uint32_t hw_live_set_index(uint64_t id)
{
    return (uint32_t)(id >> 4 ^ id >> 25) & (HW_LIVE_COUNTERS - 1);
}

static inline bool hw_live_set_maybe(uint64_t id)
{
    return atomic_load_explicit(&hw_live_set_counters[hw_live_set_index(id)],
                                memory_order_relaxed) != 0;
}

/* Marks a block of ours: every free of it takes the slow path, for good. */
void hw_live_set_mark(uint64_t id);
int hw_live_set_init(void); /* creates the first segment if there is none */
/* Empties the set and unmaps its memory. No session runs, and nobody_is_inside says whether
 * every visit that had begun is over. false = one is not: nothing was changed. */
bool hw_live_set_give_back(bool (*nobody_is_inside)(void));
/* With the counters, and also those that are never unmapped. */
void hw_live_set_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes), void *arg,
                              bool counters);
void hw_live_set_forked(void);    /* in a child whose parent may have been unmapping it */
uint32_t hw_live_set_epoch(void); /* another one: what was there before is gone. Odd: it is going */
/* Inside a visit: what was taken after this epoch was read may still be touched. */
bool hw_live_set_is_since(uint32_t epoch);
/* A session with this interval begins: makes room when nearly every block will be live here. */
void hw_live_set_expect(uint64_t interval);

void hw_live_set_prefetch(uint32_t heap_id, uint64_t id,
                          uint64_t size); /* claim or take will follow soon */
void hw_live_set_prefetch_take(uint32_t heap_id, uint64_t id);
/* A claimed slot for the id, or NULL: no memory. Then publish or unclaim. */
struct hw_live_set_slot *hw_live_set_claim(uint32_t heap_id, uint64_t id, uint64_t size);
void hw_live_set_publish(struct hw_live_set_slot *slot, uint32_t heap_id, uint64_t id,
                         uint64_t val);
void hw_live_set_unclaim(struct hw_live_set_slot *slot);

/* Is it a live sample of this session? */
bool hw_live_set_has(uint32_t heap_id, uint64_t id, uint32_t tag);
/* Hides the id and gives its slot and value; NULL = not there. Then drop or put_back. */
struct hw_live_set_slot *hw_live_set_take(uint32_t heap_id, uint64_t id, uint64_t *val);
void hw_live_set_drop(struct hw_live_set_slot *slot, uint64_t id);
void hw_live_set_put_back(struct hw_live_set_slot *slot, uint32_t heap_id, uint64_t id,
                          uint64_t val);

static inline uint64_t hw_live_set_val(uint32_t tag, uint64_t sample_id)
{
    return (uint64_t)tag << 48 | (sample_id & 0xffffffffffffu);
}

#endif
