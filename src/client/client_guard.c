/*
 * client_guard.c - who is inside our code right now, and the per-thread memory for it
 *
 * Everything that a session owns may be unmapped only when nobody is inside (doc/design/client.md):
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
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kernel/kernel.h"
#include "client/kernel/sys.h"
#include "client/sample/stacks.h"

#define CHUNK_SLABS 4u /* few: a program that locks its memory has them whole */
#define MAX_CHUNKS  2048u
#define SOME_SLABS  16u
/* libc keeps a thread's values of so many keys in the thread's descriptor, and allocates for
 * others. */
#define FREE_KEYS   32u
#define SWEPT_SLABS 32u /* at a time */
#define SOME_THREAD                                                                                \
    UINT32_MAX /* a slab's owner whose number is not known: it gives it back itself */

#ifndef HW_BARE
__thread struct hw_tls hw_here __attribute__((tls_model("initial-exec")));
#endif
union hw_process_page_block hw_process_page_block __attribute__((aligned(HW_PAGE_ALIGN)));
union hw_control_block hw_control_block __attribute__((aligned(HW_PAGE_ALIGN)));
/* The name by which a recorder that starts later finds the page from outside. */
extern union hw_control_block heapwise_control_page
    __attribute__((alias("hw_control_block"), visibility("default")));

static _Atomic(char *) chunks[MAX_CHUNKS];
#ifndef HW_BARE
static pthread_key_t slab_key;
#endif
static bool have_slabs;
static bool have_key;

static size_t slab_bytes(void)
{
    return (sizeof(struct hw_slab) + 63 + hw_walk_cache_bytes() + 4095) & ~(size_t)4095;
}

uint64_t hw_slabs_bytes(void)
{
    return SOME_SLABS * slab_bytes();
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
        atomic_fetch_sub_explicit(&hw_process_page.n_busy_without_slab, 1, memory_order_relaxed);
    t->busy = 0;
}

#ifdef HW_BARE

/* The slab stays with the thread pointer, see freestanding.h. */
int hw_slabs_init(void)
{
    have_key = have_slabs = chunk_make(0) != NULL;
    return have_slabs ? 0 : -1;
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
    hw_here.flags |= HW_TLS_BORROWS;
    hw_here.slab = NULL;
    atomic_store_explicit(&slab->owner, 0, memory_order_release);
}

/* In a program that has many keys ours would cost memory in each thread, allocated by libc inside
 * of the program's malloc and whatever lock it holds. Then there is none, and slabs are swept. */
int hw_slabs_init(void)
{
    have_key = pthread_key_create(&slab_key, slab_return) == 0;
    if (have_key && slab_key >= FREE_KEYS) {
        have_key = false;
        (void)pthread_key_delete(slab_key); /* has no values */
    }
    have_slabs = chunk_make(0) != NULL;
    return have_slabs ? 0 : -1;
}

#endif

static struct hw_slab *slab_init(struct hw_slab *s, uint32_t index)
{
    atomic_store_explicit(&s->busy, 0, memory_order_relaxed);
    s->stack_lo = s->stack_hi = s->foreign_lo = s->foreign_hi = 0;
    s->generation = 0;
    s->n_rounds = 0;
    s->index = index;
    s->marks.generation = 0; /* what another thread left open */
    return s;
}

/* The first that nobody has; NULL: there is none up to *n_chunks, behind which are no others. */
static struct hw_slab *claim_free(uint32_t owner, uint32_t *n_chunks)
{
    uint32_t c = 0;
    char *chunk;
    for (; c < MAX_CHUNKS && (chunk = atomic_load_explicit(&chunks[c], memory_order_acquire)); c++)
        for (uint32_t i = 0; i < CHUNK_SLABS; i++) {
            struct hw_slab *s = slab_at(chunk, i);
            uint32_t none = 0;
            if (atomic_load_explicit(&s->owner, memory_order_relaxed) == 0 &&
                atomic_compare_exchange_strong(&s->owner, &none, owner))
                return slab_init(s, c * CHUNK_SLABS + i);
        }
    *n_chunks = c;
    return NULL;
}

/* A thread that is told apart from all others, and is none of this process any more. */
static bool is_gone(uint32_t owner)
{
    int32_t pid = atomic_load_explicit(&hw_process_page.pid, memory_order_relaxed);
    return owner != 0 && owner != SOME_THREAD && hw_kernel(SYS_tgkill, pid, owner, 0) != 0 &&
           errno == ESRCH;
}

/*
 * Takes back what threads have left that ended without a word: where we have no key, all do. One
 * thread at a time, so that nobody else takes a dead one's slab between the look and the exchange.
 * Not in a process that shares our memory: there the numbers may be others'.
 */
static HW_COLD bool sweep(uint32_t n_chunks)
{
    static uint32_t next;
    uint32_t none = 0, n_slabs = n_chunks * CHUNK_SLABS;
    bool found = false;
    int saved = errno;
    if (n_slabs == 0 || hw_sandbox() || getpid() != atomic_load(&hw_process_page.pid) ||
        !atomic_compare_exchange_strong(&hw_process_page.slab_lock, &none, 1))
        return false;
    for (uint32_t n = 0; n < SWEPT_SLABS && n < n_slabs; n++, next++) {
        uint32_t at = next % n_slabs;
        struct hw_slab *s = slab_at(atomic_load(&chunks[at / CHUNK_SLABS]), at % CHUNK_SLABS);
        uint32_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
        if (!is_gone(owner))
            continue;
        atomic_store(&s->busy, 0); /* perhaps it ended inside a visit */
        atomic_store(&s->owner, 0);
        found = true;
    }
    atomic_store(&hw_process_page.slab_lock, 0);
    errno = saved;
    return found;
}

