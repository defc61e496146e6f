/*
 * minfo.c - the allocator's own figures, on request
 *
 * mallinfo2 takes the lock of one arena after another and walks its free lists; jemalloc's and
 * tcmalloc's calls take locks too. mimalloc has none that says what is in use. So they are called
 * only where malloc itself could be: by a thread that has just got a block, after the hook's visit.
 * A signal handler that interrupted malloc would wait for itself; the sample's own stack shows
 * that: it must have been walked to its root without a signal's frame in it. Signals are blocked
 * meanwhile, since a handler's siglongjmp would leave the lock locked.
 *
 * It allocates nothing. A target pays at most 1 % of its time: the next call comes only after a
 * hundred times the last one's duration, whatever the recorder asks for.
 */
#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/sample/minfo.h"
#include "client/thread/client_guard.h"
#include "client/thread/thread_id.h"

#define REST 100u

/* What the allocator behind us offers; NULL = nothing. */
static bool (*ask)(struct hw_rec_minfo *r);
static union {
    struct mallinfo2 (*mallinfo2)(void);
    int (*mallctl)(const char *, void *, size_t *, void *, size_t); /* jemalloc */
    int (*property)(const char *, size_t *);                        /* tcmalloc */
} real;

static bool ask_glibc(struct hw_rec_minfo *r)
{
    struct mallinfo2 m = real.mallinfo2();
    r->arena_bytes = m.arena;
    r->mmap_bytes = m.hblkhd;
    r->in_use_bytes = m.uordblks;
    r->free_bytes = m.fordblks;
    r->releasable_bytes = m.keepcost;
    return true;
}

static bool jemalloc_size(const char *name, uint64_t *out)
{
    size_t v = 0, n = sizeof v;
    if (real.mallctl(name, &v, &n, NULL, 0) != 0)
        return false;
    *out = v;
    return true;
}

/* Mapped from the system; of that, in blocks that are in use; in pages that could be released.
 * Built without statistics (--disable-stats) it has none. */
static bool ask_jemalloc(struct hw_rec_minfo *r)
{
    uint64_t epoch = 1, active, resident;
    if (real.mallctl("epoch", NULL, NULL, &epoch, sizeof epoch) != 0 ||
        !jemalloc_size("stats.allocated", &r->in_use_bytes) ||
        !jemalloc_size("stats.mapped", &r->arena_bytes) ||
        !jemalloc_size("stats.active", &active) || !jemalloc_size("stats.resident", &resident) ||
        r->arena_bytes < r->in_use_bytes)
        return false;
    r->mmap_bytes = 0;
    r->free_bytes = r->arena_bytes - r->in_use_bytes;
    r->releasable_bytes = resident > active ? resident - active : 0;
    return true;
}

static bool tcmalloc_size(const char *name, uint64_t *out)
{
    size_t v = 0;
    if (!real.property(name, &v))
        return false;
    *out = v;
    return true;
}

static bool ask_tcmalloc(struct hw_rec_minfo *r)
{
    if (!tcmalloc_size("generic.current_allocated_bytes", &r->in_use_bytes) ||
        !tcmalloc_size("generic.heap_size", &r->arena_bytes) ||
        !tcmalloc_size("tcmalloc.pageheap_free_bytes", &r->releasable_bytes) ||
        r->arena_bytes < r->in_use_bytes)
        return false;
    r->mmap_bytes = 0;
    r->free_bytes = r->arena_bytes - r->in_use_bytes;
    return true;
}

static const struct {
    const char *symbol; /* in the allocator's object: another's says nothing about it */
    bool (*ask)(struct hw_rec_minfo *r);
} ways[] = {{"mallctl", ask_jemalloc},
            {"MallocExtension_GetNumericProperty", ask_tcmalloc},
            {"mallinfo2", ask_glibc}};

/* In the constructor or under the loader's lock: its list is walked without taking it. */
void hw_minfo_init(void)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !ask; i++) {
        bool own;
        void *p = hw_boot_find(ways[i].symbol, &own);
        if (p && own) {
            *(void **)&real.mallinfo2 = p;
            ask = ways[i].ask;
        }
    }
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

bool hw_minfo_due(struct hw_client_session *s, const struct hw_walk_out *o)
{
    uint32_t wanted = atomic_load_explicit(&hw_control.malloc_info_wanted, memory_order_relaxed);
    uint32_t done = atomic_load_explicit(&s->minfo_done, memory_order_relaxed);
    if (wanted == done || hw_sandbox() || !ask || !is_plain(o) ||
        hw_local_ns() < atomic_load_explicit(&s->minfo_next_ns, memory_order_relaxed))
        return false;
    return atomic_compare_exchange_strong(&s->minfo_done, &done, wanted);
}

static void push(struct hw_client_session *s, const struct hw_rec_minfo *m)
{
    uint64_t pos = hw_ring_reserve_by(&s->ring, sizeof *m, hw_push_this_thread());
    if (pos == 0)
        return; /* the next sample will do */
    struct hw_rec_minfo *r = hw_ring_at(&s->ring, pos);
    memcpy((char *)r + sizeof r->head, (const char *)m + sizeof m->head,
           sizeof *m - sizeof m->head);
    hw_ring_commit(&s->ring, pos, sizeof *r, HW_REC_MINFO);
}

void hw_minfo_make(uint32_t generation)
{
    uint64_t all = ~0ull, old = 0;
    if (hw_kernel(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof all) != 0)
        return;
    uint64_t began = hw_local_ns();
    struct hw_rec_minfo m;
    bool known = ask(&m);
    uint64_t now = hw_local_ns();
    (void)hw_kernel(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
    struct hw_client_guard v;
    hw_enter(&v);
    if (v.session && !v.nested && v.session->generation == generation) {
        atomic_store(&v.session->minfo_next_ns, now + REST * (now - began));
        m.time_ns = hw_client_session_coarse_ns(v.session);
        m.took_ns = now - began;
        if (known)
            push(v.session, &m);
    }
    hw_leave(&v);
}
