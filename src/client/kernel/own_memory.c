/*
 * own_memory.c - the list is words that are each stored at once: no reader sees half a range
 *
 * What two threads copy at the same time ends as the list is, not as one of them has read it before
 * a change: each compares after its store.
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

static void add(uint64_t word)
{
    for (uint32_t i = 0; word != 0 && i < HW_RING_OWN; i++)
        if (atomic_load(&list[i]) == 0 && replace(i, 0, word))
            return;
}

static uint64_t word_of(const void *at, size_t n_bytes, bool stays)
{
    return hw_ring_own_of((uintptr_t)at, n_bytes, stays);
}

void hw_own_memory_add(const void *at, size_t n_bytes)
{
    add(word_of(at, n_bytes, /* stays = */ false));
}

/* The range of the word, with its neighbour; 0 = they are none, or it may go. */
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
    add(word);
}

void hw_own_memory_remove(const void *at, size_t n_bytes)
{
    uint64_t word = word_of(at, n_bytes, /* stays = */ false);
    for (uint32_t i = 0; word != 0 && i < HW_RING_OWN; i++)
        if (atomic_load(&list[i]) == word && replace(i, word, 0))
            return;
}

void hw_own_memory_show(_Atomic uint64_t *own, _Atomic uint32_t *shown)
{
    uint32_t changes = atomic_load(&hw_own_memory_changes);
    for (uint32_t i = 0; i < HW_RING_OWN; i++) {
        uint64_t word;
        do {
            word = atomic_load(&list[i]);
            atomic_store(&own[i], word);
        } while (atomic_load(&list[i]) != word);
    }
    atomic_store(shown, changes);
}
