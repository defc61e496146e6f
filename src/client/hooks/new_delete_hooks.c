/*
 * new_delete_hooks.c - operator new and delete
 *
 * libstdc++'s reach malloc by themselves. jemalloc, tcmalloc and mimalloc define them beside their
 * malloc and do not go through it (1-5 of 100,001 calls were seen by a malloc hook alone): only
 * then are they hooked, and only then does the process get to see ours (patch.c). Elsewhere a
 * program would find an operator new where there is none, and a plug-in would get another one than
 * its own. So these always call the allocator's, which is there from the start and never unloaded.
 *
 * Compiled with unwind tables, since the real functions throw through us. They are named by their
 * mangled names; C++ is not needed for that.
 *
 *      m = size_t, Pv = void *, St11align_val_t = alignment, RKSt9nothrow_t = const nothrow &
 *
 * All parameters are one register wide, so one prototype serves for alignment and nothrow.
 */
#include <stdint.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/patch.h"
#include "client/hooks/slow_path.h"
#include "client/kernel/write_stderr.h"
#include "client/sample/live_set.h"
#include "client/sample/sampler.h"

#if __SIZEOF_SIZE_T__ == 8
#define M "m"
#else
#define M "j"
#endif

/* own: it does not pass through a function that is hooked anyway. */
struct next {
    void *fn;
    bool own;
};

static HW_COLD void *find_next(struct next *x, const char *name)
{
    void *fn = hw_operator_real(name);
    if (!fn) { /* nobody was given our address */
        hw_write_stderr("heapwise: operator new or delete is hooked without being known");
        __builtin_trap();
    }
    x->own = true;
    atomic_signal_fence(memory_order_seq_cst);
    __atomic_store_n(&x->fn, fn, __ATOMIC_RELEASE);
    return fn;
}

static inline void *next_of(struct next *x, const char *name)
{
    void *fn = __atomic_load_n(&x->fn, __ATOMIC_RELAXED);
    return hw_likely(fn != NULL) ? fn : find_next(x, name);
}

/*
 * The same for operator new. Some allocators' own do call a function that we hook (jemalloc 5.3:
 * the aligned ones call aligned_alloc by its public name) and would be counted twice. One try
 * tells: a hook on the way changes this thread's countdown. The block of the try is never freed,
 * since some allocators require the matching function for that.
 */
static HW_COLD void *find_next_new(struct next *x, const char *name)
{
    struct next found = {0};
    void *fn = find_next(&found, name);
    struct hw_tls *t = &hw_here;
    const uint64_t plenty = 1ull << 40;
    uint64_t left = t->left;
    t->left = plenty;
    void *volatile p = ((void *(*)(size_t, size_t, size_t))fn)(64, 64, 64);
    (void)p;
    found.own = t->left == plenty;
    if (t->left <= plenty && t->left >= plenty - 128) /* else it met a new session */
        t->left = left;
    x->own = found.own;
    __atomic_store_n(&x->fn, fn, __ATOMIC_RELEASE);
    return fn;
}

static inline void *next_new_of(struct next *x, const char *name)
{
    void *fn = __atomic_load_n(&x->fn, __ATOMIC_RELAXED);
    return hw_likely(fn != NULL) ? fn : find_next_new(x, name);
}

typedef void *(*new1)(size_t);
typedef void *(*new2)(size_t, size_t);
typedef void *(*new3)(size_t, size_t, size_t);
typedef void (*del1)(void *);
typedef void (*del2)(void *, size_t);
typedef void (*del3)(void *, size_t, size_t);

/*
 * When we are preloaded, the names belong to a version that nobody refers to, and are hidden: the
 * loader skips them, whatever version it looks for, until patch.c shows them. See exports.map.
 */
