/*
 * session_end.c - the memory of sessions that are over
 *
 * Nothing is unmapped while a thread may be inside (client_guard.c). What is not seen idle stays
 * until the next handshake or attach.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/mman.h>

#include "client/client.h"
#include "client/kernel/own_memory.h"
#include "client/kernel/sys.h"
#include "client/ring/mapped_tables.h"
#include "client/ring/retire.h"
#include "client/sample/live_set.h"
#include "client/session/client_session.h"
#include "client/session/client_session_parts.h"
#include "client/session/end_token.h"
#include "client/thread/client_guard.h"
#include "client/thread/slabs.h"
#include "wire/ring_map.h"

#define DETACH_TRIES   5
#define DETACH_STEP_NS 20000

struct hw_client_session *hw_client_session_last;
struct hw_session_newest hw_session_newest;

static struct hw_client_session *retired; /* under the session's lock; may still be visited */

void hw_session_unmap(struct hw_client_session *s)
{
    hw_tables_unmap(s);
    if (s->ring.shm)
        hw_ring_detach(&s->ring);
    hw_own_memory_remove(s, sizeof *s);
    (void)munmap(s, sizeof *s);
}

bool hw_session_lock(void)
{
    uint32_t none = 0;
    return atomic_compare_exchange_strong(&hw_process_page.session_lock, &none, 1);
}

void hw_session_unlock(void)
{
    atomic_store(&hw_process_page.session_lock, 0);
}

/* Of threads that were inside before something was unpublished. Unknown in a sandbox. */
static bool nobody_is_inside(void)
{
    return !hw_sandbox() &&
           hw_kernel(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           hw_slabs_idle();
}

/* Under the lock, outside of any visit. What is not seen idle stays for the next time. */
void hw_session_reap(void)
{
    struct hw_client_session *s = hw_client_session_collect();
    while (s) {
        struct hw_client_session *next = s->next;
        s->next = retired;
        retired = s;
        s = next;
    }
    if (!retired || !nobody_is_inside()) /* in a sandbox it stays until the end */
        return;
    while ((s = retired)) {
        retired = s->next;
        if (hw_client_session_last == s)
            hw_client_session_last =
                NULL; /* before the memory goes: a fork may happen in between */
        atomic_signal_fence(memory_order_seq_cst);
        hw_session_unmap(s);
    }
}

void hw_client_session_stop(struct hw_client_session *s)
{
    if (hw_client_session_retire(s) && hw_session_lock()) {
        hw_session_reap();
        hw_session_unlock();
    }
}

static void each_mapping_of(const struct hw_client_session *s,
                            void (*fn)(void *arg, const void *at, uint64_t n_bytes), void *arg)
{
    size_t head = hw_ring_head_bytes();
    uint64_t data_bytes = s->ring.mask + 1;
    fn(arg, s, sizeof *s);
    fn(arg, (const char *)s->ring.shm - head, 3 * head + 2 * data_bytes);
    if (s->ring.slots)
        fn(arg, s->ring.slots, hw_ring_slots_bytes());
    for (uint32_t i = atomic_load(&s->n_views); i-- > 0;)
        fn(arg, s->views[i].at, s->views[i].n_bytes);
}

void hw_client_session_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes),
                                    void *arg, bool of_session)
{
    if (!hw_session_lock())
        return; /* it is just beginning or ending */
    const struct hw_client_session *s = atomic_load(&hw_process_page.session);
    if (s)
        each_mapping_of(s, fn, arg);
    for (s = retired; s; s = s->next)
        each_mapping_of(s, fn, arg);
    hw_live_set_each_mapping(fn, arg, /* counters = */ !of_session);
    if (!of_session)
        hw_slabs_each_mapping(fn, arg);
    hw_session_unlock();
}

/* Without hooks nothing looks up the set of live samples any more; it may be a fourth of the
 * heap. */
static bool give_back(void)
{
    hw_session_reap();
    bool is_empty = hw_session_newest.tag == 0; /* no session so far */
    return (is_empty || hw_live_set_give_back(nobody_is_inside)) && !retired;
}

/*
 * The control page is replaced by an empty one of ours, so a thread that is still in a hook finds
 * that nothing is recorded. What a thread is using stays mapped until this is called again.
 */
bool hw_client_session_detach(void)
{
    bool done = false;
    int saved = errno; /* of a thread that was stopped at any place */
    void *at = &hw_control_block;
    (void)mmap(at, HW_CONTROL_BYTES, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0); /* fails for want of memory only: then its generation keeps it silent */
    struct hw_client_session *s = atomic_load(&hw_process_page.session);
    if (s)
        (void)hw_client_session_retire(s);
    for (int i = 0; i < DETACH_TRIES && hw_session_lock(); i++) {
        done = give_back();
        hw_session_unlock();
        if (done)
            break;
        hw_sys_sleep_ns(DETACH_STEP_NS);
    }
    hw_token_drop();
    errno = saved;
    return done;
}

bool hw_client_session_evict(void)
{
    struct hw_client_guard v;
    bool done = false;
    hw_enter(&v);
    if (v.session)
        hw_client_session_give_up(v.session, HW_CLIENT_LOCKED_OUT);
    hw_leave(&v);
    for (int i = 0; i < DETACH_TRIES && !done; i++) {
        if (hw_session_lock()) {
            done = give_back();
            hw_session_unlock();
        }
        if (!done)
            hw_sys_sleep_ns(DETACH_STEP_NS);
    }
    return done;
}

void hw_session_forget_retired(void)
{
    retired = NULL;
    (void)hw_client_session_collect();
}
