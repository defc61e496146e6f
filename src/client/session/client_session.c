/*
 * client_session.c - from "shall I be profiled?" to the last record
 *
 *                     no recorder: never asks again
 *   constructor ----< NO: silent          generation changes on the control page
 *                     WAIT: control page mapped ----------------> handshake by the next hooked call
 *                     PROFILE: ring, tables, control page mapped -> session
 *
 *   session ends by  generation changes (recorder)   -> stop, perhaps a new handshake
 *                    ring full, recorder dead        -> give up: reason in the ring's page
 *                    fork                            -> the live page is wiped
 *
 * client_handshake.c asks, end_token.c keeps the one descriptor, session_end.c frees the memory of sessions
 * that are over. Here a thread finds out what a generation of the control page means for it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/ring/push.h"
#include "client/sample/armed.h"
#include "client/sample/live_set.h"
#include "client/sample/probes.h"
#include "client/sample/sampler.h"
#include "client/session/client_session.h"
#include "client/session/client_session_parts.h"
#include "client/thread/client_guard.h"
#include "client/thread/slabs.h"
#include "client/thread/stack_bounds.h"

#define RETRY_BYTES      (64ull * 1024)
#define RETRY_SOON_BYTES 4096ull /* a program that allocates little must not wait for seconds */
#define FIRST_LOOKS      7       /* even sooner, see looks_bytes */
#define FAILED_SOON      4
#define SLOW_TIMEOUT_NS  50000000ull
#define SILENT_NS        2000000000ull /* a recorder's heartbeat comes at least every 500 ms */
#define HELD_NS          200000000ull  /* as at the start, see init.c */
#define OTHERS_STEP_NS   200000        /* less than sandbox.c allows a step of a wait */

static _Atomic uint32_t called;  /* generation of the last handshake: a new one has no backoff */
static _Atomic uint32_t n_looks; /* of all threads since then */
/* The last generation that a thread has found here, or a handshake has brought. A forked child has
 * its parent's: what it finds beside that was written for it. */
_Atomic uint32_t hw_session_known;

/* ---- a thread finds a new generation ---- */

void hw_client_session_forked(void)
{
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&hw_process_page.started, &none, 1))
        return;
    atomic_store(&hw_process_page.pid, (int32_t)getpid());
    hw_slabs_reset(hw_here.slab);
    hw_live_set_forked();
    hw_here.tid = 0;             /* the parent's */
    hw_session_forget_retired(); /* the parent's; what is mapped stays until exec or exit */
    uint32_t known = atomic_load(&hw_session_known);
    atomic_store(&hw_process_page.settled, known);
    hw_armed_adopt();
    if (known !=
            atomic_load(&hw_control.generation) || /* a recorder asks for this process itself */
        !(atomic_load(&hw_session_newest.flags) & HW_CC_FOLLOW_FORK))
        return;
    atomic_store(&called, atomic_load(&hw_control.generation));
    atomic_store(&hw_process_page.child, 1);
    hw_client_session_start(HW_HELLO_FORKED, SLOW_TIMEOUT_NS);
}

/* A forked child without an answer yet, whose next try is not due. */
static bool child_is_waiting(uint32_t generation)
{
    return atomic_load(&hw_process_page.child) && !atomic_load(&hw_process_page.session) &&
           atomic_load(&called) == generation &&
           hw_local_sandbox_ns() < atomic_load(&hw_process_page.retry_ns);
}

bool hw_client_session_is_unanswered(void)
{
    return !atomic_load_explicit(&hw_process_page.session, memory_order_relaxed) &&
           (!atomic_load_explicit(&hw_process_page.started, memory_order_relaxed) ||
            atomic_load_explicit(&hw_process_page.child, memory_order_relaxed));
}

bool hw_client_session_may_retry(uint32_t generation)
{
    return hw_client_session_is_unanswered() && !child_is_waiting(generation);
}

/* 0, 64, 128, .. 4096: a program that allocates 48 bytes a second has the answer at its next
 * allocation; one that allocates all the time has made these checks within its first 8 KiB. */
static uint64_t looks_bytes(void)
{
    uint32_t n = atomic_load(&n_looks);
    if (n >= FIRST_LOOKS)
        return RETRY_SOON_BYTES;
    atomic_store(&n_looks, n + 1); /* two threads at once: one check more */
    return n ? UINT64_C(32) << n : 0;
}

/* Bytes until the thread checks again whether a try is due, or an answer has arrived. */
static uint64_t retry_bytes(void)
{
    uint32_t n = atomic_load(&hw_process_page.n_failed);
    bool soon = atomic_load(&hw_process_page.unanswered) || (n && n <= FAILED_SOON);
    return soon ? looks_bytes() : RETRY_BYTES;
}

/* About as often as there would be a sample. */
static uint64_t child_bytes(void)
{
    return hw_session_newest.interval_bytes && hw_session_newest.interval_bytes < RETRY_BYTES
               ? hw_session_newest.interval_bytes
               : RETRY_BYTES;
}

/* Is a draw with this interval valid in this session? Its record can only say how often the
 * interval was doubled. */
static bool draw_belongs_to(const struct hw_client_session *s, uint64_t drawn)
{
    uint64_t base = s->base[HW_HEAP_ID_LIBC];
    return (s->config.flags & HW_CC_ARMED) && base != 0 && drawn % base == 0 &&
           (drawn / base & (drawn / base - 1)) == 0;
}

/* What is due now is not recorded; the session counts it, if there will be one. */
static void note_early_loss(void)
{
    (void)atomic_fetch_add_explicit(&hw_process_page.n_lost_early, 1, memory_order_relaxed);
}

/* Starts sampling on this thread when a session of this generation runs: with a new draw, or with
 * the one that the thread has, if it is of this interval of the session. */
