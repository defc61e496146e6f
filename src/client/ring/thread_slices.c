/*
 * thread_slices.c - scopes in time
 *
 *      begin, end: ticks, id, depth -> the thread's slot (wire/slice_batch.h)
 *                                      full, or the thread ends: one record of the ring
 *
 * A slot is in the session's memory, so access to it is a visit, but the smallest one: only the
 * slab's word says that a thread is inside. A handler that interrupts it and has scopes of its own
 * is below us on the stack and loses them, counted; a word left behind by siglongjmp belongs to no
 * frame any more, and the next visit takes it over.
 *
 * Reading the processor's counter is half of what this costs, 10 ns a time.
 */
#include <errno.h>
#include <string.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/ring/mark_names.h"
#include "client/ring/push.h"
#include "client/ring/thread_slices.h"
#include "client/thread/client_guard.h"
#include "client/thread/thread_id.h"
#include "heapwise/marks.h"

/* A name is told apart by its category: the same literal is at the same place. */
static uint64_t slice_id(const struct heapwise_mark *m)
{
    uint64_t place = (uint64_t)(uintptr_t)m->category * 0x9e3779b97f4a7c15u;
    return hw_managed_id(HW_MANAGED_SLICE, (m->id ^ place >> 8) | 1);
}

/* ---- a batch ---- */

/* n first: a reader that copies entries meanwhile sees that there are none, or that the batch is
 * another. */
static void reset_slot(struct hw_slice_slot *slot)
{
    uint32_t batch = atomic_load_explicit(&slot->batch, memory_order_relaxed);
    atomic_store_explicit(&slot->n, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->batch, batch + 1, memory_order_release);
    atomic_thread_fence(memory_order_release); /* before the new entries */
}

/* Slices take at most half of the ring: samples must not wait for them, and never end for them. */
static bool send_batch(struct hw_client_session *s, struct hw_slice_slot *slot)
{
    uint32_t n = atomic_load_explicit(&slot->n, memory_order_relaxed);
    uint32_t size = (uint32_t)(sizeof(struct hw_rec_slices) + n * sizeof *slot->entry);
    if (n == 0)
        return true;
    if (n > HW_SLICE_BATCH || hw_ring_free_bytes(&s->ring) <= (s->ring.mask + 1) / 2)
        return false;
    uint64_t pos = hw_ring_reserve_by(&s->ring, size, hw_push_this_thread());
    if (pos == 0)
        return false;
    struct hw_rec_slices *r = hw_ring_at(&s->ring, pos);
    r->slot = (uint32_t)(slot - s->ring.slots);
    r->batch = atomic_load_explicit(&slot->batch, memory_order_relaxed);
    r->tid = slot->tid;
    r->ticks = slot->ticks;
    r->time_ns = slot->time_ns;
    r->end_ticks = hw_slice_ticks();
    r->end_time_ns = hw_client_session_ns(s);
    memcpy(r + 1, slot->entry, n * sizeof *slot->entry);
    hw_ring_commit(&s->ring, pos, size, HW_REC_SLICES);
    reset_slot(slot);
    return true;
}

/* The thread's slot, without what an earlier thread left there and could not send. */
static struct hw_slice_slot *take_slot(struct hw_client_session *s, const struct hw_slab *slab)
{
    const struct hw_marks *k = &slab->marks;
    if (!s->ring.slots || slab->index >= HW_SLICE_SLOTS || k->tid <= 0)
        return NULL;
    struct hw_slice_slot *slot = &s->ring.slots[slab->index];
    if (slot->tid != (uint32_t)k->tid && !send_batch(s, slot)) {
        hw_count(s, lost_slices, atomic_load_explicit(&slot->n, memory_order_relaxed));
        reset_slot(slot);
    }
    slot->tid = (uint32_t)k->tid;
    return slot;
}

static void send_thread_name(struct hw_client_session *s, struct hw_marks *k)
{
    char name[16];
    k->names_thread = false;
    if (hw_marks_thread_name(name))
        hw_name_send(s, hw_managed_id(HW_MANAGED_THREAD, (uint64_t)k->tid),
                     (struct hw_mark_text){name, strlen(name)}, (struct hw_mark_text){NULL, 0});
}

/* Where the next entry goes; NULL: there is no room. */
static HW_COLD struct hw_slice_slot *make_room(struct hw_client_session *s, struct hw_slab *slab)
{
    struct hw_marks *k = &slab->marks;
    int saved = errno;
    if (!k->slot)
        k->slot = take_slot(s, slab);
    if (k->slot && k->names_thread)
        send_thread_name(s, k);
    bool there = k->slot && (atomic_load_explicit(&k->slot->n, memory_order_relaxed) == 0 ||
                             send_batch(s, k->slot));
    if (there) {
        k->slot->ticks = hw_slice_ticks();
        k->slot->time_ns = hw_client_session_ns(s);
    }
    errno = saved;
    return there ? k->slot : NULL;
}

