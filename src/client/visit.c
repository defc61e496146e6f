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
 * A handler that leaves by siglongjmp leaves busy set. The next visit whose frame is above the
 * remembered one proves that frame gone, unless it runs on an alternate stack.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "client/client.h"
#include "client/sys.h"

#define CHUNK_SLABS 16u
#define MAX_CHUNKS  512u

__thread struct hw_tls hw_tls __attribute__((tls_model("initial-exec")));
union hw_live_block hw_live_block __attribute__((aligned(HW_PAGE_ALIGN)));
union hw_control_block hw_control_block __attribute__((aligned(HW_PAGE_ALIGN)));
/* The name by which a recorder that starts later finds the page from outside. */
extern union hw_control_block heapwise_control_page
    __attribute__((alias("hw_control_block"), visibility("default")));

static _Atomic(char *) chunks[MAX_CHUNKS];
static pthread_key_t slab_key;
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

/*
 * Runs late in a thread's life, and asks twice to be run once more: libc goes round the keys up to
 * four times. What destructors and exit handlers allocate after that is sampled with a slab
 * borrowed for the moment.
 */
static void slab_return(void *p)
{
    struct hw_slab *slab = p;
    if (slab->n_rounds++ < 2 && pthread_setspecific(slab_key, slab) == 0)
        return;
    hw_tls.flags |= HW_TLS_ENDED;
    hw_tls.slab = NULL;
    atomic_store_explicit(&slab->in_use, 0, memory_order_release);
}

int hw_slabs_init(void)
{
    have_key = pthread_key_create(&slab_key, slab_return) == 0;
    return have_key && chunk_make(0) ? 0 : -1;
}

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
            return s;
        }
    }
    return NULL;
}

struct hw_slab *hw_slab_get(void)
{
    struct hw_tls *t = &hw_tls;
    if (t->slab || t->flags & HW_TLS_ENDED || !have_key)
        return t->slab;
    struct hw_slab *s = slab_claim();
    if (!s)
        return NULL;
    /* The first 32 keys of a process need no memory, so this allocates only in programs that had
     * as many before us, and then nested in this visit. */
    t->flags |= HW_TLS_OURS;
    int rc = pthread_setspecific(slab_key, s);
    t->flags &= ~(uint32_t)HW_TLS_OURS;
    if (rc != 0) {
        atomic_store(&s->in_use, 0);
        return NULL;
    }
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

/* Is the remembered frame still below us? Asked only when our own frame is above it. */
static HW_COLD bool on_alternate_stack(void)
{
    stack_t ss;
    return !hw_sandbox() && sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_ONSTACK) != 0;
}

void hw_enter(struct hw_visit *v, uintptr_t frame)
{
    struct hw_tls *t = &hw_tls;
    *v = (struct hw_visit){.entered = true};
    if (hw_unlikely(t->busy != 0)) {
        /* What runs inside the visit lies strictly below it; the same frame again is a later one.
         */
        if (frame < t->busy || on_alternate_stack()) {
            v->nested = true;
        } else { /* its frame is gone */
            if (t->slab && atomic_load_explicit(&t->slab->busy, memory_order_relaxed) != 0)
                atomic_store_explicit(&t->slab->busy, 0, memory_order_relaxed);
            else
                atomic_fetch_sub_explicit(&hw_live.n_busy_without_slab, 1, memory_order_relaxed);
            t->busy = 0;
        }
    }
    v->tls_before = t->busy;
    v->slab = t->slab;
    if (v->slab) {
        v->slab_before = atomic_load_explicit(&v->slab->busy, memory_order_relaxed);
        atomic_store_explicit(&v->slab->busy, frame, memory_order_relaxed);
    } else {
        atomic_fetch_add_explicit(&hw_live.n_busy_without_slab, 1, memory_order_relaxed);
    }
    if (!v->nested)
        t->busy = frame;
    atomic_signal_fence(memory_order_seq_cst); /* pairs with the membarrier, see above */
    v->session = atomic_load_explicit(&hw_live.session, memory_order_acquire);
    if (v->session && atomic_load_explicit(&hw_control.ended, memory_order_relaxed))
        v->session = NULL;
}

void hw_leave(struct hw_visit *v)
{
    struct hw_tls *t = &hw_tls;
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = v->tls_before;
    /* Release: what the visit did to the session's memory is done before the word says so. */
    if (v->slab)
        atomic_store_explicit(&v->slab->busy, v->slab_before, memory_order_release);
    else
        atomic_fetch_sub_explicit(&hw_live.n_busy_without_slab, 1, memory_order_release);
    v->entered = false;
}
