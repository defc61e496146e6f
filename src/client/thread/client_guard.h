/*
 * client_guard.h - threads inside our code: nothing is unmapped meanwhile
 */
#ifndef HW_CLIENT_THREAD_CLIENT_GUARD_H
#define HW_CLIENT_THREAD_CLIENT_GUARD_H

#include "client/client.h"

struct hw_client_guard {
    uint64_t mark;                     /* both: of an active visit */
    struct hw_client_session *session; /* NULL: nobody is recording */
    uintptr_t tls_before, slab_before;
    uint32_t last_pos_before;
    struct hw_slab *slab; /* whose busy word was set; NULL = the common counter */
    bool nested;          /* a signal handler inside another visit: record frees only */
    uint64_t end_mark;
};

void hw_visit_abandon(struct hw_tls *t); /* the outermost visit of this thread will never end */
/* t->busy is not 0: the visit at v lies within that one; or that one is abandoned, and false. */
HW_COLD bool hw_visit_is_nested(struct hw_tls *t, const struct hw_client_guard *v);
HW_COLD void hw_visit_skip_abandoned(struct hw_tls *t, struct hw_client_session *s);

static inline uint64_t hw_visit_mark(uintptr_t visit)
{
    return (uint64_t)visit * 0x9e3779b97f4a7c15u ^ 0x7669736974u;
}

/* Volatile: another visit may look for them there, also when this one's frame is gone. */
static inline void hw_visit_set_marks(struct hw_client_guard *v, uint64_t mark)
{
    *(volatile uint64_t *)&v->mark = mark;
    *(volatile uint64_t *)&v->end_mark = mark;
}

/* *v is on the caller's stack: its address tells inner visits from abandoned ones. */
static inline void hw_enter(struct hw_client_guard *v)
{
    struct hw_tls *t = &hw_here;
    uintptr_t self = (uintptr_t)v;
    hw_visit_set_marks(v, hw_visit_mark(self));
    v->nested = hw_unlikely(t->busy != 0) && hw_visit_is_nested(t, v);
    v->tls_before = t->busy;
    v->slab = t->slab;
    if (hw_likely(v->slab != NULL)) {
        v->slab_before = atomic_load_explicit(&v->slab->busy, memory_order_relaxed);
        atomic_store_explicit(&v->slab->busy, self, memory_order_relaxed);
    } else {
        v->slab_before = 0;
        atomic_fetch_add_explicit(&hw_process_page.n_busy_without_slab, 1, memory_order_relaxed);
    }
    v->last_pos_before = v->nested ? t->last_pos : 0;
    if (!v->nested)
        t->busy = self;
    atomic_signal_fence(memory_order_seq_cst); /* pairs with the membarrier, see client_guard.c */
    v->session = atomic_load_explicit(&hw_process_page.session, memory_order_acquire);
    if (v->session && atomic_load_explicit(&hw_control.ended, memory_order_relaxed))
        v->session = NULL;
    if (hw_unlikely(t->last_pos != v->last_pos_before))
        hw_visit_skip_abandoned(t, v->session);
}

static inline void hw_leave(struct hw_client_guard *v)
{
    struct hw_tls *t = &hw_here;
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = v->tls_before;
    t->last_pos = v->last_pos_before;
    /* Release: what the visit did to the session's memory is done before the word says so. */
    if (hw_likely(v->slab != NULL))
        atomic_store_explicit(&v->slab->busy, v->slab_before, memory_order_release);
    else
        atomic_fetch_sub_explicit(&hw_process_page.n_busy_without_slab, 1, memory_order_release);
    hw_visit_set_marks(v, 0);
}

#endif
