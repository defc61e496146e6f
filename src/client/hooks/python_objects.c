/*
 * python_objects.c - our functions in CPython's table of allocators
 *
 *      table (a PyMemAllocatorEx each)         ours                       pymalloc
 *      mem  ctx malloc calloc realloc free --> count, pass on ----------> arenas, or malloc
 *      obj  ctx malloc calloc realloc free -->
 *
 * The context stays the one that was there: callers load function and context one after the other, so any mixture of
 * old and new words is right, in any thread and without the interpreter's lock. So each word is changed by itself; free
 * and realloc first, as a block that was counted must not be freed unseen.
 *
 * Only pymalloc's own table is changed: the same functions for both kinds of memory, no context, others than those of
 * raw memory. PYTHONMALLOC=malloc has the raw ones (each object is malloc's already); its debug hooks and tracemalloc,
 * if that was started before us, have a context. Whoever puts functions on top of ours later calls ours.
 *
 * Counted once: up to 512 bytes are from arenas, what is above is malloc's. A realloc to a small size is in doubt, since
 * a block of malloc's stays there: so malloc's hook says whether it was called (HW_TLS_OBJECT).
 *
 * Up to 3.11 the table is two variables without a name. PyMem_GetAllocator says what they contain, and they are the two
 * places in the file's variables that contain it (its debug hooks have copies, with a letter before each).
 */
#include "client/hooks/python_objects.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "client/hooks/heaps.h"
#include "client/hooks/sample_due.h"
#include "client/hooks/slow_path.h"
#include "client/kernel/sys.h"
#include "client/sample/capture.h"
#include "client/sample/heap_table.h"
#include "client/sample/live_set.h"
#include "client/sample/sampler.h"
#include "client/thread/client_guard.h"
#include "client/thread/stack_bounds.h"

#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)

#include "wire/python.def"

#define SMALL          HW_PYTHON_SMALL
#define NEAR           (1ull << 28)
#define MAX_DATA       (64ull << 20)
#define CHUNK          4096u
#define TYPE_NAME_AT   24u
#define REST_SETTLED   127u
#define REST_PLACED    15u
#define REST_UNSETTLED 15u
#define REST_IN_DOUBT  63u
#define MAX_HOOKS      4u
#define EARLY_TRIES    64u

/* PyMemAllocatorEx */
struct functions {
    void *ctx;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
};
#define N_WORDS 5u
_Static_assert(sizeof(struct functions) == N_WORDS * 8, "words");

enum domain { RAW, MEM, OBJ, N_DOMAINS };

/* Written before any word leads to us, and then kept as long as it is mapped: whoever saved ours may put functions on
 * top of them at any time, and these must never become what ours call. */
static struct functions real;

static _Atomic bool is_called; /* one of the slow ones since it was last asked */

HW_HIDDEN _Atomic uint32_t hw_python_objects_rest, hw_python_objects_generation;

/* ---- the hooks ---- */

static void record(void *p, size_t n, uint64_t weight, uint32_t flags,
                   const struct hw_call_site *site)
{
    uint32_t heap = atomic_load_explicit(&hw_python_heap, memory_order_relaxed);
    atomic_store_explicit(&is_called, true, memory_order_relaxed);
    if (p && weight != HW_NOT_SAMPLED)
        (void)hw_record_alloc(&(struct hw_event){.id = (uint64_t)(uintptr_t)p,
                                                 .size = n,
                                                 .weight = weight,
                                                 .heap_id = heap,
                                                 .flags = flags,
                                                 .site = site});
}

static __attribute__((noinline)) void *slow_malloc(void *ctx, size_t n)
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    void *p = real.malloc(ctx, n);
    record(p, n, weight, 0, &site);
    return p;
}

static __attribute__((noinline)) void *slow_calloc(void *ctx, size_t n, size_t size)
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n * size, site.sp);
    void *p = real.calloc(ctx, n, size);
    record(p, n * size, weight, 0, &site);
    return p;
}

/* The real call, which may reach malloc's realloc. That goes through its slow path now: left is 0, and comes back if
 * nobody took it. */
