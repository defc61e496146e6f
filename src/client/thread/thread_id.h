/* thread_id.h - a thread's number for the ring */
#ifndef HW_CLIENT_THREAD_THREAD_ID_H
#define HW_CLIENT_THREAD_THREAD_ID_H

#include "client/client.h"

HW_COLD uint32_t hw_thread_query_id(struct hw_tls *t); /* asks the kernel; 0 = not known */

#ifdef HW_BARE

/*
 * A thread takes over the words of one that has ended, and must not be mistaken for it: its record
 * would be skipped while it writes. The number in libc's descriptor, which the kernel writes there
 * when it creates a thread, tells them apart. Its place was found by comparing.
 */
extern HW_HIDDEN _Atomic uint32_t hw_bare_number_at; /* from the thread pointer; 0 = not found */

static inline uint32_t hw_bare_number_in(uintptr_t tp, uint32_t at)
{
    return *(const volatile uint32_t *)(tp + at);
}

static inline bool hw_thread_is_known(const struct hw_tls *t)
{
    uint32_t at = atomic_load_explicit(&hw_bare_number_at, memory_order_relaxed);
    return t->tid != 0 && hw_bare_number_in(hw_bare_tp(), at) == t->tid;
}

#else

static inline bool hw_thread_is_known(const struct hw_tls *t)
{
    return t->tid != 0;
}

#endif

/* This thread's number for the ring. */
static inline struct hw_ring_thread hw_push_this_thread(void)
{
    struct hw_tls *t = &hw_here;
    uint32_t tid = hw_likely(hw_thread_is_known(t)) ? t->tid : hw_thread_query_id(t);
    return (struct hw_ring_thread){tid, hw_is_single_threaded(), &t->last_pos};
}

/* A visit of this thread was abandoned: skips the record that it had reserved last. */
void hw_push_skip_abandoned(struct hw_client_session *s);

#endif