static struct hw_slab *slab_claim(uint32_t owner)
{
    uint32_t n_chunks;
    struct hw_slab *s = claim_free(owner, &n_chunks);
    if (!s && sweep(n_chunks))
        s = claim_free(owner, &n_chunks);
    while (!s && n_chunks < MAX_CHUNKS && chunk_make(n_chunks))
        s = claim_free(owner, &n_chunks); /* others may have taken all of the new ones */
    return s;
}

struct hw_slab *hw_slab_get(void)
{
    struct hw_tls *t = &hw_here;
    if (t->slab || t->flags & HW_TLS_BORROWS || !have_slabs)
        return t->slab;
#ifdef HW_BARE
    t->slab = slab_claim(SOME_THREAD);
#else
    uint32_t tid = hw_push_thread().tid;
    if (!have_key && tid == 0) { /* nobody would ever know that it has ended */
        t->flags |= HW_TLS_BORROWS;
        return NULL;
    }
    struct hw_slab *s = slab_claim(tid ? tid : SOME_THREAD);
    if (s && have_key && pthread_setspecific(slab_key, s) != 0)
        return NULL; /* not for such a key; then it stays with the thread's number */
    t->slab = s;
#endif
    return t->slab;
}

struct hw_slab *hw_slab_borrow(void)
{
    struct hw_slab *s = slab_claim(SOME_THREAD);
    if (s) {
        hw_walk_cache_reset(hw_slab_cache(s)); /* of another thread, whose stack may be gone */
        s->n_walked = s->n_adopted = 0;
    }
    return s;
}

void hw_slab_return(struct hw_slab *s)
{
    if (s)
        atomic_store_explicit(&s->owner, 0, memory_order_release);
}

bool hw_slabs_idle(void)
{
    if (atomic_load(&hw_process_page.n_busy_without_slab) != 0)
        return false;
    for (uint32_t c = 0; c < MAX_CHUNKS; c++) {
        char *chunk = atomic_load_explicit(&chunks[c], memory_order_acquire);
        if (!chunk)
            break;
        for (uint32_t i = 0; i < CHUNK_SLABS; i++)
            if (atomic_load(&slab_at(chunk, i)->busy) != 0)
                return false; /* also of a thread that ended inside, until that is seen */
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
            if (atomic_load(&s->owner) == 0)
                continue;    /* untouched pages stay untouched */
            if (s == mine) { /* the number is the parent's */
                atomic_store(&s->owner, SOME_THREAD);
                continue;
            }
            atomic_store(&s->busy, 0);
            atomic_store(&s->owner, 0);
        }
    }
}

void hw_slabs_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes), void *arg)
{
    char *chunk;
    for (uint32_t c = 0; c < MAX_CHUNKS && (chunk = atomic_load(&chunks[c])); c++)
        fn(arg, chunk, CHUNK_SLABS * slab_bytes());
}

static uint64_t mark_of(uintptr_t visit)
{
    return (uint64_t)visit * 0x9e3779b97f4a7c15u ^ 0x7669736974u;
}

static bool inside(uintptr_t at, uint64_t lo, uint64_t hi)
{
    return at >= lo && at < hi && hi - at >= sizeof(struct hw_client_guard);
}

/* The visit at t->busy lies above the one that begins now. A thread's own stack stays mapped;
 * whose frames lie there now is of no matter. */
__attribute__((no_sanitize("address"))) static bool is_under_way(const struct hw_tls *t)
{
    const struct hw_client_guard *old = (const struct hw_client_guard *)t->busy;
    bool readable =
        inside(t->busy, hw_main_stack.lo, hw_main_stack.hi) ||
        (t->slab && inside(t->busy, t->slab->stack_lo, t->slab->stack_hi)) ||
        (!hw_sandbox() && hw_sys_readable(t->busy) && hw_sys_readable((uintptr_t)(old + 1) - 8));
    return !readable || (old->mark == mark_of(t->busy) && old->end_mark == old->mark);
}

void hw_enter(struct hw_client_guard *v)
{
    struct hw_tls *t = &hw_here;
    uintptr_t self = (uintptr_t)v;
    *v = (struct hw_client_guard){.mark = mark_of(self), .end_mark = mark_of(self)};
    if (hw_unlikely(t->busy != 0)) {
        /* What runs inside the visit lies strictly below it; the same place again is a later one.
         */
        if (self < t->busy ? is_under_way(t) : hw_stack_is_alternate())
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
        atomic_fetch_add_explicit(&hw_process_page.n_busy_without_slab, 1, memory_order_relaxed);
    }
    v->last_pos_before = v->nested ? t->last_pos : 0;
    if (!v->nested)
        t->busy = self;
    atomic_signal_fence(memory_order_seq_cst); /* pairs with the membarrier, see above */
    v->session = atomic_load_explicit(&hw_process_page.session, memory_order_acquire);
    if (v->session && atomic_load_explicit(&hw_control.ended, memory_order_relaxed))
        v->session = NULL;
    if (hw_unlikely(t->last_pos != v->last_pos_before)) {
        if (v->session)
            hw_push_abandoned(v->session);
        t->last_pos = 0;
    }
}

void hw_leave(struct hw_client_guard *v)
{
    struct hw_tls *t = &hw_here;
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = v->tls_before;
    t->last_pos = v->last_pos_before;
    /* Release: what the visit did to the session's memory is done before the word says so. */
    if (v->slab)
        atomic_store_explicit(&v->slab->busy, v->slab_before, memory_order_release);
    else
        atomic_fetch_sub_explicit(&hw_process_page.n_busy_without_slab, 1, memory_order_release);
    v->mark = v->end_mark = 0;
}
