/*
 * Linear probing at a load of at most 1/2. Removal moves later entries of the run back (backward
 * shift), so that lookups never find a tombstone and a map that lives for days does not decay.
 *
 * Keys are often what a target or a file says. The hash can be turned round, so without a seed
 * 100,000 keys with one home would be a few lines of somebody's code, and each lookup a walk over
 * them all.
 */
#include "base/memory/map64.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"

#include "base/banned.h"

static inline size_t home_of(const struct hw_map64 *m, uint64_t key)
{
    return hw_hash_u64(key ^ m->seed) & m->mask;
}

void hw_map64_done(struct hw_map64 *m)
{
    free(m->slots);
    *m = (struct hw_map64){0};
}

/* The mark of an empty slot must never be looked for: it would be found. */
static inline uint64_t real_key(uint64_t key)
{
    return key - (key == HW_MAP64_NO_KEY);
}

uint64_t *hw_map64_find(const struct hw_map64 *m, uint64_t key)
{
    if (!m->slots)
        return NULL;
    key = real_key(key);
    for (size_t i = home_of(m, key);; i = (i + 1) & m->mask) {
        if (m->slots[i].key == key)
            return &m->slots[i].value;
        if (m->slots[i].key == HW_MAP64_NO_KEY)
            return NULL;
    }
}

bool hw_map64_get(const struct hw_map64 *m, uint64_t key, uint64_t *out)
{
    const uint64_t *v = hw_map64_find(m, key);
    if (!v)
        return false;
    *out = *v;
    return true;
}

static struct hw_map64_slot *insert_new(struct hw_map64 *m, uint64_t key, uint64_t value)
{
    size_t i = home_of(m, key);
    while (m->slots[i].key != HW_MAP64_NO_KEY)
        i = (i + 1) & m->mask;
    m->slots[i] = (struct hw_map64_slot){key, value};
    return &m->slots[i];
}

static int grow(struct hw_map64 *m)
{
    size_t n_slots = m->slots ? (m->mask + 1) * 2 : 16;
    size_t bytes;
    if (__builtin_mul_overflow(n_slots, sizeof *m->slots, &bytes))
        return HW_ENOMEM;
    struct hw_map64 next = {malloc(bytes), n_slots - 1, m->n, hw_hash_seed()};
    if (!next.slots)
        return HW_ENOMEM;
    memset(next.slots, 0xff, bytes);
    for (size_t i = 0; m->slots && i <= m->mask; i++)
        if (m->slots[i].key != HW_MAP64_NO_KEY)
            insert_new(&next, m->slots[i].key, m->slots[i].value);
    free(m->slots);
    *m = next;
    return HW_OK;
}

int hw_map64_at(struct hw_map64 *m, uint64_t key, uint64_t **value, bool *fresh)
{
    uint64_t *v = hw_map64_find(m, key);
    *fresh = !v;
    if (!v) {
        if (!m->slots || (m->n + 1) * 2 > m->mask + 1) {
            int rc = grow(m);
            if (rc < 0)
                return rc;
        }
        v = &insert_new(m, real_key(key), 0)->value;
        m->n++;
    }
    *value = v;
    return HW_OK;
}

int hw_map64_put(struct hw_map64 *m, uint64_t key, uint64_t value)
{
    uint64_t *v;
    bool fresh;
    int rc = hw_map64_at(m, key, &v, &fresh);
    if (rc == HW_OK)
        *v = value;
    return rc;
}

void hw_map64_prefetch(const struct hw_map64 *m, uint64_t key)
{
    if (m->slots)
        hw_prefetch_write(&m->slots[home_of(m, key)]);
}

bool hw_map64_take(struct hw_map64 *m, uint64_t key, uint64_t *out)
{
    uint64_t *v = hw_map64_find(m, key);
    if (!v)
        return false;
    if (out)
        *out = *v;
    size_t hole = (size_t)((struct hw_map64_slot *)(void *)((char *)v -
                                                            offsetof(struct hw_map64_slot, value)) -
                           m->slots);
    for (size_t i = (hole + 1) & m->mask; m->slots[i].key != HW_MAP64_NO_KEY;
         i = (i + 1) & m->mask) {
        size_t home = home_of(m, m->slots[i].key);
        if (((i - home) & m->mask) < ((i - hole) & m->mask))
            continue; /* lies between its home and itself: must stay */
        m->slots[hole] = m->slots[i];
        hole = i;
    }
    m->slots[hole].key = HW_MAP64_NO_KEY;
    m->n--;
    return true;
}

uint64_t hw_hash_seed(void)
{
    static _Atomic uint64_t made; /* 0 = not yet */
    uint64_t none = 0, seed = atomic_load_explicit(&made, memory_order_relaxed);
    if (seed)
        return seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = hw_now_monotonic_ns() ^ (uint64_t)(uintptr_t)&none; /* early in the boot */
    seed |= 1;
    return atomic_compare_exchange_strong(&made, &none, seed) ? seed : none;
}

uint64_t hw_hash_bytes(const void *p, size_t n)
{
    return hw_hash_bytes_seeded(0, p, n);
}

uint64_t hw_hash_bytes_seeded(uint64_t seed, const void *p, size_t n)
{
    const unsigned char *c = p;
    uint64_t h = 0xcbf29ce484222325u ^ n ^ seed;
    while (n >= 8) {
        uint64_t w;
        memcpy(&w, c, 8);
        h = hw_hash_mix(h, w);
        c += 8;
        n -= 8;
    }
    uint64_t w = 0;
    if (n) /* an empty view may have a null pointer */
        memcpy(&w, c, n);
    return hw_hash_mix(h, w);
}
