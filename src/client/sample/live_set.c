/*
 * live_set.c - the exact map of live samples
 *
 * Segments: the first two have the same size, every later one is as large as all before it
 *           together, so the whole doubles. A key has two buckets of 4 slots in each segment (two
 *           hashes), and all of them are searched, newest segment first: there are no chains and so
 *           no tombstones, a slot is reusable the moment it is empty. With two choices in every
 *           segment the newest overflows at about 60 % and the older ones take the rest, so the map
 *           grows when it is about five sixths full.
 *
 * If nearly every block is recorded, small blocks are in live_direct_map.h's words instead. A byte
 * for each 512 bytes of heap counts what is in the segments, so that other blocks are not looked up
 * there.
 *
 *      claim    0 -> 1        by one compare-and-swap; the slot is ours and invisible
 *      publish  val, then key by release: pairs with the acquire in find()
 *      take     key -> 2      by one compare-and-swap; drop makes it 0, put_back the key again
 *
 * Unmapping it is Dekker's algorithm, as for sessions (client_guard.c):
 *
 *      visitor: take                    the thread that gives it back
 *      busy = frame                     epoch is odd
 *      (compiler barrier)               membarrier
 *      epoch is odd? then nothing       every busy word 0?  then unmap
 *
 * A thread that claims has seen in its visit that a session runs, which is over before this begins,
 * or checks the epoch itself.
 */
#include "client/sample/live_set.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/bytes.h"

#include "client/boot.h"
#include "client/kernel/kernel.h"
#include "client/kernel/own_memory.h"
#include "client/kernel/process_limits.h"
#include "client/sample/live_direct_map.h"

#define SLOTS        4u
#define FIRST_BITS   12u /* buckets of the first segment: 16384 slots, 256 KiB */
#define MAX_SEGMENTS 16u
#define KEY_CLAIMED  1u
#define KEY_HELD     2u
#define FAR_COUNTERS 65536u

struct bucket {
    struct hw_live_set_slot slots[SLOTS];
};
_Static_assert(sizeof(struct bucket) == 64, "one cache line");

_Atomic uint8_t hw_live_set_counters[HW_LIVE_COUNTERS] __attribute__((aligned(4096)));

struct segment {
    _Atomic(struct bucket *) buckets;
    uint32_t bits; /* log2 of their number; set before buckets */
};

static struct segment segments[MAX_SEGMENTS];
static _Atomic uint32_t n_segments;
static _Atomic uint32_t live_epoch;
static _Atomic uint8_t far_counters[FAR_COUNTERS] __attribute__((aligned(4096)));

_Atomic(_Atomic uint64_t *) hw_live_direct_words;
_Atomic uint32_t hw_live_direct_owner[HW_LIVE_DIRECT_CHUNKS];

/* Ids below 2^56 (all addresses) of different heaps never share a key. */
static uint64_t key_of(uint32_t heap_id, uint64_t id)
{
    uint64_t k = id ^ (uint64_t)(heap_id - HW_HEAP_ID_LIBC) << 56;
    return k > KEY_HELD ? k : k | 1ull << 63;
}

static uint64_t hash(uint64_t k)
{
    k ^= k >> 32;
    k *= 0xd6e8feb86659fd93u;
    k ^= k >> 29;
    k *= 0x9fb21c651e98df25u;
    return k ^ k >> 32;
}

static struct bucket *bucket_of(uint32_t segment, uint64_t h, uint32_t choice)
{
    const struct segment *s = &segments[segment];
    struct bucket *b = atomic_load_explicit(&s->buckets, memory_order_acquire);
    return &b[(choice ? h >> 32 : h) & ((1ull << s->bits) - 1)];
}

#define NEAR_SHARE 16 /* of RLIMIT_AS */