#ifdef HW_BARE
#define SHOW(id, name) extern __typeof(hook_##id) shown_##id __asm__(name)
#else
#define SHOW(id, name)                                                                             \
    __asm__(".symver shown_" #id ", " name "@HEAPWISE_HIDDEN");                                    \
    extern __typeof(hook_##id) shown_##id
#endif
#define HOOK(result, id, name, ...)                                                                \
    static struct next next_##id;                                                                  \
    HW_HIDDEN result hook_##id(__VA_ARGS__);                                                       \
    SHOW(id, name) __attribute__((alias("hook_" #id), visibility("default")));                     \
    HW_HIDDEN result hook_##id(__VA_ARGS__)

#define NEW1(id, name)                                                                             \
    HOOK(void *, id, name, size_t n)                                                               \
    {                                                                                              \
        new1 real = (new1)next_new_of(&next_##id, name);                                           \
        if (next_##id.own && hw_unlikely(hw_due(n)))                                               \
            return hw_slow_alloc(n, real);                                                         \
        return real(n);                                                                            \
    }
#define NEW2(id, name, slow)                                                                       \
    HOOK(void *, id, name, size_t n, size_t a)                                                     \
    {                                                                                              \
        new2 real = (new2)next_new_of(&next_##id, name);                                           \
        if (next_##id.own && hw_unlikely(hw_due(n)))                                               \
            return slow(n, a, real);                                                               \
        return real(n, a);                                                                         \
    }
#define NEW3(id, name)                                                                             \
    HOOK(void *, id, name, size_t n, size_t a, size_t b)                                           \
    {                                                                                              \
        new3 real = (new3)next_new_of(&next_##id, name);                                           \
        if (next_##id.own && hw_unlikely(hw_due(n)))                                               \
            return hw_slow_new_aligned_nothrow(n, a, b, real);                                     \
        return real(n, a, b);                                                                      \
    }

static inline bool sampled(const struct next *x, const void *p)
{
    return x->own && hw_unlikely(hw_live_set_maybe((uint64_t)(uintptr_t)p));
}

#define DEL1(id, name)                                                                             \
    HOOK(void, id, name, void *p)                                                                  \
    {                                                                                              \
        del1 real = (del1)next_of(&next_##id, name);                                               \
        if (sampled(&next_##id, p)) {                                                              \
            hw_slow_free(p, real);                                                                 \
            return;                                                                                \
        }                                                                                          \
        real(p);                                                                                   \
    }
#define DEL2(id, name)                                                                             \
    HOOK(void, id, name, void *p, size_t a)                                                        \
    {                                                                                              \
        del2 real = (del2)next_of(&next_##id, name);                                               \
        if (sampled(&next_##id, p)) {                                                              \
            hw_slow_free_arg(p, a, real);                                                          \
            return;                                                                                \
        }                                                                                          \
        real(p, a);                                                                                \
    }
#define DEL3(id, name)                                                                             \
    HOOK(void, id, name, void *p, size_t a, size_t b)                                              \
    {                                                                                              \
        del3 real = (del3)next_of(&next_##id, name);                                               \
        if (sampled(&next_##id, p)) {                                                              \
            hw_slow_free_args(p, a, b, real);                                                      \
            return;                                                                                \
        }                                                                                          \
        real(p, a, b);                                                                             \
    }

NEW1(new, "_Znw" M)
NEW1(new_array, "_Zna" M)
NEW2(new_nothrow, "_Znw" M "RKSt9nothrow_t", hw_slow_new_nothrow)
NEW2(new_array_nothrow, "_Zna" M "RKSt9nothrow_t", hw_slow_new_nothrow)
NEW2(new_aligned, "_Znw" M "St11align_val_t", hw_slow_new_aligned)
NEW2(new_array_aligned, "_Zna" M "St11align_val_t", hw_slow_new_aligned)
NEW3(new_aligned_nothrow, "_Znw" M "St11align_val_tRKSt9nothrow_t")
NEW3(new_array_aligned_nothrow, "_Zna" M "St11align_val_tRKSt9nothrow_t")

DEL1(del, "_ZdlPv")
DEL1(del_array, "_ZdaPv")
DEL2(del_sized, "_ZdlPv" M)
DEL2(del_array_sized, "_ZdaPv" M)
DEL2(del_nothrow, "_ZdlPvRKSt9nothrow_t")
DEL2(del_array_nothrow, "_ZdaPvRKSt9nothrow_t")
DEL2(del_aligned, "_ZdlPvSt11align_val_t")
DEL2(del_array_aligned, "_ZdaPvSt11align_val_t")
DEL3(del_sized_aligned, "_ZdlPv" M "St11align_val_t")
DEL3(del_array_sized_aligned, "_ZdaPv" M "St11align_val_t")
DEL3(del_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t")
DEL3(del_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t")
