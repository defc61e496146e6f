/* How much one target holds, and a copy of it, for a dump that is written while its ring goes on. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon/books/ring_consumer.h"

#include "base/banned.h"

/* Mappings are address space, and what a program allocates may lie in them. */
static uint64_t sum_live(const struct hw_ring_consumer *f)
{
    const struct hw_books *b = &f->books;
    uint64_t n = 0;
    for (uint32_t i = 0; i < HW_MAX_HEAPS; i++)
        n += b->books[i] && !hw_mappings_has(&f->mappings, i) ? b->books[i]->live : 0;
    return n;
}

void hw_ring_consumer_measure(struct hw_ring_consumer *f)
{
    uint64_t n = hw_books_bytes(&f->books) + f->arena.total + hw_map64_bytes(&f->ids) +
                 hw_mappings_bytes(&f->mappings) + hw_map64_bytes(&f->addresses) +
                 hw_managed_names_bytes(&f->managed) + hw_idle_live_bytes(&f->idle) +
                 f->stacks.cap * sizeof *f->stacks.v + f->events.cap * sizeof *f->events.v +
                 f->slices.cap * sizeof *f->slices.v;
    atomic_store_explicit(&f->bytes, n, memory_order_relaxed);
    atomic_store_explicit(&f->live, sum_live(f), memory_order_relaxed);
    const struct hw_book *libc = f->books.books[HW_HEAP_ID_LIBC];
    atomic_store_explicit(&f->live_libc, libc ? libc->live : UINT64_MAX, memory_order_relaxed);
    bool has_rounding = libc && f->books.rule != HW_BLOCKS_UNKNOWN;
    atomic_store_explicit(&f->rounding_libc,
                          !has_rounding        ? UINT64_MAX
                          : libc->rounding > 0 ? (uint64_t)libc->rounding
                                               : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&f->gaps_libc, libc && libc->gaps > 0 ? (uint64_t)libc->gaps : 0,
                          memory_order_relaxed);
    f->full = f->max_bytes && (n > f->max_bytes || f->books.full);
}

/* The books stand where the record does. */
bool hw_ring_consumer_minfo(struct hw_ring_consumer *f, const uint8_t *rec, uint32_t size)
{
    const struct hw_book *k = f->books.books[HW_HEAP_ID_LIBC];
    if (size < sizeof f->minfo.r)
        return false;
    memcpy(&f->minfo.r, rec, sizeof f->minfo.r);
    f->minfo.live_bytes = k ? k->live : 0;
    f->minfo.rounding = f->books.rule == HW_BLOCKS_UNKNOWN ? -1 : k ? k->rounding : 0;
    f->minfo_new = true;
    return true;
}

void hw_snapshot_free(struct hw_snapshot *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->books.n; i++) {
        hw_vec_done(&s->books.v[i].cells);
        hw_vec_done(&s->books.v[i].peak_cells);
    }
    hw_vec_done(&s->books);
    hw_vec_done(&s->idle);
    hw_vec_done(&s->mapped);
    free(s);
}

