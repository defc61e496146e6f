/*
 * sample_due.c - an allocation for which the hot path said "perhaps"
 *
 * Before sampler.c's countdown decides, this file checks: is there room on this stack, are we
 * inside our own code, and does the thread's draw belong to the current session? If not, the thread
 * settles that first, and may then find that nothing is due.
 */
#include <errno.h>

#include "client/client.h"
#include "client/hooks/sample_due.h"
#include "client/ring/push.h"
#include "client/sample/armed.h"
#include "client/sample/probes.h"
#include "client/sample/sampler.h"
#include "client/session/client_session.h"
#include "client/thread/client_guard.h"
#include "client/thread/stack_bounds.h"

/* Syncs the thread with the control page's generation: interval 0 = not sampling now. */
static void sync_session(struct hw_tls *t)
{
    uint32_t generation = atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    struct hw_client_session *s =
        atomic_load_explicit(&hw_process_page.session, memory_order_acquire);
    /* s is only compared here: reading it needs a visit. */
    if (hw_unlikely(t->generation != generation || t->interval == 0 || !s)) {
        int e = errno;
        t->left = HW_QUIET_BYTES;
        t->interval = 0;
        hw_client_session_sync(t, generation);
        errno = e;
    }
}

/* Counts an allocation that cannot be sampled here. Those below the interval are not counted: they
 * would hardly have been sampled. */
static HW_COLD void count_lost(uint64_t n, bool only_nested, bool *nested)
{
    struct hw_client_guard v;
    int e = errno;
    hw_enter(&v);
    *nested = v.nested;
    uint64_t interval =
        (v.nested || !only_nested) && v.session
            ? atomic_load_explicit(&v.session->interval[HW_HEAP_ID_LIBC], memory_order_relaxed)
            : 0;
    bool ours = hw_here.flags & (HW_TLS_OURS | HW_TLS_SUPPRESSED);
    if (interval != 0 && n >= interval && !ours)
        hw_count(v.session, lost_nested, 1);
    bool is_lost = v.nested || !only_nested;
    if (is_lost && !v.session && hw_armed() && n >= hw_armed_interval() && !ours)
        hw_armed_lost();
    hw_leave(&v);
    errno = e;
}

/* ---- an armed process ---- */

#ifdef HW_BARE

static bool armed_is_current(struct hw_tls *t)
{
    (void)t;
    return false;
}

#define armed_sample(t) false

#else

/* Is this thread's draw still valid? */
static bool armed_is_current(struct hw_tls *t)
{
    if ((t->flags & HW_TLS_ARMED) == 0)
        return false;
    if (hw_unlikely(!atomic_load_explicit(&hw_process_page.started, memory_order_relaxed))) {
        int saved = errno;
        hw_client_session_forked(); /* which asks nobody */
        errno = saved;
    }
    return hw_armed_is_current(t);
}

/* A sample of an armed thread is due. True: a session runs now, and the sample belongs to it. */
static HW_COLD bool armed_sample(struct hw_tls *t)
{
    int saved = errno;
    uint64_t left = t->left, reserve = t->reserve, interval = t->interval;
    if (t->flags & (HW_TLS_OURS | HW_TLS_SUPPRESSED)) /* not the program's */
        return false;
    t->flags &= ~(uint32_t)HW_TLS_ARMED;
    t->interval = 0;
    t->left = HW_QUIET_BYTES;
    bool on = hw_client_session_request(t, interval);
    if (on || hw_armed()) {
        t->left = left;
        t->reserve = reserve;
        t->interval = interval;
    } else {
        t->left = 0; /* its next allocation syncs it */
    }
    if (!on && hw_armed()) {
        t->flags |= HW_TLS_ARMED;
        hw_armed_lost();
    }
    errno = saved;
    return on;
}

#endif

/* ---- is a sample due? ---- */

bool hw_never_samples;
#ifndef HW_BARE
__attribute__((weak)) void (*_Atomic hw_begin_early)(void); /* init.c's, where that is linked */

static inline bool has_begun(void)
{
    return hw_likely(!atomic_load_explicit(&hw_begin_early, memory_order_relaxed));
}

/* The constructor of a library that runs before ours. Until we can begin, each call comes here. */
static HW_COLD void not_begun_yet(const struct hw_tls *t)
{
    void (*begin)(void) = atomic_load_explicit(&hw_begin_early, memory_order_acquire);
    int saved = errno;
    if (begin && (t->flags & (HW_TLS_RESOLVING | HW_TLS_OURS)) == 0)
        begin();
    errno = saved;
}
#else
static inline bool has_begun(void)
{
    return true;
}

#define not_begun_yet(t) ((void)0)
#endif

uint64_t hw_sampler_take(uint64_t n, uint64_t sp)
{
    struct hw_tls *t = &hw_here;
    uint64_t weight = HW_NOT_SAMPLED;
#ifdef HW_BARE
    if (t == &hw_bare_no_thread)
        return weight;
#endif
    bool nested;
    if (hw_unlikely(hw_never_samples)) {
        t->left = HW_QUIET_BYTES;
        return weight;
    }
    if (hw_unlikely(!hw_stack_has_room(sp))) {
        count_lost(n, /* only_nested = */ false, &nested);
        return weight;
    }
    if (t->busy) { /* a handler inside our code; the code below us is changing the countdown */
        count_lost(n, /* only_nested = */ true, &nested);
        if (nested)
            return weight;
    }
    if (!has_begun())
        not_begun_yet(t);
    if (!hw_probes_are_current(t) && !armed_is_current(t))
        sync_session(t);
    if (!has_begun())
        t->left = 0;
    if (t->interval == 0)
        return weight;
    if (n >= t->interval || t->interval == 1) {
        weight = n;
    } else {
        uint64_t before = t->left + t->reserve;
        uint64_t countdown = before - n;
        if (n >= before)
            weight = hw_sampler_redraw(&t->rng, t->interval, n - before, &countdown);
        hw_sampler_split(t, countdown);
    }
    if (hw_unlikely(t->flags & HW_TLS_ARMED) && weight != HW_NOT_SAMPLED && !armed_sample(t))
        return HW_NOT_SAMPLED;
    return weight;
}