static void *realloc_in_doubt(void *ctx, void *p, size_t n, bool *is_object)
{
    struct hw_tls *t = &hw_here;
    t->reserve += t->left;
    t->left = 0;
    t->flags |= HW_TLS_OBJECT;
    void *q = real.realloc(ctx, p, n);
    *is_object = t->flags & HW_TLS_OBJECT;
    t->flags &= ~(uint32_t)HW_TLS_OBJECT;
    if (t->left == 0 && t->interval > 1)
        hw_sampler_split(t, t->reserve);
    return q;
}

static __attribute__((noinline)) void *slow_realloc(void *ctx, void *p, size_t n)
{
    HW_SITE(site);
    uint32_t heap = atomic_load_explicit(&hw_python_heap, memory_order_relaxed);
    uint64_t weight = n - 1 < SMALL && hw_due(n) ? hw_sampler_take(n, site.sp) : HW_NOT_SAMPLED;
    bool is_object = true;
    struct hw_held old = hw_hold(heap, p);
    bool in_doubt = p && !old.slot && weight != HW_NOT_SAMPLED && hw_here.interval != 0;
    void *q = in_doubt ? realloc_in_doubt(ctx, p, n, &is_object) : real.realloc(ctx, p, n);
    if (old.slot)
        hw_let_go(&old, heap, (uint64_t)(uintptr_t)p, /* failed = */ !q);
    record(q, n, is_object ? weight : HW_NOT_SAMPLED, HW_ALLOC_REALLOC, &site);
    return q;
}

static __attribute__((noinline)) void slow_free(void *ctx, void *p)
{
    atomic_store_explicit(&is_called, true, memory_order_relaxed);
    hw_report_free(atomic_load_explicit(&hw_python_heap, memory_order_relaxed),
                   (uint64_t)(uintptr_t)p);
    real.free(ctx, p);
}

static bool maybe_live(const void *p)
{
    return hw_unlikely(hw_live_set_maybe((uint64_t)(uintptr_t)p));
}

/* Each on a cache line, as malloc's. */
#define HOOK __attribute__((aligned(64)))

HOOK static void *object_malloc(void *ctx, size_t n)
{
    if (n - 1 < SMALL && hw_unlikely(hw_due(n)))
        return slow_malloc(ctx, n);
    return real.malloc(ctx, n);
}

HOOK static void *object_calloc(void *ctx, size_t n, size_t size)
{
    size_t whole;
    if (hw_likely(!__builtin_mul_overflow(n, size, &whole)) && whole - 1 < SMALL &&
        hw_unlikely(hw_due(whole)))
        return slow_calloc(ctx, n, size);
    return real.calloc(ctx, n, size);
}

HOOK static void *object_realloc(void *ctx, void *p, size_t n)
{
    if (maybe_live(p) || (n - 1 < SMALL && hw_unlikely(hw_due(n))))
        return slow_realloc(ctx, p, n);
    return real.realloc(ctx, p, n);
}

HOOK static void object_free(void *ctx, void *p)
{
    if (maybe_live(p)) {
        slow_free(ctx, p);
        return;
    }
    real.free(ctx, p);
}

static const struct functions ours = {NULL, object_malloc, object_calloc, object_realloc,
                                      object_free};

/* ---- the table ---- */

struct table {
    uint64_t at[N_DOMAINS]; /* 0 = not known */
    uint64_t words[N_DOMAINS][N_WORDS];
};

static struct {
    uint64_t runtime;       /* of the interpreter whose table has our words, or had; 0 = none */
    uint64_t at[N_DOMAINS]; /* where */
    uint32_t generation;    /* of the session that has `state` */
    uint32_t n_tries;       /* while it was not ready */
    enum hw_ring_objects state;
    bool is_in_doubt; /* others' functions are there, and whether they call ours is not known */
} placed;

static const uint64_t *words_of(const struct functions *f)
{
    return (const uint64_t *)(const void *)f;
}

/* The context may be anybody's. */
static bool has_functions(const uint64_t *words, const struct functions *f)
{
    return memcmp(words + 1, words_of(f) + 1, (N_WORDS - 1) * 8) == 0;
}

