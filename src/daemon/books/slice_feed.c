/*
 * slice_feed.c - batches of scopes from the ring, and the rest that is still in the threads' slots
 *
 * A rest is copied, not taken: the target sends it later with the whole batch. So each slot's last
 * batch, and how much of it was reported, is remembered.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/saturate.h"
#include "daemon/books/ring_consumer.h"

#include "base/banned.h"

#define MAX_SLICES (4u << 20) /* reported and not written: the file is slower than the program */

struct hw_slice_seen {
    uint32_t next;  /* batches below this came through the ring */
    uint32_t batch; /* of which a rest was reported */
    uint32_t n_told;
    uint64_t last_ns; /* how much the clock readings of a rest and its batch may differ */
};

static struct hw_slice_seen *seen_of(struct hw_ring_consumer *f, uint32_t slot)
{
    if (!f->slots)
        f->slots = calloc(HW_SLICE_SLOTS, sizeof *f->slots);
    return f->slots && slot < HW_SLICE_SLOTS ? &f->slots[slot] : NULL;
}

static uint64_t ns_at(const struct hw_rec_slices *r, uint64_t since_ticks)
{
    uint64_t ticks = r->end_ticks - r->ticks, ns = r->end_time_ns - r->time_ns;
    if (r->end_ticks <= r->ticks || r->end_time_ns <= r->time_ns)
        return r->time_ns;
    return since_ticks >= ticks
               ? r->end_time_ns
               : r->time_ns + hw_sat_uint((double)since_ticks * ((double)ns / (double)ticks));
}

/* Entries [from, n) of a batch. */
static void add(struct hw_ring_consumer *f, const struct hw_rec_slices *r, const uint8_t *entries,
                uint32_t from, uint32_t n, struct hw_slice_seen *seen)
{
    for (uint32_t i = from; i < n; i++) {
        struct hw_slice_entry e;
        memcpy(&e, entries + i * sizeof e, sizeof e);
        struct hw_fed_slice s = {.id = e.id,
                                 .tid = r->tid,
                                 .depth = (uint32_t)(e.when & HW_SLICE_MAX_DEPTH),
                                 .time_ns = ns_at(r, e.when >> HW_SLICE_DEPTH_BITS)};
        if (s.time_ns < seen->last_ns)
            s.time_ns = seen->last_ns;
        seen->last_ns = s.time_ns;
        size_t have = f->slices.n + atomic_load_explicit(&f->n_slices_told, memory_order_relaxed);
        if (have >= MAX_SLICES || hw_vec_push(&f->slices, s) < 0)
            f->n_lost_slices++;
    }
}

bool hw_ring_consumer_slices(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size)
{
    struct hw_rec_slices r;
    if (size < sizeof r)
        return false;
    memcpy(&r, rec, sizeof r);
    uint32_t n = (size - (uint32_t)sizeof r) / (uint32_t)sizeof(struct hw_slice_entry);
    struct hw_slice_seen *seen = seen_of(f, r.slot);
    if (!seen || n > HW_SLICE_BATCH) {
        f->n_lost_slices += n;
        return r.slot < HW_SLICE_SLOTS && n <= HW_SLICE_BATCH;
    }
    uint32_t from = seen->batch == r.batch && seen->n_told < n ? seen->n_told : 0;
    if (seen->batch == r.batch && seen->n_told >= n)
        from = n;
    add(f, &r, rec + sizeof r, from, n, seen);
    seen->next = r.batch + 1;
    seen->batch = seen->next;
    seen->n_told = 0;
    return true;
}

/* False: the thread was just sending it. */
static bool copy_rest(const struct hw_slice_slot *slot, struct hw_rec_slices *r,
                      struct hw_slice_entry *entries, uint32_t *n)
{
    r->batch = atomic_load_explicit(&slot->batch, memory_order_acquire);
    *n = atomic_load_explicit(&slot->n, memory_order_acquire);
    if (*n == 0 || *n > HW_SLICE_BATCH)
        return false;
    r->tid = slot->tid;
    r->ticks = slot->ticks;
    r->time_ns = slot->time_ns;
    memcpy(entries, slot->entry, *n * sizeof *entries);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&slot->batch, memory_order_relaxed) == r->batch;
}

/* Have all names been read that entries may have? They come through the ring, before the
 * entries. */
static bool is_drained(const struct hw_ring_consumer *f)
{
    uint64_t pos;
    return hw_ring_write_pos(&f->ring, &pos) == HW_OK && pos <= f->ring.read_pos;
}

void hw_ring_consumer_slice_rests(struct hw_ring_consumer *f, bool final)
{
    struct hw_slice_entry entries[HW_SLICE_BATCH];
    for (uint32_t i = 0; f->ring.slots && i < HW_SLICE_SLOTS; i++) {
        struct hw_rec_slices r = {.slot = i};
        uint32_t n;
        if (!copy_rest(&f->ring.slots[i], &r, entries, &n) || (!final && !is_drained(f)))
            continue;
        struct hw_slice_seen *seen = seen_of(f, i);
        if (!seen || (!final && r.batch != seen->next))
            continue;
        r.end_ticks = hw_slice_ticks();
        r.end_time_ns = hw_now_monotonic_ns();
        uint32_t from = seen->batch == r.batch ? seen->n_told : 0;
        if (n > from)
            add(f, &r, (const uint8_t *)entries, from, n, seen);
        seen->batch = r.batch;
        seen->n_told = n > from ? n : from;
    }
}
