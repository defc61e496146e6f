/*
 * visit.c - who is inside our code right now, and the per-thread memory for it
 *
 * Everything that a session owns may be unmapped only when nobody is inside (unwinding.md 4.7):
 *
 *      visitor                              the thread that ends a session
 *      busy = frame                         live.session = NULL
 *      (compiler barrier)                   membarrier: every running thread passes a full barrier
 *      s = live.session                     every busy word 0?  then unmap
 *
 * The pair is Dekker's; the expensive barrier is on the rare side. A visit inside a visit (a signal
 * handler) leaves the words as it found them, so the outer one stays protected.
 *
 * A handler that leaves by siglongjmp, or ends the thread, leaves busy set: an abandoned visit. The
 * next one that begins above it proves it gone, unless it runs on an alternate stack; one below it
 * looks at its mark, which is on the thread's own stack and so either still there, or overwritten
 * by the frames that took its place. Anything else counts as under way.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "client/client.h"
#include "client/sys.h"

#define CHUNK_SLABS 16u
#define MAX_CHUNKS  512u

#ifndef HW_BARE
__thread struct hw_tls hw_here __attribute__((tls_model("initial-exec")));
#endif
union hw_live_block hw_live_block __attribute__((aligned(HW_PAGE_ALIGN)));
union hw_control_block hw_control_block __attribute__((aligned(HW_PAGE_ALIGN)));
/* The name by which a recorder that starts later finds the page from outside. */
extern union hw_control_block heapwise_control_page
    __attribute__((alias("hw_control_block"), visibility("default")));

struct hw_walk_range hw_main_stack;

extern void *__libc_stack_end; /* of the loader */

void hw_visits_init(void)
{
    struct rlimit lim;
    uint64_t most = 1ull << 30; /* with "unlimited" nothing is mapped that close below */
    uint64_t hi = (uint64_t)(uintptr_t)__libc_stack_end;
    if (getrlimit(RLIMIT_STACK, &lim) == 0 && lim.rlim_cur < most)
        most = lim.rlim_cur;
    hw_main_stack = (struct hw_walk_range){hi - most, hi};
}

static _Atomic(char *) chunks[MAX_CHUNKS];
#ifndef HW_BARE
static pthread_key_t slab_key;
#endif
static bool have_key;

static size_t slab_bytes(void)
{
    return (sizeof(struct hw_slab) + 63 + hw_walk_cache_bytes() + 4095) & ~(size_t)4095;
}

uint64_t hw_slabs_bytes(void)
{
    return CHUNK_SLABS * slab_bytes();
}

static struct hw_slab *slab_at(char *chunk, uint32_t i)
{
    return (struct hw_slab *)(void *)(chunk + i * slab_bytes());
}

