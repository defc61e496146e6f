/*
 * map64.h - open-addressing hash map from uint64_t to uint64_t
 *
 * Why:     sample ids, stack ids, interned keys: all are 64-bit numbers.
 * Shapes:  keys are any value; HW_MAP64_NO_KEY, which marks empty slots, stands for the number
 *          before it, so that numbers from files need no check of their own. Values are any.
 *          Removal leaves no tombstones. Expected O(1); growth doubles and is amortised.
 * Owns:    its slots. Zero-initialised is an empty map.
 * Errors:  HW_ENOMEM from put; the map is as it was.
 * Threads: one owner at a time.
 */
#ifndef HW_BASE_MEMORY_MAP64_H
#define HW_BASE_MEMORY_MAP64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_MAP64_NO_KEY UINT64_MAX

struct hw_map64_slot {
    uint64_t key, value;
};

struct hw_map64 {
    struct hw_map64_slot *slots; /* owned; NULL while empty */
    size_t mask;                 /* number of slots - 1 */
    size_t n;
    uint64_t seed; /* set by the first put */
};

void hw_map64_done(struct hw_map64 *m);
static inline size_t hw_map64_bytes(const struct hw_map64 *m)
{
    return m->slots ? (m->mask + 1) * sizeof *m->slots : 0;
}
bool hw_map64_get(const struct hw_map64 *m, uint64_t key, uint64_t *out);
/* The slot's value, borrowed until the next put or take; NULL when absent. */
uint64_t *hw_map64_find(const struct hw_map64 *m, uint64_t key);
/* The value under key, made with 0 when there was none (*fresh). Borrowed like that of find. */
int hw_map64_at(struct hw_map64 *m, uint64_t key, uint64_t **value, bool *fresh);
void hw_map64_prefetch(const struct hw_map64 *m, uint64_t key);
int hw_map64_put(struct hw_map64 *m, uint64_t key, uint64_t value);  /* replaces */
bool hw_map64_take(struct hw_map64 *m, uint64_t key, uint64_t *out); /* removes; out may be NULL */

static inline uint64_t hw_hash_u64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

static inline uint64_t hw_hash_mix(uint64_t h, uint64_t v)
{
    return hw_hash_u64(h * 0x9e3779b97f4a7c15u + v);
}

/* The same for the same bytes, always and everywhere. */
uint64_t hw_hash_bytes(const void *p, size_t n);
/* For tables: who chooses what goes into them cannot know what shares a slot. */
uint64_t hw_hash_bytes_seeded(uint64_t seed, const void *p, size_t n);
/* A random number, the same for the whole process. Any thread. */
uint64_t hw_hash_seed(void);

#endif
