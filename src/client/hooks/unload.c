/*
 * unload.c - dlclose, and the wait before code goes away
 *
 * Code can be replaced at its address only behind an unmapping, and that is what dlclose is hooked
 * for. The session's page counts:
 *
 *      closes_begun++   real dlclose   closes_ended++
 *
 * The recorder loads both; equal, it reads the mappings, publishes the list and then the number
 * (closes_seen). A sample whose thread finds another number in closes_begun does not trust the
 * list: its stack is copied, and the copy carries the number. A thread inside its own dlclose may:
 * what runs there is not what goes away.
 *
 * Not seen are libraries that libc closes for itself (gconv) and calls from other namespaces; for
 * these the recorder's own look at the mappings is all there is.
 *
 * Before code goes away, and before the program does, the recorder is given the time to look at it
 * if a copy on its way needs that: only where the user allows us to wait.
 */
#include <errno.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/thread/client_guard.h"

#define STEP_NS    100000
#define MOST_NS    150000000ull  /* the recorder looks every 100 ms, and soon again after news */
#define FIRST_NS   1000000000ull /* of a session, and then a share of its time */
#define TIME_SHARE 20

/* The recorder does not read past a copy until it knows the code, so its reading position says
 * whether it does. */
static HW_COLD void wait_for_reader(struct hw_client_session *s)
{
    uint64_t pos = atomic_load(&s->ring.shm->write_pos);
    uint64_t start = hw_local_sandbox_ns();
    uint64_t now = start;
    uint64_t budget = FIRST_NS + (start - s->began_ns) / TIME_SHARE;
    if ((s->config.flags & HW_CC_BLOCK) == 0 || atomic_load(&s->settled_ns) > budget)
        return;
    atomic_store_explicit(&s->unsettled, 0, memory_order_relaxed);
    while ((int64_t)(pos - atomic_load(&s->ring.shm->read_pos)) > 0 && now - start < MOST_NS &&
           atomic_load(&hw_process_page.session) == s &&
           atomic_load(&hw_control.generation) == s->generation) {
        hw_sys_step_ns(STEP_NS, hw_sandbox());
        now = hw_local_sandbox_ns();
    }
    (void)atomic_fetch_add(&s->settled_ns, now - start);
}

static void wait_if_due(const struct hw_client_guard *v)
{
    if (v->session && !v->nested &&
        atomic_load_explicit(&v->session->unsettled, memory_order_relaxed) != 0)
        wait_for_reader(v->session);
}

/* Gives the session's generation, 0 without one. */
static uint32_t close_begins(void)
{
    struct hw_client_guard v;
    int saved = errno;
    hw_enter(&v);
    uint32_t generation = v.session ? v.session->generation : 0;
    wait_if_due(&v);
    if (v.session)
        (void)atomic_fetch_add(&v.session->ring.shm->closes_begun, 1);
    hw_here.n_closing++;
    hw_leave(&v);
    errno = saved;
    return generation;
}

static void close_ended(uint32_t generation)
{
    struct hw_client_guard v;
    int saved = errno;
    hw_enter(&v);
    hw_here.n_closing--;
    if (v.session) {
        if (v.session->generation != generation) /* it began meanwhile */
            (void)atomic_fetch_add(&v.session->ring.shm->closes_begun, 1);
        (void)atomic_fetch_add(&v.session->ring.shm->closes_ended, 1);
    }
    hw_leave(&v);
    errno = saved;
}

HW_EXPORT int hook_dlclose(void *handle) __asm__("dlclose");
HW_EXPORT int hook_dlclose(void *handle)
{
    int (*real)(void *);
    *(void **)&real = hw_boot_dlclose();
    if (!real)
        return -1;
    uint32_t generation = close_begins();
    int rc = real(handle);
    close_ended(generation);
    return rc;
}

__attribute__((destructor)) static void client_exit(void)
{
    struct hw_client_guard v;
    int saved = errno;
    hw_enter(&v);
    wait_if_due(&v);
    hw_leave(&v);
    errno = saved;
}
