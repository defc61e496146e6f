/*
 * client_guard.c - threads that are inside our code right now
 *
 * Everything that a session owns may be unmapped only when nobody is inside (doc/design/client.md):
 *
 *      visitor                              the thread that ends a session
 *      busy = frame                         live.session = NULL
 *      (compiler barrier)                   membarrier: every running thread passes a full barrier
 *      s = live.session                     every busy word 0?  then unmap
 *
 * The pair is Dekker's; the expensive barrier is on the rare side. A visit inside a visit (a signal
 * handler) leaves the words as it found them, so the outer one stays protected.
 *
 * A handler that leaves by siglongjmp, or ends the thread, leaves busy set: an abandoned visit. The
 * next visit that begins above it proves it gone, unless it runs on an alternate stack; one below
 * it checks its mark, which is on the thread's own stack and so either still there, or overwritten
 * by later frames. Any other visit counts as active.
 */
#include "client/thread/client_guard.h"
#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/thread/stack_bounds.h"
#include "client/thread/thread_id.h"

/* The outermost visit of this thread will never end. */
HW_COLD void hw_visit_abandon(struct hw_tls *t)
{
    if (t->slab && atomic_load_explicit(&t->slab->busy, memory_order_relaxed) != 0)
        atomic_store_explicit(&t->slab->busy, 0, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&hw_process_page.n_busy_without_slab, 1, memory_order_relaxed);
    t->busy = 0;
}

static uint64_t mark_of(uintptr_t visit)
{
    return (uint64_t)visit * 0x9e3779b97f4a7c15u ^ 0x7669736974u;
}

static bool inside(uintptr_t at, uint64_t lo, uint64_t hi)
{
    return at >= lo && at < hi && hi - at >= sizeof(struct hw_client_guard);
}

/* The visit at t->busy lies above the one that begins now. A thread's own stack stays mapped; it
 * does not matter whose frames lie there now. */
__attribute__((no_sanitize("address"))) static bool is_under_way(const struct hw_tls *t)
{
    const struct hw_client_guard *old = (const struct hw_client_guard *)t->busy;
    bool readable =
        inside(t->busy, hw_main_stack.lo, hw_main_stack.hi) ||
        (t->slab && inside(t->busy, t->slab->stack_lo, t->slab->stack_hi)) ||
        (!hw_sandbox() && hw_sys_readable(t->busy) && hw_sys_readable((uintptr_t)(old + 1) - 8));
    return !readable || (old->mark == mark_of(t->busy) && old->end_mark == old->mark);
}

void hw_enter(struct hw_client_guard *v)
{
    struct hw_tls *t = &hw_here;
    uintptr_t self = (uintptr_t)v;
    *v = (struct hw_client_guard){.mark = mark_of(self), .end_mark = mark_of(self)};
    if (hw_unlikely(t->busy != 0)) {
        /* Whatever runs inside the visit lies strictly below it; the same place again is a later
         * visit. */
        if (self < t->busy ? is_under_way(t) : hw_stack_is_alternate())
            v->nested = true;
        else
            hw_visit_abandon(t);
    }
    v->tls_before = t->busy;
    v->slab = t->slab;
    if (v->slab) {
        v->slab_before = atomic_load_explicit(&v->slab->busy, memory_order_relaxed);
        atomic_store_explicit(&v->slab->busy, self, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&hw_process_page.n_busy_without_slab, 1, memory_order_relaxed);
    }
    v->last_pos_before = v->nested ? t->last_pos : 0;
    if (!v->nested)
        t->busy = self;
    atomic_signal_fence(memory_order_seq_cst); /* pairs with the membarrier, see above */
    v->session = atomic_load_explicit(&hw_process_page.session, memory_order_acquire);
    if (v->session && atomic_load_explicit(&hw_control.ended, memory_order_relaxed))
        v->session = NULL;
    if (hw_unlikely(t->last_pos != v->last_pos_before)) {
        if (v->session)
            hw_push_skip_abandoned(v->session);
        t->last_pos = 0;
    }
}

void hw_leave(struct hw_client_guard *v)
{
    struct hw_tls *t = &hw_here;
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = v->tls_before;
    t->last_pos = v->last_pos_before;
    /* Release: what the visit did to the session's memory is done before the word says so. */
    if (v->slab)
        atomic_store_explicit(&v->slab->busy, v->slab_before, memory_order_release);
    else
        atomic_fetch_sub_explicit(&hw_process_page.n_busy_without_slab, 1, memory_order_release);
    v->mark = v->end_mark = 0;
}
