/*
 * malloc_hooks.c - the malloc family
 *
 * Each hook is a load of the control page's generation, one subtraction in thread-local memory and
 * their branches, then a jump to the real function; each free is one load of a byte. Nothing is
 * kept across the jump, so a hook has no frame of its own (see slow_path.h; tools/check-client
 * checks it).
 */
#include <stdlib.h>
#include <unistd.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/slow_path.h"
#include "client/sample/live_set.h"
#include "client/sample/sampler.h"

/* The C library declares these with attributes (nonnull, malloc) that would let the compiler
 * remove our own checks; the hooks are therefore defined under other names. Each starts on a
 * cache line, so that what always runs fits in one: 0.5 ns for a pair of malloc and free. */
#define HOOK(result, name, ...)                                                                    \
    HW_EXPORT result hook_##name(__VA_ARGS__) __asm__(#name);                                      \
    HW_EXPORT __attribute__((aligned(64))) result hook_##name(__VA_ARGS__)

static inline bool maybe_live(const void *p)
{
    return hw_unlikely(hw_live_set_maybe((uint64_t)(uintptr_t)p));
}

HOOK(void *, malloc, size_t n)
{
    if (hw_unlikely(hw_due(n)))
        return hw_slow_alloc(n, hw_real.malloc);
    return hw_real.malloc(n);
}

HOOK(void, free, void *p)
{
    if (maybe_live(p)) {
        hw_slow_free(p, hw_real.free);
        return;
    }
    hw_real.free(p);
}

HOOK(void *, calloc, size_t n, size_t size)
{
    size_t whole;
    if (hw_likely(!__builtin_mul_overflow(n, size, &whole)) && hw_unlikely(hw_due(whole)))
        return hw_slow_calloc(n, size);
    return hw_real.calloc(n, size);
}

HOOK(void *, realloc, void *p, size_t n)
{
    /* hw_due took nothing from the countdown when it returned true: the slow path asks again. */
    if (maybe_live(p) || hw_unlikely(hw_due(n)))
        return hw_slow_realloc(p, n);
    return hw_real.realloc(p, n);
}

/* Overflow is for the real function to refuse. */
HOOK(void *, reallocarray, void *p, size_t n, size_t size)
{
    size_t whole;
    if (hw_unlikely(__builtin_mul_overflow(n, size, &whole)))
        return hw_real.reallocarray(p, n, size);
    if (maybe_live(p) || hw_unlikely(hw_due(whole)))
        return hw_slow_realloc(p, whole);
    return hw_real.realloc(p, whole);
}

HOOK(int, posix_memalign, void **out, size_t align, size_t n)
{
    if (hw_unlikely(hw_due(n)))
        return hw_slow_posix_memalign(out, align, n);
    return hw_real.posix_memalign(out, align, n);
}

HOOK(void *, aligned_alloc, size_t align, size_t n)
{
    if (hw_unlikely(hw_due(n)))
        return hw_slow_aligned(align, n, hw_real.aligned_alloc);
    return hw_real.aligned_alloc(align, n);
}

HOOK(void *, memalign, size_t align, size_t n)
{
    if (hw_unlikely(hw_due(n)))
        return hw_slow_aligned(align, n, hw_real.memalign);
    return hw_real.memalign(align, n);
}

HOOK(void *, valloc, size_t n)
{
    if (hw_unlikely(hw_due(n)))
        return hw_slow_valloc(n, hw_real.valloc);
    return hw_real.valloc(n);
}

HOOK(void *, pvalloc, size_t n)
{
    if (hw_unlikely(hw_due(n)))
        return hw_slow_pvalloc(n, hw_real.pvalloc);
    return hw_real.pvalloc(n);
}

HOOK(void, free_sized, void *p, size_t n)
{
    if (maybe_live(p)) {
        hw_slow_free_arg(p, n, hw_real.free_sized);
        return;
    }
    hw_real.free_sized(p, n);
}

HOOK(void, free_aligned_sized, void *p, size_t align, size_t n)
{
    if (maybe_live(p)) {
        hw_slow_free_args(p, align, n, hw_real.free_aligned_sized);
        return;
    }
    hw_real.free_aligned_sized(p, align, n);
}