/* Four functions of the interpreter's, all different. */
static bool are_functions(const uint64_t *w, uint64_t eval)
{
    for (uint32_t i = 1; i < N_WORDS; i++) {
        if (w[i] - (eval - NEAR) >= 2 * NEAR)
            return false;
        for (uint32_t k = 1; k < i; k++)
            if (w[i] == w[k])
                return false;
    }
    return true;
}

static void load(uint64_t at, uint64_t *words)
{
    for (uint32_t i = 0; i < N_WORDS; i++)
        words[i] = __atomic_load_n((const uint64_t *)(uintptr_t)at + i, __ATOMIC_ACQUIRE);
}

/* A host may have unloaded it, and something else may lie there. */
static bool is_interpreter(const struct hw_python_place *at)
{
    uint64_t type = atomic_load_explicit(&at->code_type, memory_order_relaxed) + TYPE_NAME_AT;
    if (!hw_sys_readable(type) ||
        !hw_sys_readable(atomic_load_explicit(&at->runtime, memory_order_relaxed)))
        return false;
    uint64_t name = __atomic_load_n((const uint64_t *)(uintptr_t)type, __ATOMIC_RELAXED);
    return name >> 47 == 0 && hw_sys_readable(name & ~7ull) &&
           hw_sys_readable((name + 4) & ~7ull) &&
           memcmp((const char *)(uintptr_t)name, "code", 5) == 0;
}

static bool read_at(uint64_t at, uint64_t *words)
{
    if (!hw_sys_readable(at) || !hw_sys_readable(at + (N_WORDS - 1) * 8))
        return false;
    load(at, words);
    return true;
}

typedef void get_allocator(int domain, struct functions *out);

static __attribute__((noipa)) bool read_by_call(const struct hw_python_objects_place *o,
                                                struct table *t)
{
    uint64_t at = atomic_load_explicit(&o->get_allocator, memory_order_relaxed);
    struct functions f;
    if (!at || !hw_sys_readable(at & ~7ull))
        return false;
    for (int i = 0; i < N_DOMAINS; i++) {
        memset(&f, 0, sizeof f);
        ((get_allocator *)(uintptr_t)at)(i, &f);
        memcpy(t->words[i], &f, sizeof f);
        t->at[i] = 0;
    }
    return true;
}

/* Words from there on, at most n: -1, the first page cannot be read; less, what follows cannot. Pages may have been taken
 * from the program, or go just now: the kernel copies, so that is an error and not a signal. */
static long copy_words(uint64_t at, uint64_t *to, uint32_t n)
{
    uint64_t end = at + n * 8ull, edge = (at | (CHUNK - 1)) + 1;
    struct iovec here = {to, n * 8ull};
    struct iovec there[] = {{(void *)(uintptr_t)at, (edge < end ? edge : end) - at},
                            {(void *)(uintptr_t)edge, edge < end ? end - edge : 0}};
    long pid = hw_kernel(SYS_getpid);
    long got = hw_kernel(SYS_process_vm_readv, pid, &here, 1, there, edge < end ? 2 : 1, 0);
    return got < 0 ? -1 : got / 8;
}

/* The two variables that contain these words. */
static HW_COLD bool find_in_data(const struct hw_python_objects_place *o, struct table *t)
{
    static uint64_t words[CHUNK / 8 + N_WORDS]; /* one thread at a time */
    uint64_t lo = atomic_load_explicit(&o->data_lo, memory_order_relaxed);
    uint64_t hi = atomic_load_explicit(&o->data_hi, memory_order_relaxed) & ~7ull;
    const uint64_t *w = t->words[OBJ];
    uint32_t n = 0;
    if (lo % 8 || hi - lo > MAX_DATA || hi - lo < sizeof real)
        return false;
    for (uint64_t at = lo, next; at < hi; at = next) {
        next = (at | (CHUNK - 1)) + 1;
        uint64_t end = next + sizeof real < hi ? next + sizeof real : hi;
        long n_words = copy_words(at, words, (uint32_t)((end - at) / 8));
        if (n_words < 0 && errno != EFAULT)
            return false; /* a filter of system calls */
        for (long i = 1; i + (long)N_WORDS <= n_words; i++) {
            const uint64_t *p = words + i;
            bool is_copy = p[-1] == 'm' || p[-1] == 'o' || p[-1] == 'r';
            if (p[1] != w[1] || is_copy || memcmp(p, w, sizeof real) != 0)
                continue;
            if (n == 2)
                return false;
            t->at[n++ ? OBJ : MEM] = at + (uint64_t)i * 8; /* which is which makes no difference */
        }
    }
    return n == 2;
}