static int snap_peak(const struct hw_book *k, uint32_t flags, struct hw_snap_book *out)
{
    bool all = (flags & HW_SNAP_MAX) != 0;
    size_t n = all ? k->cells.n : k->changed.n;
    if (hw_vec_reserve(&out->peak_cells, n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        uint32_t cell = all ? (uint32_t)i : k->changed.v[i];
        struct hw_snap_cell c = {k->cells.v[cell].stack, hw_book_at_peak(k, cell)};
        out->peak_cells.v[out->peak_cells.n++] = c;
    }
    out->has_peak = true;
    return HW_OK;
}

static int snap_all(const struct hw_book *k, struct hw_snap_book *out)
{
    if (hw_vec_reserve(&out->cells, k->cells.n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < k->cells.n; i++)
        out->cells.v[out->cells.n++] =
            (struct hw_snap_cell){k->cells.v[i].stack, k->cells.v[i].now};
    return HW_OK;
}

static int snap_book(struct hw_book *k, uint32_t flags, struct hw_snap_book *out)
{
    *out = (struct hw_snap_book){.heap_id = k->heap_id,
                                 .interval_bytes = k->interval_bytes,
                                 .orig_interval_bytes = k->orig_interval_bytes,
                                 .n_samples = k->n_samples,
                                 .peak_ns = k->peak->ns};
    memcpy(out->name, k->name, sizeof out->name);
    if (flags & HW_SNAP_LIVE)
        return snap_all(k, out);
    if (hw_vec_reserve(&out->cells, k->changed.n) < 0)
        return HW_ENOMEM;
    for (size_t i = 0; i < k->changed.n; i++) {
        const struct hw_cell *c = &k->cells.v[k->changed.v[i]];
        out->cells.v[out->cells.n++] = (struct hw_snap_cell){c->stack, c->now};
    }
    bool peak = (flags & HW_SNAP_MAX) != 0 ||
                ((flags & HW_SNAP_PEAK) != 0 && k->peak->is_new && k->peak->live < k->peak->most);
    return peak ? snap_peak(k, flags, out) : HW_OK;
}

static void snap_counters(const struct hw_ring_consumer *f, struct hw_snapshot *s)
{
    struct hw_ring_shm *shm = f->ring.shm;
    s->client_error = atomic_load_explicit(&shm->client_error, memory_order_relaxed);
    s->objects = atomic_load_explicit(&shm->objects, memory_order_relaxed);
#define X(name, text) s->name = atomic_load_explicit(&shm->counters.name, memory_order_relaxed);
    HW_RING_COUNTERS(X)
#undef X
    s->lost_slices += f->n_lost_slices;
    s->frames_unclear += f->n_unclear;
    s->has_rounding = f->books.rule != HW_BLOCKS_UNKNOWN;
    s->ts_ns = hw_now_monotonic_coarse_ns();
    s->until = f->ring.read_pos;
    s->broken = f->broken;
    s->n_records = f->n_records;
    s->n_samples = f->n_samples;
    s->n_unwind_errors = f->n_unwind_errors;
    s->n_collisions = f->n_collisions;
    s->n_lost_stacks = f->n_lost_stacks + f->n_nomem;
    s->n_holes = f->ring.holes;
    s->hole_bytes = f->ring.hole_bytes;
    s->n_unknown_free = f->books.n_unknown_free;
    s->n_copies = f->n_copies;
    s->unwind_us = f->unwind_us;
    memcpy(s->unwind_hist, f->unwind_hist, sizeof s->unwind_hist);
}

/* Live samples with their stacks' numbers. */
static int snap_idle(const struct hw_ring_consumer *f, struct hw_snapshot *s)
{
    const struct hw_book *k = f->books.books[HW_HEAP_ID_LIBC];
    const struct hw_idle_live *l = &f->idle;
    if (!k || hw_vec_reserve(&s->idle, l->samples.n) < 0)
        return k ? HW_ENOMEM : HW_OK;
    for (size_t i = 0; i < l->samples.n; i++) {
        struct hw_idle_sample x = l->samples.v[i];
        if (x.alloc_size == 0 || x.where >= k->cells.n)
            continue;
        x.where = k->cells.v[x.where].stack;
        s->idle.v[s->idle.n++] = x;
    }
    return HW_OK;
}

static int snap_mapped(const struct hw_ring_consumer *f, struct hw_snapshot *s)
{
    const struct hw_book *k = f->books.books[HW_HEAP_ID_ANON];
    if (!k || !hw_mappings_wants(&f->mappings, HW_HEAP_ID_ANON))
        return HW_OK;
    s->mapped_bytes = k->live;
    return hw_mappings_list(&f->mappings, &f->books, HW_HEAP_ID_ANON, HW_SNAP_MAPPED, &s->mapped);
}

int hw_ring_consumer_snapshot(struct hw_ring_consumer *f, uint32_t flags, struct hw_snapshot **out)
{
    struct hw_snapshot *s = calloc(1, sizeof *s);
    if (!s)
        return HW_ENOMEM;
    snap_counters(f, s);
    f->mappings.window++;
    if ((f->keeps_addresses && snap_idle(f, s) < 0) ||
        (!(flags & HW_SNAP_LIVE) && snap_mapped(f, s) < 0)) {
        hw_snapshot_free(s);
        return HW_ENOMEM;
    }
    for (uint32_t i = 1; i < HW_MAX_HEAPS; i++) {
        struct hw_book *k = f->books.books[i];
        if (!k)
            continue;
        struct hw_snap_book b = {0};
        if (snap_book(k, flags, &b) < 0 || hw_vec_push(&s->books, b) < 0) {
            hw_vec_done(&b.cells);
            hw_vec_done(&b.peak_cells);
            hw_snapshot_free(s);
            return HW_ENOMEM; /* nothing was cleared: the next snapshot has everything */
        }
    }
    for (uint32_t i = 1; i < HW_MAX_HEAPS; i++)
        if (f->books.books[i] && !(flags & HW_SNAP_LIVE))
            hw_book_clear_changes(f->books.books[i]);
    *out = s;
    return HW_OK;
}