static bool join_session(struct hw_tls *t, uint64_t drawn)
{
    struct hw_client_guard v;
    bool on = false;
    hw_enter(&v);
    if (v.session && !v.nested && v.session->generation == t->generation &&
        (drawn == 0 || draw_belongs_to(v.session, drawn))) {
        struct hw_slab *slab = hw_slab_get();
        if (slab && slab->generation != v.session->generation) {
            slab->generation = v.session->generation;
            hw_walk_cache_reset(hw_slab_cache(slab));
            memset(slab->heaps, 0, sizeof slab->heaps);
            slab->n_walked = slab->n_adopted = slab->n_samples = 0;
        }
        if (drawn == 0)
            hw_sampler_start(t, v.session);
        on = true;
    }
    hw_leave(&v);
    return on;
}

/* Compared with the page after the session was read: another thread may have handled the
 * generation meanwhile, and then the session is the new one. */
static struct hw_client_session *session_outdated(void)
{
    struct hw_client_guard v;
    hw_enter(&v);
    bool is_old =
        v.session && !v.nested &&
        v.session->generation != atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    struct hw_client_session *s = is_old ? v.session : NULL;
    hw_leave(&v);
    return s; /* only compared from here on */
}

/* A new generation is tried at once, whatever happened to the previous one. */
static bool try_is_due(uint32_t generation)
{
    if (atomic_exchange(&called, generation) == generation)
        return hw_local_sandbox_ns() >= atomic_load(&hw_process_page.retry_ns);
    atomic_store(&hw_process_page.n_failed, 0);
    atomic_store(&n_looks, 0);
    return true;
}

void hw_client_session_sync(struct hw_tls *t, uint32_t generation)
{
    t->generation = generation;
    t->left = HW_QUIET_BYTES;
    t->interval = 0;
    t->flags &= ~(uint32_t)(HW_TLS_LOOKING | HW_TLS_PROBING | HW_TLS_ARMED);
    if (!hw_session_is_started) { /* before our constructor */
        t->left = RETRY_BYTES;
        return;
    }
    if (child_is_waiting(generation)) {
        note_early_loss();
        t->left = child_bytes();
        return;
    }
    /* An alternate stack belongs to a handler, and is small: anything more than a sample waits
     * for a call from elsewhere. */
    bool alternate = hw_stack_is_alternate();
    if (!atomic_load(&hw_process_page.started)) {
        if (alternate) {
            t->left = 0;
            return;
        }
        hw_client_session_forked();
    }
    struct hw_client_session *old = session_outdated();
    if (old)
        hw_client_session_stop(old);
    bool child = atomic_load(&hw_process_page.child); /* its parent's page may be outdated */
    bool wanted =
        child || (generation != 0 && generation != atomic_load(&hw_process_page.settled) &&
                  !atomic_load(&hw_control.ended));
    if (wanted && !alternate && !atomic_load(&hw_process_page.session) && try_is_due(generation))
        hw_client_session_start(child ? HW_HELLO_FORKED : 0, SLOW_TIMEOUT_NS);
    t->generation = atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    atomic_store(&hw_session_known, t->generation);
    if (join_session(t, /* drawn = */ 0) || hw_armed_join(t))
        return;
    if (wanted && atomic_load(&hw_process_page.child)) {
        note_early_loss();
        t->left = alternate ? 0 : child_bytes();
    } else if (wanted)
        t->left = alternate ? 0 : retry_bytes(); /* another thread does it, or it is due later */
    else
        hw_probes_join(t);
}

/* ---- an armed process has a sample ---- */

/* Another thread may be asking right now. If it is this very thread it is not waited for: a
 * handler must not wait for what it interrupts. All wait for the same 200 ms: the thread that
 * asks may have left by siglongjmp. */
static void wait_for_other(uint64_t now_ns)
{
    while (hw_armed() && !atomic_load(&hw_process_page.session) &&
           !atomic_load(&hw_process_page.unanswered) &&
           atomic_load(&hw_process_page.session_lock) &&
           atomic_load(&hw_session_handshaking) != &hw_here && !hw_sandbox()) {
        uint64_t since_ns = atomic_load(&hw_session_handshake_since_ns);
        if (hw_local_ns() >= (since_ns ? since_ns : now_ns) + HELD_NS)
            return;
        hw_sys_sleep_ns(OTHERS_STEP_NS);
    }
}

bool hw_client_session_request(struct hw_tls *t, uint64_t interval)
{
    if (hw_sandbox()) { /* no more connections from now on */
        hw_armed_over();
        return false;
    }
    uint64_t now = hw_local_ns();
    bool child = atomic_load(&hw_process_page.armed_child);
    bool due =
        !atomic_load(&hw_process_page.unanswered) || now >= atomic_load(&hw_process_page.retry_ns);
    if (due && !hw_stack_is_alternate()) {
        hw_client_session_start(0, child ? SLOW_TIMEOUT_NS : HELD_NS);
        wait_for_other(now);
    }
    t->generation = atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    return join_session(t, interval);
}

void hw_client_session_request_last(void)
{
    uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    int saved = errno;
    if (hw_armed() && hw_here.busy == 0 && hw_stack_has_room(sp) && !hw_stack_is_alternate()) {
        bool child = atomic_load(&hw_process_page.armed_child);
        hw_client_session_start(0, child ? SLOW_TIMEOUT_NS : HELD_NS);
        hw_client_session_sync(&hw_here, atomic_load(&hw_control.generation));
    }
    errno = saved;
}

bool hw_client_session_has_recorder(void)
{
    uint32_t generation = atomic_load(&hw_control.generation);
    return generation != 0 && !atomic_load(&hw_control.ended) &&
           !hw_recorder_silent(hw_local_ns(), SILENT_NS);
}