static HW_COLD void send_name(struct hw_client_session *s, uint64_t id,
                              const struct heapwise_mark *m)
{
    int saved = errno;
    hw_name_send(s, id, hw_mark_text_of(m),
                 (struct hw_mark_text){m->category, strlen(m->category)});
    errno = saved;
}

/* ---- one entry ---- */

static inline bool put(struct hw_client_session *s, struct hw_slab *slab,
                       const struct heapwise_mark *m, uint32_t depth)
{
    const uint64_t most_ticks = UINT64_MAX >> HW_SLICE_DEPTH_BITS;
    struct hw_slice_slot *slot = slab->marks.slot;
    uint64_t id = m ? slice_id(m) : 0;
    if (hw_unlikely(m && !hw_name_is_sent(s, id)))
        send_name(s, id, m);
    uint32_t n = slot ? atomic_load_explicit(&slot->n, memory_order_relaxed) : 0;
    uint64_t since = slot ? hw_slice_ticks() - slot->ticks : 0;
    if (hw_unlikely(n - 1 >= HW_SLICE_BATCH - 1 || since > most_ticks)) {
        slot = make_room(s, slab);
        n = 0;
        since = 0;
    }
    if (!slot)
        return false;
    if (depth > HW_SLICE_MAX_DEPTH)
        depth = HW_SLICE_MAX_DEPTH;
    slot->entry[n] = (struct hw_slice_entry){id, since << HW_SLICE_DEPTH_BITS | depth};
    atomic_store_explicit(&slot->n, n + 1, memory_order_release);
    return true;
}

static bool is_of(const struct hw_client_session *s, const struct hw_slab *slab)
{
    return slab->marks.generation == (s->generation & HW_MARKS_GENERATION);
}

/* A handler interrupted it, or an abandoned visit is in the way. */
static HW_COLD bool add_in_a_visit(struct hw_slab *slab, const struct heapwise_mark *m,
                                   uint32_t depth, bool alone)
{
    struct hw_client_guard v;
    bool sent = false;
    int saved = errno;
    hw_enter(&v);
    if (v.session && is_of(v.session, slab)) {
        sent = alone && !v.nested && hw_sandbox() != HW_SANDBOX_STRICT &&
               put(v.session, slab, m, depth);
        if (!sent)
            hw_count(v.session, lost_slices, 1);
    }
    hw_leave(&v);
    errno = saved;
    return sent;
}

/* m NULL: an end. */
static inline bool add(struct hw_slab *slab, const struct heapwise_mark *m, uint32_t depth)
{
    uintptr_t self = (uintptr_t)__builtin_frame_address(0);
    uintptr_t before = atomic_load_explicit(&slab->busy, memory_order_relaxed);
    bool sent = false;
    if (hw_unlikely(hw_here.busy != 0 || before > self))
        return add_in_a_visit(slab, m, depth, /* alone = */ before == 0 || hw_here.busy == before);
    atomic_store_explicit(&slab->busy, self, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* pairs with the membarrier, see client_guard.c */
    struct hw_client_session *s =
        atomic_load_explicit(&hw_process_page.session, memory_order_acquire);
    if (s && is_of(s, slab) && !atomic_load_explicit(&hw_control.ended, memory_order_relaxed)) {
        sent = hw_sandbox() != HW_SANDBOX_STRICT && put(s, slab, m, depth);
        if (hw_unlikely(!sent))
            hw_count(s, lost_slices, 1);
    }
    atomic_store_explicit(&slab->busy, 0, memory_order_release);
    return sent;
}

bool hw_slice_begin(struct hw_slab *slab, const struct heapwise_mark *m, uint32_t depth)
{
    return add(slab, m, depth);
}

void hw_slice_end(struct hw_slab *slab, uint32_t depth)
{
    (void)add(slab, NULL, depth); /* counted, and made up for by the next one */
}

void hw_slices_thread_ends(struct hw_slab *slab)
{
    struct hw_client_guard v;
    hw_enter(&v);
    if (v.session && !v.nested && slab->marks.slot && is_of(v.session, slab))
        (void)send_batch(v.session, slab->marks.slot); /* else it stays, for the recorder to read */
    hw_leave(&v);
    slab->marks.slot = NULL;
}