static bool read_table(const struct hw_python_place *at, struct table *t)
{
    uint32_t minor = atomic_load_explicit(&at->minor, memory_order_relaxed), offset = 0;
#define ROW(m, preinitialized, allocators)                                                         \
    if (minor == (m))                                                                              \
        offset = (allocators);
    HW_PYTHON_ALLOCATORS(ROW)
#undef ROW
    if (offset == HW_PYTHON_NONE)
        return read_by_call(&hw_control.python_objects, t);
    if (offset == 0)
        return false;
    for (uint32_t i = 0; i < N_DOMAINS; i++) {
        t->at[i] = atomic_load_explicit(&at->runtime, memory_order_relaxed) + offset +
                   i * sizeof(struct functions);
        if (!read_at(t->at[i], t->words[i]))
            return false;
    }
    return true;
}

/* Before that an option or PYTHONMALLOC may still change the table as a whole. */
static bool is_configured(const struct hw_python_place *at)
{
    uint32_t minor = atomic_load_explicit(&at->minor, memory_order_relaxed), offset = 0;
#define ROW(m, preinitialized, allocators) offset = minor == (m) ? (preinitialized) : offset;
    HW_PYTHON_ALLOCATORS(ROW)
#undef ROW
    uint64_t word = atomic_load_explicit(&at->runtime, memory_order_relaxed) + offset;
    return offset != 0 && hw_sys_readable(word & ~7ull) &&
           __atomic_load_n((const uint32_t *)(uintptr_t)word, __ATOMIC_ACQUIRE) == 1;
}

/* ---- changing it ---- */

static const uint8_t first_free[] = {4, 3, 2,
                                     1}; /* the words, in the order in which they are changed */