static char *chunk_make(uint32_t c)
{
    char *p = mmap(NULL, CHUNK_SLABS * slab_bytes(), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *none = NULL;
    if (!atomic_compare_exchange_strong(&chunks[c], &none, p)) {
        (void)munmap(p, CHUNK_SLABS * slab_bytes()); /* another thread was faster */
        return none;
    }
    return p;
}

/* The outermost visit of this thread will never end. */
static HW_COLD void abandon(struct hw_tls *t)
{
    if (t->slab && atomic_load_explicit(&t->slab->busy, memory_order_relaxed) != 0)
        atomic_store_explicit(&t->slab->busy, 0, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(&hw_live.n_busy_without_slab, 1, memory_order_relaxed);
    t->busy = 0;
}

#ifdef HW_BARE

/* The slab stays with the thread pointer, see bare.h. */
int hw_slabs_init(void)
{
    have_key = true;
    return chunk_make(0) ? 0 : -1;
}

#else

/*
 * Runs late in a thread's life, and asks twice to be run once more: libc goes round the keys up to
 * four times. What destructors and exit handlers allocate after that is sampled with a slab
 * borrowed for the moment.
 */
static void slab_return(void *p)
{
    struct hw_slab *slab = p;
    if (hw_here.busy != 0) /* pthread_exit from a handler: we are above whatever it interrupted */
        abandon(&hw_here);
    if (slab->n_rounds++ < 2 && pthread_setspecific(slab_key, slab) == 0)
        return;
    hw_slices_thread_ends(slab);
    hw_here.flags |= HW_TLS_ENDED;
    hw_here.slab = NULL;
    atomic_store_explicit(&slab->in_use, 0, memory_order_release);
}

int hw_slabs_init(void)
{
    have_key = pthread_key_create(&slab_key, slab_return) == 0;
    return have_key && chunk_make(0) ? 0 : -1;
}

#endif

static struct hw_slab *slab_claim(void)
{
    for (uint32_t c = 0; c < MAX_CHUNKS; c++) {
        char *chunk = atomic_load_explicit(&chunks[c], memory_order_acquire);
        if (!chunk && !(chunk = chunk_make(c)))
            return NULL;
        for (uint32_t i = 0; i < CHUNK_SLABS; i++) {
            struct hw_slab *s = slab_at(chunk, i);
            uint32_t none = 0;
            if (atomic_load_explicit(&s->in_use, memory_order_relaxed) != 0 ||
                !atomic_compare_exchange_strong(&s->in_use, &none, 1))
                continue;
            atomic_store_explicit(&s->busy, 0, memory_order_relaxed);
            s->stack_hi = 0;
            s->generation = 0;
            s->n_rounds = 0;
            s->index = c * CHUNK_SLABS + i;
            s->marks.generation = 0; /* what another thread left open */
            return s;
        }
    }
    return NULL;
}

struct hw_slab *hw_slab_get(void)
{
    struct hw_tls *t = &hw_here;
    if (t->slab || t->flags & HW_TLS_ENDED || !have_key)
        return t->slab;
    struct hw_slab *s = slab_claim();
    if (!s)
        return NULL;
#ifndef HW_BARE
    /* The first 32 keys of a process need no memory, so this allocates only in programs that had
     * as many before us, and then nested in this visit. */
    t->flags |= HW_TLS_OURS;
    int rc = pthread_setspecific(slab_key, s);
    t->flags &= ~(uint32_t)HW_TLS_OURS;
    if (rc != 0) {
        atomic_store(&s->in_use, 0);
        return NULL;
    }
#endif
    t->slab = s;
    return s;
}

struct hw_slab *hw_slab_borrow(void)
{
    struct hw_slab *s = slab_claim();
    if (s) {
        hw_walk_cache_reset(hw_slab_cache(s)); /* of another thread, whose stack may be gone */
        s->n_walked = s->n_adopted = 0;
    }
    return s;
}

void hw_slab_return(struct hw_slab *s)
{
    if (s)
        atomic_store_explicit(&s->in_use, 0, memory_order_release);
}

bool hw_slabs_idle(void)
{
    if (atomic_load(&hw_live.n_busy_without_slab) != 0)
        return false;
    for (uint32_t c = 0; c < MAX_CHUNKS; c++) {
        char *chunk = atomic_load_explicit(&chunks[c], memory_order_acquire);
        if (!chunk)
            break;
        for (uint32_t i = 0; i < CHUNK_SLABS; i++)
            if (atomic_load(&slab_at(chunk, i)->busy) != 0)
                return false;
    }
    return true;
}

void hw_slabs_reset(struct hw_slab *mine)
{
#ifdef HW_BARE
    hw_bare_forget_others();
#endif
    for (uint32_t c = 0; c < MAX_CHUNKS; c++) {
        char *chunk = atomic_load(&chunks[c]);
        if (!chunk)
            break;
        for (uint32_t i = 0; i < CHUNK_SLABS; i++) {
            struct hw_slab *s = slab_at(chunk, i);
            if (s == mine || atomic_load(&s->in_use) == 0)
                continue; /* untouched pages stay untouched */
            atomic_store(&s->busy, 0);
            atomic_store(&s->in_use, 0);
        }
    }
}

/* Is the remembered visit still below us? Asked only when we are above it. */
static HW_COLD bool on_alternate_stack(void)
{
    stack_t ss;
    return !hw_sandbox() && sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_ONSTACK) != 0;
}

static uint64_t mark_of(uintptr_t visit)
{
    return (uint64_t)visit * 0x9e3779b97f4a7c15u ^ 0x7669736974u;
}

static bool inside(uintptr_t at, uint64_t lo, uint64_t hi)
{
    return at >= lo && at < hi && hi - at >= sizeof(struct hw_visit);
}

/* The visit at t->busy lies above the one that begins now. A thread's own stack stays mapped;
 * whose frames lie there now is of no matter. */
__attribute__((no_sanitize("address"))) static bool is_under_way(const struct hw_tls *t)
{
    const struct hw_visit *old = (const struct hw_visit *)t->busy;
    bool readable = inside(t->busy, hw_main_stack.lo, hw_main_stack.hi) ||
                    (t->slab && inside(t->busy, t->slab->stack_lo, t->slab->stack_hi));
    return !readable || (old->mark == mark_of(t->busy) && old->end_mark == old->mark);
}

void hw_enter(struct hw_visit *v)
{
    struct hw_tls *t = &hw_here;
    uintptr_t self = (uintptr_t)v;
    *v = (struct hw_visit){.mark = mark_of(self), .end_mark = mark_of(self)};
    if (hw_unlikely(t->busy != 0)) {
        /* What runs inside the visit lies strictly below it; the same place again is a later one.
         */
        if (self < t->busy ? is_under_way(t) : on_alternate_stack())
            v->nested = true;
        else
            abandon(t);
    }
    v->tls_before = t->busy;
    v->slab = t->slab;
    if (v->slab) {
        v->slab_before = atomic_load_explicit(&v->slab->busy, memory_order_relaxed);
        atomic_store_explicit(&v->slab->busy, self, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&hw_live.n_busy_without_slab, 1, memory_order_relaxed);
    }
    if (!v->nested)
        t->busy = self;
    atomic_signal_fence(memory_order_seq_cst); /* pairs with the membarrier, see above */
    v->session = atomic_load_explicit(&hw_live.session, memory_order_acquire);
    if (v->session && atomic_load_explicit(&hw_control.ended, memory_order_relaxed))
        v->session = NULL;
}

void hw_leave(struct hw_visit *v)
{
    struct hw_tls *t = &hw_here;
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = v->tls_before;
    /* Release: what the visit did to the session's memory is done before the word says so. */
    if (v->slab)
        atomic_store_explicit(&v->slab->busy, v->slab_before, memory_order_release);
    else
        atomic_fetch_sub_explicit(&hw_live.n_busy_without_slab, 1, memory_order_release);
    v->mark = v->end_mark = 0;
}
