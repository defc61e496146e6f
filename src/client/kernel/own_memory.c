/*
 * own_memory.c - a list of words, each stored atomically: no reader sees half a range
 *
 * If two threads copy at the same time, the result is the current list, not what one of them read
 * before a change: each compares after its store.
 */
#include "client/kernel/own_memory.h"

#include "client/client.h"
#include "wire/ring.h"

_Atomic uint32_t hw_own_memory_changes;
static _Atomic uint64_t list[HW_RING_OWN];

static bool replace(uint32_t i, uint64_t old, uint64_t word)
{
    if (!atomic_compare_exchange_strong(&list[i], &old, word))
        return false;
    (void)atomic_fetch_add(&hw_own_memory_changes, 1);
    return true;
}

/* Bytes without a place in the list. */
static _Atomic uint64_t left;

static void add(uint64_t word, size_t n_bytes)
{
    for (uint32_t i = 0; word != 0 && i < HW_RING_OWN; i++)
        if (atomic_load(&list[i]) == 0 && replace(i, 0, word))
            return;
    (void)atomic_fetch_add(&left, n_bytes);
    (void)atomic_fetch_add(&hw_own_memory_changes, 1);
}

static uint64_t word_of(const void *at, size_t n_bytes, bool stays)
{
    return hw_ring_own_of((uintptr_t)at, n_bytes, stays);
}

void hw_own_memory_add(const void *at, size_t n_bytes)
{
    add(word_of(at, n_bytes, /* stays = */ false), n_bytes);
}

/* The range of the word, joined with its neighbour; 0 = they are not neighbours, or it may be
 * unmapped. */
static uint64_t joined(uint64_t word, uint64_t lo, uint64_t hi)
{
    uint64_t from = hw_ring_own_lo(word), to = hw_ring_own_hi(word);
    if (!(word & HW_RING_OWN_STAYS) || (from != hi && to != lo))
        return 0;
    from = from < lo ? from : lo;
    return hw_ring_own_of(from, (to > hi ? to : hi) - from, /* stays = */ true);
}

void hw_own_memory_add_for_good(const void *at, size_t n_bytes)
{
    uint64_t word = word_of(at, n_bytes, /* stays = */ true);
    for (uint32_t i = 0; word != 0 && i < HW_RING_OWN; i++) {
        uint64_t old = atomic_load(&list[i]);
        uint64_t both = joined(old, hw_ring_own_lo(word), hw_ring_own_hi(word));
        if (both != 0 && replace(i, old, both))
            return;
    }
    add(word, n_bytes);
}

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));

void hw_own_memory_add_image(void)
{
    static bool done;
    uintptr_t lo = (uintptr_t)__ehdr_start;
    if (!done)
        hw_own_memory_add_for_good(__ehdr_start, (uintptr_t)_end - lo);
    done = true;
}

void hw_own_memory_remove(const void *at, size_t n_bytes)
{
    uint64_t word = word_of(at, n_bytes, /* stays = */ false);
    for (uint32_t i = 0; word != 0 && i < HW_RING_OWN; i++)
        if (atomic_load(&list[i]) == word && replace(i, word, 0))
            return;
    (void)atomic_fetch_sub(&left, n_bytes);
    (void)atomic_fetch_add(&hw_own_memory_changes, 1);
}

void hw_own_memory_show(struct hw_ring_shm *shm, _Atomic uint32_t *shown)
{
    _Atomic uint64_t *own = shm->own;
    uint32_t changes = atomic_load(&hw_own_memory_changes);
    for (uint32_t i = 0; i < HW_RING_OWN; i++) {
        uint64_t word;
        do {
            word = atomic_load(&list[i]);
            atomic_store(&own[i], word);
        } while (atomic_load(&list[i]) != word);
    }
    atomic_store(&shm->own_left_bytes, atomic_load(&left));
    atomic_store(shown, changes);
}