/* All four, or none: false, another thread changed one meanwhile. Undone in the opposite order. */
static bool exchange(uint64_t at, const struct functions *from, const struct functions *to)
{
    uint64_t *w = (uint64_t *)(uintptr_t)at;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t k = first_free[i];
        uint64_t was = words_of(from)[k];
        if (__atomic_compare_exchange_n(w + k, &was, words_of(to)[k], false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            continue;
        while (i-- > 0) {
            was = words_of(to)[first_free[i]];
            (void)__atomic_compare_exchange_n(w + first_free[i], &was,
                                              words_of(from)[first_free[i]], false,
                                              __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        }
        return false;
    }
    return true;
}

/* What there is to do with a table that we have not changed; NONE = it is pymalloc's, ours comes on top. */
static enum hw_ring_objects judge(const struct table *t, uint64_t eval)
{
    const uint64_t *raw = t->words[RAW], *mem = t->words[MEM], *obj = t->words[OBJ];
    if (memcmp(mem, raw, sizeof real) == 0 && memcmp(obj, raw, sizeof real) == 0)
        return HW_RING_OBJECTS_MALLOCS;
    if (obj[0] != 0 || mem[0] != 0)
        return HW_RING_OBJECTS_OTHERS;
    if (memcmp(mem, obj, sizeof real) != 0 || obj[1] == raw[1] || !are_functions(obj, eval))
        return HW_RING_OBJECTS_UNKNOWN;
    return HW_RING_OBJECTS_NONE;
}

static bool make_heap(void)
{
    if (atomic_load(&hw_python_heap) == 0)
        atomic_store(&hw_python_heap, hw_heaps_make(HW_PYTHON_HEAP, NULL, NULL));
    return atomic_load(&hw_python_heap) != 0;
}

/* False: somebody else changed it just now, or it is not the table after all. */
static bool exchange_both(const struct hw_python_place *at, const struct table *t)
{
    struct table after;
    if (!exchange(t->at[MEM], &real, &ours))
        return false;
    bool both = exchange(t->at[OBJ], &real, &ours);
    if (both && read_table(at, &after) && has_functions(after.words[MEM], &ours) &&
        has_functions(after.words[OBJ], &ours))
        return true;
    (void)exchange(t->at[MEM], &ours, &real);
    if (both)
        (void)exchange(t->at[OBJ], &ours, &real);
    return false;
}

static HW_COLD enum hw_ring_objects put_ours(const struct hw_python_place *at, struct table *t)
{
    bool is_other = real.malloc && memcmp(t->words[OBJ], &real, sizeof real) != 0;
    bool is_second = placed.runtime != atomic_load_explicit(&at->runtime, memory_order_relaxed);
    if (is_other && hw_sys_readable(words_of(&real)[1] & ~7ull)) /* a hook may call ours */
        return is_second ? HW_RING_OBJECTS_UNKNOWN : HW_RING_OBJECTS_OTHERS;
    if ((t->at[MEM] == 0 && !find_in_data(&hw_control.python_objects, t)) || !make_heap())
        return HW_RING_OBJECTS_UNKNOWN;
    if (is_other || !real.malloc)
        memcpy(&real, t->words[OBJ], sizeof real);
    atomic_thread_fence(memory_order_seq_cst);
    if (!exchange_both(at, t))
        return HW_RING_OBJECTS_UNKNOWN;
    placed.runtime = atomic_load_explicit(&at->runtime, memory_order_relaxed);
    memcpy(placed.at, t->at, sizeof placed.at);
    return HW_RING_OBJECTS_PLACED;
}

/* Do functions with this context call ours? tracemalloc's and others' have the functions below them there, the debug hooks'
 * behind a letter. */
static bool leads_to_ours(uint64_t context)
{
    for (uint32_t i = 0; i < MAX_HOOKS && context % 8 == 0 && context > CHUNK; i++) {
        uint64_t w[N_WORDS + 1] = {0};
        if (copy_words(context, w, N_WORDS + 1) < N_WORDS)
            return false;
        if (has_functions(w, &ours) || has_functions(w + 1, &ours))
            return true;
        context = w[0] > UINT8_MAX ? w[0] : w[1];
    }
    return false;
}

/* The table has our words, or others' on top of them. */
static bool is_placed(const struct hw_python_place *at)
{
    uint64_t mem[N_WORDS], obj[N_WORDS];
    if (placed.runtime != atomic_load_explicit(&at->runtime, memory_order_relaxed) ||
        !read_at(placed.at[MEM], mem) || !read_at(placed.at[OBJ], obj))
        return false;
    bool was_in_doubt = placed.is_in_doubt;
    placed.is_in_doubt = false;
    if (has_functions(mem, &ours) && has_functions(obj, &ours))
        return true;
    if (memcmp(mem, &real, sizeof real) == 0 || memcmp(obj, &real, sizeof real) == 0)
        return false;
    if (leads_to_ours(mem[0]) && leads_to_ours(obj[0]))
        return true;
    bool called = atomic_exchange_explicit(&is_called, false, memory_order_relaxed);
    bool is_first = placed.state == HW_RING_OBJECTS_PLACED && !was_in_doubt;
    placed.is_in_doubt = is_first || called;
    return placed.is_in_doubt;
}

/* The usual case, at the cost of few system calls. */
static bool has_ours(void)
{
    uint64_t words[N_WORDS];
    return placed.runtime != 0 && !placed.is_in_doubt && read_at(placed.at[MEM], words) &&
           has_functions(words, &ours) && read_at(placed.at[OBJ], words) &&
           has_functions(words, &ours);
}

static enum hw_ring_objects state_now(const struct hw_python_place *at)
{
    struct table t;
    if (placed.state == HW_RING_OBJECTS_PLACED && has_ours())
        return HW_RING_OBJECTS_PLACED;
    if (!is_interpreter(at) || !is_configured(at))
        return HW_RING_OBJECTS_NONE;
    if (placed.runtime && is_placed(at))
        return HW_RING_OBJECTS_PLACED;
    if (placed.state == HW_RING_OBJECTS_PLACED)
        return HW_RING_OBJECTS_LOST;
    if (!read_table(at, &t))
        return HW_RING_OBJECTS_UNKNOWN;
    enum hw_ring_objects s = judge(&t, atomic_load_explicit(&at->eval_lo, memory_order_relaxed));
    return s == HW_RING_OBJECTS_NONE ? put_ours(at, &t) : s;
}

/* ---- when ---- */

/* The generation of a session that wants the heap; 0 = there is none. */
static uint32_t wanted_by(void)
{
    struct hw_client_guard v;
    uint32_t generation = 0;
    hw_enter(&v);
    if (v.session && !v.nested && hw_heaps_wants_python(v.session))
        generation = v.session->generation;
    hw_leave(&v);
    return generation;
}

static void say(uint32_t generation, enum hw_ring_objects state)
{
    struct hw_client_guard v;
    hw_enter(&v);
    if (v.session && v.session->generation == generation)
        atomic_store_explicit(&v.session->ring.shm->objects, state, memory_order_relaxed);
    hw_leave(&v);
}

static HW_COLD void place(void)
{
    uint32_t now = atomic_load_explicit(&hw_control.generation, memory_order_relaxed);
    uint32_t generation = wanted_by();
    uint32_t rest = REST_SETTLED;
    if (generation != 0 && generation != placed.generation) {
        placed.generation = generation;
        placed.state = HW_RING_OBJECTS_NONE;
        placed.n_tries = 0;
        placed.is_in_doubt = false;
        atomic_store_explicit(&is_called, false, memory_order_relaxed);
    }
    if (generation != 0 && placed.state != HW_RING_OBJECTS_LOST &&
        placed.state != HW_RING_OBJECTS_UNKNOWN) {
        enum hw_ring_objects state = state_now(&hw_control.python);
        if (state != placed.state)
            say(generation, state);
        placed.state = state;
        if (state == HW_RING_OBJECTS_NONE) /* it begins just now, or is loaded and not used */
            rest = placed.n_tries++ < EARLY_TRIES ? 0 : REST_UNSETTLED;
        else if (state == HW_RING_OBJECTS_OTHERS)
            rest = REST_UNSETTLED;
        else if (state == HW_RING_OBJECTS_PLACED)
            rest = placed.is_in_doubt ? REST_IN_DOUBT : REST_PLACED;
    }
    atomic_store_explicit(&hw_python_objects_rest, rest, memory_order_relaxed);
    atomic_store_explicit(&hw_python_objects_generation, now, memory_order_relaxed);
}

static HW_COLD void read_again(void)
{
    uint32_t generation = wanted_by();
    if (generation == 0 || generation != placed.generation ||
        placed.state != HW_RING_OBJECTS_PLACED || has_ours() || is_placed(&hw_control.python))
        return;
    placed.state = HW_RING_OBJECTS_LOST;
    say(generation, placed.state);
}

/* One thread at a time, and none in code of ours. */
static void visit(bool is_exit)
{
    int saved = errno;
    uint32_t none = 0;
    bool is_ours = hw_here.flags & (HW_TLS_OURS | HW_TLS_SUPPRESSED | HW_TLS_OBJECT);
    if (hw_here.busy == 0 && !is_ours && !hw_sandbox() &&
        hw_stack_has_room((uint64_t)(uintptr_t)__builtin_frame_address(0)) &&
        atomic_compare_exchange_strong(&hw_process_page.objects_lock, &none, 1)) {
        if (is_exit)
            read_again();
        else
            place();
        atomic_store(&hw_process_page.objects_lock, 0);
    }
    errno = saved;
}

void hw_python_objects_place(void)
{
    visit(/* is_exit = */ false);
}

void hw_python_objects_exit(void)
{
    if (hw_python_is_on())
        visit(/* is_exit = */ true);
}

bool hw_python_objects_remove(void)
{
    uint64_t words[N_WORDS];
    uint32_t none = 0;
    if (!atomic_compare_exchange_strong(&hw_process_page.objects_lock, &none, 1))
        return false; /* perhaps the very thread that was stopped for us: it never comes by waiting */
    if (placed.runtime != 0 && read_at(placed.at[MEM], words) && read_at(placed.at[OBJ], words)) {
        (void)exchange(placed.at[MEM], &ours, &real);
        (void)exchange(placed.at[OBJ], &ours, &real);
    }
    atomic_store(&hw_process_page.objects_lock, 0);
    return true;
}

#endif
