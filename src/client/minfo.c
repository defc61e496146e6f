/*
 * minfo.c - the allocator's own figures, on request
 *
 * mallinfo2 takes the lock of one arena after another and walks its free lists, so it is called
 * only where malloc itself could be: by a thread that has just got a block, behind the hook's
 * visit. A signal handler that interrupted malloc would wait for itself; the sample's own stack
 * tells: it must have been walked to its root without meeting a signal's frame. Signals are
 * blocked meanwhile, since a handler's siglongjmp would leave the lock locked.
 *
 * It allocates nothing. A target pays at most 1 % of its time: the next call comes no sooner than
 * a hundred times the last one's duration later, whatever the recorder asks for.
 */
#include <malloc.h>
#include <signal.h>

#include "base/clock.h"
#include "client/boot.h"
#include "client/client.h"
#include "client/sys.h"

#define REST 100u

static struct mallinfo2 (*real_mallinfo2)(void);

/* In the constructor: the loader's list is walked without its lock. */
void hw_minfo_init(void)
{
    bool own;
    void *p = hw_boot_find("mallinfo2", &own);
    if (p && own) /* another library's says nothing about the allocator in use */
        *(void **)&real_mallinfo2 = p;
}

/* The leaf is a hook's caller. Any other exact pc is one that a signal interrupted. */
static bool is_plain(const struct hw_walk_out *o)
{
    if (!hw_stop_is_complete(o->stop))
        return false;
    for (uint32_t i = 0; i < o->n_frames; i++)
        if (o->exact[i / 64] >> (i % 64) & 1)
            return false;
    return true;
}

bool hw_minfo_due(struct hw_session *s, const struct hw_walk_out *o)
{
    uint32_t wanted = atomic_load_explicit(&hw_control.malloc_info_wanted, memory_order_relaxed);
    uint32_t done = atomic_load_explicit(&s->minfo_done, memory_order_relaxed);
    if (wanted == done || hw_sandbox() || !real_mallinfo2 || !is_plain(o) ||
        hw_now_monotonic_ns() < atomic_load_explicit(&s->minfo_next_ns, memory_order_relaxed))
        return false;
    return atomic_compare_exchange_strong(&s->minfo_done, &done, wanted);
}

static void push(struct hw_session *s, const struct mallinfo2 *m, uint64_t took_ns)
{
    uint64_t pos = hw_ring_reserve(&s->ring, sizeof(struct hw_rec_minfo));
    if (pos == 0)
        return; /* the next one will do */
    struct hw_rec_minfo *r = hw_ring_at(&s->ring, pos);
    r->time_ns = hw_now_monotonic_coarse_ns();
    r->arena_bytes = m->arena;
    r->mmap_bytes = m->hblkhd;
    r->in_use_bytes = m->uordblks;
    r->free_bytes = m->fordblks;
    r->releasable_bytes = m->keepcost;
    r->took_ns = took_ns;
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_MINFO);
}

void hw_minfo_make(uint32_t generation)
{
    uint64_t all = ~0ull, old = 0;
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof all) != 0)
        return;
    uint64_t began = hw_now_monotonic_ns();
    struct mallinfo2 m = real_mallinfo2();
    uint64_t now = hw_now_monotonic_ns();
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
    struct hw_visit v;
    hw_enter(&v);
    if (v.session && !v.nested && v.session->generation == generation) {
        atomic_store(&v.session->minfo_next_ns, now + REST * (now - began));
        push(v.session, &m, now - began);
    }
    hw_leave(&v);
}
