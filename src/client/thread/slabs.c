/*
 * slabs.c - the memory of the threads that sample
 *
 * Slabs lie in chunks that are added and never released. A slab is claimed by a thread's number and
 * free again when the thread ends; without a thread-specific key it is swept
 * (doc/design/client.md).
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kernel/kernel.h"
#include "client/kernel/own_memory.h"
#include "client/thread/client_guard.h"
#include "client/thread/slabs.h"
#include "client/thread/thread_id.h"

#define CHUNK_SLABS 4u /* few: in a program that locks its memory all of them are resident */
#define MAX_CHUNKS  2048u
#define SOME_SLABS  16u
/* libc keeps a thread's values of this many keys in the thread's descriptor, and allocates for
 * others. */
#define FREE_KEYS   32u
#define SWEPT_SLABS 32u /* at a time */
#define SOME_THREAD                                                                                \
    UINT32_MAX /* a slab's owner whose number is not known: it releases the slab itself */

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
    char *p = mmap(NULL, CHUNK_SLABS * slab_bytes(), PROT_READ | PROT_WRITE, HW_OWN_MEMORY, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *none = NULL;
    if (!atomic_compare_exchange_strong(&chunks[c], &none, p)) {
        (void)munmap(p, CHUNK_SLABS * slab_bytes()); /* another thread was faster */
        return none;
    }
    hw_own_memory_add_for_good(p, CHUNK_SLABS * slab_bytes());
    return p;
}

#ifdef HW_BARE

/* The slab stays with the thread pointer, see freestanding.h. */
int hw_slabs_init(void (*thread_ends)(void *slab))
{
    (void)thread_ends;
    have_key = have_slabs = chunk_make(0) != NULL;
    return have_slabs ? 0 : -1;
}

#else

/*
 * libc calls the destructor late in a thread's life, and we ask twice to be called once more: libc
 * goes through the keys up to four times. What destructors and exit handlers allocate after that is
 * sampled with a slab borrowed for the moment.
 */
bool hw_slab_is_kept(struct hw_slab *slab)
{
    if (hw_here.busy != 0) /* pthread_exit from a handler: we are above whatever it interrupted */
        hw_visit_abandon(&hw_here);
    return slab->n_rounds++ < 2 && pthread_setspecific(slab_key, slab) == 0;
}

void hw_slab_leave(struct hw_slab *slab)
{
    hw_here.flags |= HW_TLS_BORROWS;
    hw_here.slab = NULL;
    atomic_store_explicit(&slab->owner, 0, memory_order_release);
}

/* In a program that has many keys ours would cost memory in each thread, allocated by libc
 * inside the program's malloc under whatever lock it holds. Then there is none, and slabs are
 * swept. */
int hw_slabs_init(void (*thread_ends)(void *slab))
{
    have_key = pthread_key_create(&slab_key, thread_ends) == 0;
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
    s->chain.thread = 0;
    return s;
}

/* The first slab without an owner; NULL: there is none up to *n_chunks, after which there are no
 * others. */
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

/* A thread whose number is known, and which has ended. */
static bool is_gone(uint32_t owner)
{
    int32_t pid = atomic_load_explicit(&hw_process_page.pid, memory_order_relaxed);
    return owner != 0 && owner != SOME_THREAD && hw_kernel(SYS_tgkill, pid, owner, 0) != 0 &&
           errno == ESRCH;
}

/*
 * Reclaims the slabs of threads that ended unnoticed: if we have no key, all do. One thread at a
 * time, so that no other takes a dead thread's slab between the check and the exchange. Not in a
 * process that shares our memory: there the numbers may be others'.
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
    uint32_t tid = hw_push_this_thread().tid;
    if (!have_key && tid == 0) { /* nothing would ever show that it has ended */
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
                return false; /* also of a thread that ended inside, until that is noticed */
    }
    return true;
}

/* The child's session may have the generation of its parent's, but it has other tables and slots, and its recorder
 * knows no names yet. */
static void forget_parent(struct hw_slab *s)
{
    s->generation = 0;
    s->chain.generation = 0;
    s->marks.slot = NULL;
    s->marks.names_thread = s->marks.tid != 0;
    if (s->marks.tid != 0)
        s->marks.tid = (int32_t)getpid();
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
                forget_parent(s);
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
