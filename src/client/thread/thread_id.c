/*
 * thread_id.c - a thread's number for the ring
 *
 * The recorder skips the record of a writer that has ended; it recognizes it by the thread's number.
 */
#include <errno.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/thread/thread_id.h"

#define STEP_NS     100000
#define LEAVE_STEPS 10 /* for another thread to begin its record */

/* The recorder looks for it among the threads of this process: a process that shares our memory,
 * and the words of this thread, is none of them. */
static uint32_t ask_kernel(void)
{
    int e = errno;
    long tid = hw_sandbox() ? 0 : hw_kernel(SYS_gettid);
    int32_t pid = atomic_load_explicit(&hw_process_page.pid, memory_order_relaxed);
    if (tid <= 0 || tid >> HW_TID_BITS != 0 || hw_kernel(SYS_tgkill, pid, tid, 0) != 0)
        tid = 0;
    errno = e;
    return (uint32_t)tid;
}

#ifdef HW_BARE

_Atomic uint32_t hw_bare_number_at;

/* On the page of the word that every thread has at its pointer, or of memory that stays. */
static bool may_read(uintptr_t tp, uint32_t at, uint32_t tid)
{
    if ((tp & 4095) + at + sizeof(uint32_t) <= 4096)
        return true;
    return (int32_t)tid == atomic_load(&hw_process_page.pid) && hw_sys_readable((tp + at) & ~7ull);
}

HW_COLD uint32_t hw_thread_query_id(struct hw_tls *t)
{
    static const uint16_t places[] = {0x2d0 /* glibc */, 0x30 /* musl */, 0x38 /* before 1.2 */};
    uintptr_t tp = hw_bare_tp();
    uint32_t tid = t == &hw_bare_no_thread || t->flags & HW_TLS_UNNAMED ? 0 : ask_kernel();
    t->tid = 0;
    for (size_t i = 0; tid != 0 && t->tid == 0 && i < sizeof places / sizeof *places; i++)
        if (may_read(tp, places[i], tid) && hw_bare_number_in(tp, places[i]) == tid) {
            atomic_store_explicit(&hw_bare_number_at, places[i], memory_order_relaxed);
            t->tid = tid & ((1u << HW_TID_BITS) - 1);
        }
    if (t->tid == 0)
        t->flags |= HW_TLS_UNNAMED; /* not asked for every record */
    return t->tid;
}

#else

HW_COLD uint32_t hw_thread_query_id(struct hw_tls *t)
{
    return t->tid = ask_kernel() & ((1u << HW_TID_BITS) - 1);
}

#endif

HW_COLD void hw_push_skip_abandoned(struct hw_client_session *s)
{
    struct hw_ring_thread by = hw_push_this_thread();
    bool done = hw_ring_leave(&s->ring, by, /* sure = */ false);
    for (int i = 0; i < LEAVE_STEPS && !done; i++) {
        hw_sys_step_ns(STEP_NS, hw_sandbox());
        done = hw_ring_leave(&s->ring, by, i == LEAVE_STEPS - 1);
    }
}