static void *reserve(size_t n, int prot)
{
    void *p = mmap(NULL, n, prot, HW_OWN_MEMORY, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    hw_own_memory_add(p, n);
    return p;
}

static void give_back(void *p, size_t n)
{
    hw_own_memory_remove(p, n);
    (void)munmap(p, n);
}

static bool segment_add(uint32_t i, uint32_t bits)
{
    struct bucket *b = reserve(sizeof(struct bucket) << bits, PROT_READ | PROT_WRITE);
    if (!b)
        return false;
    segments[i].bits = bits;
    atomic_store_explicit(&segments[i].buckets, b, memory_order_release);
    atomic_store_explicit(&n_segments, i + 1, memory_order_release);
    return true;
}

int hw_live_set_init(void)
{
    return atomic_load(&n_segments) != 0 || segment_add(0, FIRST_BITS) ? 0 : -1;
}

/* Without room for the words (a limit on address space, or 32 bits of it) the segments do it,
 * slower. */
void hw_live_set_expect(uint64_t interval)
{
    uint32_t free_lock = 0;
    if (sizeof(void *) < 8 || interval == 0 || interval > HW_LIVE_DIRECT_MAX_INTERVAL ||
        atomic_load(&hw_live_direct_words) ||
        !hw_fits_address_limit(8 * HW_LIVE_DIRECT_WORDS, NEAR_SHARE) || hw_locks_future_maps() ||
        !atomic_compare_exchange_strong(&hw_process_page.live_lock, &free_lock, 1))
        return;
    atomic_store(&hw_live_direct_words, reserve(8 * HW_LIVE_DIRECT_WORDS, PROT_NONE));
    atomic_store(&hw_process_page.live_lock, 0);
}

HW_COLD bool hw_live_direct_open(_Atomic uint64_t *words, uint32_t chunk, uint32_t region)
{
    uint32_t nobody = 0;
    int saved = errno;
    if (hw_sandbox() || !atomic_compare_exchange_strong(&hw_live_direct_owner[chunk], &nobody,
                                                        HW_LIVE_DIRECT_OPENING))
        return nobody == region;
    bool ok = true;
    for (uint32_t level = 0; level < HW_LIVE_DIRECT_LEVELS; level++) {
        _Atomic uint64_t *at = words + (level ? HW_LIVE_DIRECT_LEVEL_WORDS(0) : 0) +
                               ((uint64_t)chunk << HW_LIVE_DIRECT_CHUNK_BITS(level));
        ok &= mprotect(at, 8ull << HW_LIVE_DIRECT_CHUNK_BITS(level), PROT_READ | PROT_WRITE) == 0;
    }
    errno = saved;
    if (ok) /* else it stays in this state for ever: the map does it */
        atomic_store_explicit(&hw_live_direct_owner[chunk], region, memory_order_release);
    return ok;
}

/* The map is full for one key. mmap is the one call made outside of a wait: a program that may
 * not make it cannot grow its heap either. */
static HW_COLD bool grow(uint32_t seen)
{
    uint32_t free_lock = 0;
    if (seen == 0 || seen >= MAX_SEGMENTS || hw_sandbox() == HW_SANDBOX_STRICT)
        return false;
    if (!atomic_compare_exchange_strong(&hw_process_page.live_lock, &free_lock, 1)) {
        /* Another thread is growing it; it takes a few microseconds unless it was stopped. */
        for (int i = 0; i < 20000 && atomic_load(&n_segments) == seen; i++)
            atomic_signal_fence(memory_order_seq_cst);
        return atomic_load(&n_segments) != seen;
    }
    const struct segment *last = &segments[seen - 1];
    bool ok = atomic_load(&n_segments) != seen ||
              segment_add(seen, seen == 1 ? FIRST_BITS : last->bits + 1);
    atomic_store(&hw_process_page.live_lock, 0);
    return ok;
}

uint32_t hw_live_set_epoch(void)
{
    return atomic_load_explicit(&live_epoch, memory_order_acquire);
}

static bool is_closed(void)
{
    return hw_live_set_epoch() & 1;
}

/* An odd epoch was read while a thread tried to unmap the set, and is the same at its next try. */
bool hw_live_set_is_since(uint32_t epoch)
{
    return !(epoch & 1) && epoch == hw_live_set_epoch();
}

static _Atomic bool is_marked; /* hw_live_set_mark */

void hw_live_set_mark(uint64_t id)
{
    atomic_store(&is_marked, true);
    atomic_store(&hw_live_set_counters[hw_live_set_index(id)], 255);
}

/* With nothing to find, counts that are too high would make every later free search for it. */
static void forget_counts(void)
{
    if (atomic_load(&is_marked))
        return;
    (void)madvise(hw_live_set_counters, sizeof hw_live_set_counters, MADV_DONTNEED);
    (void)madvise(far_counters, sizeof far_counters, MADV_DONTNEED); /* fails: locked; they stay */
}

/* Of words that no longer exist: what an owner has taken may still be touched. */
static void forget_owners(void)
{
    for (uint32_t i = 0; i < HW_LIVE_DIRECT_CHUNKS; i++)
        atomic_store_explicit(&hw_live_direct_owner[i], 0, memory_order_relaxed);
}

static void unmap_all(void)
{
    void *words = (void *)(uintptr_t)atomic_exchange(&hw_live_direct_words, NULL);
    if (words)
        give_back(words, 8 * HW_LIVE_DIRECT_WORDS);
    forget_owners();
    uint32_t n = atomic_exchange(&n_segments, 0);
    for (uint32_t i = 0; i < n; i++)
        give_back(atomic_exchange(&segments[i].buckets, NULL), sizeof(struct bucket)
                                                                   << segments[i].bits);
    forget_counts();
}

bool hw_live_set_give_back(bool (*nobody_is_inside)(void))
{
    uint32_t epoch = hw_live_set_epoch();
    if (atomic_load(&n_segments) == 0)
        return true;
    atomic_store(&live_epoch, epoch | 1);
    bool is_idle = nobody_is_inside();
    if (is_idle)
        unmap_all();
    atomic_store(&live_epoch, is_idle ? epoch + 2 : epoch);
    return is_idle;
}

void hw_live_set_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes), void *arg,
                              bool counters)
{
    const void *words = (const void *)atomic_load(&hw_live_direct_words);
    if (words)
        fn(arg, words, 8 * HW_LIVE_DIRECT_WORDS);
    for (uint32_t i = atomic_load(&n_segments); i-- > 0;)
        fn(arg, (const void *)atomic_load(&segments[i].buckets),
           sizeof(struct bucket) << segments[i].bits);
    if (counters)
        fn(arg, (const void *)hw_live_set_counters, sizeof hw_live_set_counters);
}

