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
    return !readable || (old->mark == hw_visit_mark(t->busy) && old->end_mark == old->mark);
}

HW_COLD bool hw_visit_is_nested(struct hw_tls *t, const struct hw_client_guard *v)
{
    /* Whatever runs inside the visit lies strictly below it; the same place again is a later
     * visit. */
    if ((uintptr_t)v < t->busy ? is_under_way(t) : hw_stack_is_alternate())
        return true;
    hw_visit_abandon(t);
    return false;
}

HW_COLD void hw_visit_skip_abandoned(struct hw_tls *t, struct hw_client_session *s)
{
    if (s)
        hw_push_skip_abandoned(s);
    t->last_pos = 0;
}
