/*
 * unload.c - dlclose, and the wait before code goes away
 *
 * Code can be replaced at its address only after an unmapping; that is why dlclose is hooked. The
 * session's page counts:
 *
 *      closes_begun++   real dlclose   closes_ended++
 *
 * The recorder loads both; equal, it reads the mappings, publishes the list and then the number
 * (closes_seen). A sample whose thread finds another number in closes_begun does not trust the
 * list: its stack is copied, and the copy carries the number. A thread inside its own dlclose may:
 * the code that runs there is not the code that goes away.
 *
 * Not seen are libraries that libc closes for itself (gconv) and calls from other namespaces; for
 * these there is only the recorder's own reading of the mappings.
 *
 * Before code goes away, and before the program does, the recorder is given time to read it if a
 * copy on its way needs that: only if the user allows us to wait.
 */
#include <errno.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/python_objects.h"
#include "client/kernel/sys.h"
#include "client/thread/client_guard.h"

#define STEP_NS 100000
#define MOST_NS 150000000ull /* the recorder reads every 100 ms, and soon again after news */
/* Per session, and then a share of its time. A user who records every allocation has asked for
 * all of them, and each plug-in that is opened, used and closed is waited for. */
#define FIRST_NS    1000000000ull
#define SHARE       20
#define EXACT_FIRST (10 * FIRST_NS)
#define EXACT_SHARE 2

/* The recorder does not read past a copy until it knows the code, so its reading position shows
 * whether it does. Each thread that closes something checks for itself: a single thread that
 * waits for all would let the others unmap code meanwhile. */
static bool has_read(const struct hw_client_session *s, uint64_t pos)
{
    return (int64_t)(pos - atomic_load(&s->ring.shm->read_pos)) <= 0;
}

static uint64_t budget_ns(const struct hw_client_session *s, uint64_t now)
{
    uint64_t age = now - s->began_ns;
    return s->base[HW_HEAP_ID_LIBC] == 1 ? EXACT_FIRST + age / EXACT_SHARE : FIRST_NS + age / SHARE;
}

static HW_COLD void wait_for_reader(struct hw_client_session *s, uint64_t pos)
{
    uint64_t start = hw_local_sandbox_ns();
    uint64_t now = start;
    if ((s->config.flags & HW_CC_BLOCK) == 0 || atomic_load(&s->settled_ns) > budget_ns(s, start))
        return;
    while (!has_read(s, pos) && now - start < MOST_NS &&
           atomic_load(&hw_process_page.session) == s &&
           atomic_load(&hw_control.generation) == s->generation) {
        hw_sys_step_ns(STEP_NS, hw_sandbox());
        now = hw_local_sandbox_ns();
    }
    (void)atomic_fetch_add(&s->settled_ns, now - start);
}

static void wait_if_due(const struct hw_client_guard *v)
{
    if (!v->session || v->nested)
        return;
    uint64_t pos = atomic_load_explicit(&v->session->unsettled_pos, memory_order_acquire);
    if (pos != 0 && !has_read(v->session, pos))
        wait_for_reader(v->session, pos);
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
        if (v.session->generation != generation) /* it started meanwhile */
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
    hw_python_objects_exit();
    hw_enter(&v);
    wait_if_due(&v);
    hw_leave(&v);
    errno = saved;
}