/* What the parent had unmapped by then is not known: some addresses are lost, nothing else. */
void hw_live_set_forked(void)
{
    if (!is_closed())
        return;
    atomic_store(&hw_live_direct_words, NULL);
    forget_owners();
    atomic_store(&n_segments, 0);
    atomic_fetch_add(&live_epoch, 1);
}

static struct hw_live_set_slot *claim_in(struct bucket *b)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint64_t none = 0;
        if (atomic_load_explicit(&b->slots[i].key, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&b->slots[i].key, &none, KEY_CLAIMED,
                                                    memory_order_acquire, memory_order_relaxed))
            return &b->slots[i];
    }
    return NULL;
}

static uint32_t n_used(const struct bucket *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SLOTS; i++)
        n += atomic_load_explicit(&b->slots[i].key, memory_order_relaxed) != 0;
    return n;
}

/* By address: if the program has the block in its caches, so is its counter. */
static _Atomic uint8_t *far_counter(uint64_t id)
{
    return &far_counters[(id >> 9 ^ id >> 25) & (FAR_COUNTERS - 1)];
}

/* The newest segment has most of them. */
static void prefetch_far(uint32_t heap_id, uint64_t id)
{
    uint64_t h = hash(key_of(heap_id, id));
    uint32_t n = atomic_load_explicit(&n_segments, memory_order_acquire);
    if (hw_unlikely(n == 0))
        return;
    hw_prefetch_write(bucket_of(n - 1, h, 0));
    hw_prefetch_write(bucket_of(n - 1, h, 1));
    hw_prefetch_write((const void *)far_counter(id));
}

void hw_live_set_prefetch(uint32_t heap_id, uint64_t id, uint64_t size)
{
    uint32_t level = hw_live_direct_level(heap_id, id, size);
    const void *w =
        level < HW_LIVE_DIRECT_LEVELS ? (const void *)hw_live_direct_word(id, level, false) : NULL;
    hw_prefetch_write((const void *)&hw_live_set_counters[hw_live_set_index(id)]);
    if (w) {
        hw_prefetch_write(w);
        return;
    }
    prefetch_far(heap_id, id);
}

/* Not where blocks are found by their address alone: those are in the caches if the block is. */
void hw_live_set_prefetch_take(uint32_t heap_id, uint64_t id)
{
    if (atomic_load_explicit(&hw_live_direct_words, memory_order_relaxed) == NULL)
        prefetch_far(heap_id, id);
}

struct hw_live_set_slot *hw_live_set_claim(uint32_t heap_id, uint64_t id, uint64_t size)
{
    uint32_t level = hw_live_direct_level(heap_id, id, size);
    if (level < HW_LIVE_DIRECT_LEVELS) {
        _Atomic uint64_t *w = hw_live_direct_claim(id, level);
        if (w)
            return (struct hw_live_set_slot *)(void *)w;
    }
    uint64_t h = hash(key_of(heap_id, id));
    for (;;) {
        uint32_t n = atomic_load_explicit(&n_segments, memory_order_acquire);
        for (uint32_t i = n; i-- > 0;) {
            struct bucket *a = bucket_of(i, h, 0), *b = bucket_of(i, h, 1);
            bool a_first = n_used(a) <= n_used(b);
            struct hw_live_set_slot *s = claim_in(a_first ? a : b);
            if (!s)
                s = claim_in(a_first ? b : a);
            if (s)
                return s;
        }
        if (!grow(n))
            return NULL;
    }
}

static _Atomic uint64_t *as_word(struct hw_live_set_slot *slot)
{
    return (_Atomic uint64_t *)(void *)slot;
}

void hw_live_set_unclaim(struct hw_live_set_slot *slot)
{
    if (hw_live_direct_holds(slot))
        atomic_store_explicit(as_word(slot), 0, memory_order_release);
    else
        atomic_store_explicit(&slot->key, 0, memory_order_release);
}

/* A counter that reached 255 stays there: it no longer knows how many it counts. */
static void counter_change(_Atomic uint8_t *c, int by)
{
    uint8_t old = atomic_load_explicit(c, memory_order_relaxed);
    bool alone = hw_is_single_threaded();
    while (alone && old != 255 && !(by < 0 && old == 0))
        if (hw_single_thread_cas_u8(c, &old, (uint8_t)(old + by)))
            return;
    while (old != 255 && !(by < 0 && old == 0))
        if (atomic_compare_exchange_weak_explicit(c, &old, (uint8_t)(old + by),
                                                  memory_order_relaxed, memory_order_relaxed))
            break;
}

void hw_live_set_publish(struct hw_live_set_slot *slot, uint32_t heap_id, uint64_t id, uint64_t val)
{
    counter_change(&hw_live_set_counters[hw_live_set_index(id)], 1);
    if (hw_live_direct_holds(slot)) {
        hw_live_direct_publish(as_word(slot), id, val);
        return;
    }
    uint64_t key = key_of(heap_id, id);
    counter_change(far_counter(id), 1);
    atomic_store_explicit(&slot->val, val, memory_order_relaxed);
    atomic_store_explicit(&slot->key, key, memory_order_release);
}

static struct hw_live_set_slot *take_far(uint64_t key, uint64_t h, uint64_t *val)
{
    for (uint32_t i = atomic_load_explicit(&n_segments, memory_order_acquire); i-- > 0;)
        for (uint32_t choice = 0; choice < 2; choice++) {
            struct bucket *b = bucket_of(i, h, choice);
            for (uint32_t k = 0; k < SLOTS; k++) {
                struct hw_live_set_slot *s = &b->slots[k];
                if (atomic_load_explicit(&s->key, memory_order_acquire) != key)
                    continue;
                uint64_t v = atomic_load_explicit(&s->val, memory_order_relaxed);
                uint64_t expected = key;
                if (atomic_compare_exchange_strong_explicit(
                        &s->key, &expected, KEY_HELD, memory_order_acquire, memory_order_relaxed)) {
                    *val = v;
                    return s;
                }
            }
        }
    return NULL;
}

static uint64_t find_far(uint64_t key, uint64_t h)
{
    for (uint32_t i = atomic_load_explicit(&n_segments, memory_order_acquire); i-- > 0;)
        for (uint32_t k = 0; k < 2 * SLOTS; k++) {
            struct hw_live_set_slot *s = &bucket_of(i, h, k / SLOTS)->slots[k % SLOTS];
            if (atomic_load_explicit(&s->key, memory_order_acquire) == key)
                return atomic_load_explicit(&s->val, memory_order_relaxed);
        }
    return 0;
}

bool hw_live_set_has(uint32_t heap_id, uint64_t id, uint32_t tag)
{
    if (hw_unlikely(is_closed()))
        return false;
    uint64_t key = key_of(heap_id, id);
    if (find_far(key, hash(key)) >> 48 == tag)
        return true;
    for (uint32_t level = 0; level < HW_LIVE_DIRECT_LEVELS && heap_id == HW_HEAP_ID_LIBC; level++) {
        const _Atomic uint64_t *w = id >> 47 ? NULL : hw_live_direct_word(id, level, false);
        uint64_t v = w ? atomic_load_explicit(w, memory_order_acquire) : 0;
        if (v >> 48 == tag && (v & 7) == hw_live_direct_place(id, level) &&
            id % (level ? 16 : 8) == 0)
            return true;
    }
    return false;
}

/* The segments first: for large blocks the words are memory that nothing has touched. */
struct hw_live_set_slot *hw_live_set_take(uint32_t heap_id, uint64_t id, uint64_t *val)
{
    if (hw_unlikely(is_closed()))
        return NULL;
    if (atomic_load_explicit(far_counter(id), memory_order_relaxed) != 0) {
        uint64_t key = key_of(heap_id, id);
        struct hw_live_set_slot *s = take_far(key, hash(key), val);
        if (s)
            return s;
    }
    if (heap_id != HW_HEAP_ID_LIBC || id >> 47 != 0)
        return NULL;
    return (struct hw_live_set_slot *)(void *)hw_live_direct_take(id, val);
}

void hw_live_set_drop(struct hw_live_set_slot *slot, uint64_t id)
{
    if (!hw_live_direct_holds(slot))
        counter_change(far_counter(id), -1);
    hw_live_set_unclaim(slot);
    counter_change(&hw_live_set_counters[hw_live_set_index(id)], -1);
}

void hw_live_set_put_back(struct hw_live_set_slot *slot, uint32_t heap_id, uint64_t id,
                          uint64_t val)
{
    if (hw_live_direct_holds(slot))
        hw_live_direct_publish(as_word(slot), id, val);
    else
        atomic_store_explicit(&slot->key, key_of(heap_id, id), memory_order_release);
}
