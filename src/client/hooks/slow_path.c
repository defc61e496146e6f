/*
 * slow_path.c - a sample is due, a generation changed, or a freed block may be sampled
 *
 * An allocation is reported after the real call and only if that succeeded; a free before it, since
 * the address may be used again at once. The real call is made outside of any visit: an exception
 * of operator new passes through here.
 */
#include "client/hooks/slow_path.h"

#include <errno.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/jvm_start.h"
#include "client/hooks/python_objects.h"
#include "client/hooks/sample_due.h"
#include "client/ring/push.h"
#include "client/sample/capture.h"
#include "client/sample/heap_table.h"
#include "client/sample/live_set.h"
#include "client/sample/probes.h"
#include "client/sample/sampler.h"
#include "client/thread/client_guard.h"

#define PAGE_BYTES 4096u /* as the recorder's rules have it */

#ifdef HW_BARE
#define load_java_library() ((void)0) /* no thread here, and no loader */
#else
static HW_COLD void load_java_library(void)
{
    int saved = errno;
    if (!hw_launcher_is_creating_vm())
        hw_java_load_library();
    errno = saved;
}
#endif

static __attribute__((noinline)) void record(void *p, size_t n, uint64_t weight, uint32_t flags,
                                             const struct hw_call_site *site)
{
    struct hw_event e = {.id = (uint64_t)(uintptr_t)p,
                         .size = n,
                         .weight = weight,
                         .heap_id = HW_HEAP_ID_LIBC,
                         .flags = flags,
                         .site = site};
    bool recorded = hw_record_alloc(&e); /* else it is counted there */
    if (hw_unlikely(recorded && hw_java_due(site)))
        load_java_library();
}

static inline void report(void *p, size_t n, uint64_t weight, uint32_t flags,
                          const struct hw_call_site *site)
{
    if (hw_unlikely(!p && n))
        hw_push_failed(n);
    if (p && weight != HW_NOT_SAMPLED)
        record(p, n, weight, flags, site);
    if (hw_unlikely(hw_python_objects_due()))
        hw_python_objects_place();
}

HW_SLOW __attribute__((noinline)) void *hw_slow_alloc(size_t n, void *(*real)(size_t))
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    void *p = real(n);
    report(p, n, weight, 0, &site);
    return p;
}

/* memalign rounds an alignment up to a power of two. */
static uint32_t aligned_to(size_t align)
{
    if (align <= 8) /* as malloc does */
        return 0;
    return (uint32_t)(64 - __builtin_clzll((uint64_t)align - 1)) << HW_ALLOC_TAKES_SHIFT;
}

HW_SLOW __attribute__((noinline)) void *hw_slow_valloc(size_t n, void *(*real)(size_t))
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    void *p = real(n);
    report(p, n, weight, aligned_to(PAGE_BYTES), &site);
    return p;
}

HW_SLOW __attribute__((noinline)) void *hw_slow_pvalloc(size_t n, void *(*real)(size_t))
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    void *p = real(n);
    report(p, n, weight, aligned_to(PAGE_BYTES) | HW_ALLOC_WHOLE_PAGES << HW_ALLOC_TAKES_SHIFT,
           &site);
    return p;
}

HW_SLOW __attribute__((noinline)) void *hw_slow_new_nothrow(size_t n, size_t nothrow,
                                                            void *(*real)(size_t, size_t))
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    void *p = real(n, nothrow);
    report(p, n, weight, 0, &site);
    return p;
}

HW_SLOW __attribute__((noinline)) void *hw_slow_new_aligned(size_t n, size_t align,
                                                            void *(*real)(size_t, size_t))
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    void *p = real(n, align);
    report(p, n, weight, aligned_to(align), &site);
    return p;
}

HW_SLOW __attribute__((noinline)) void *
hw_slow_new_aligned_nothrow(size_t n, size_t align, size_t nothrow,
                            void *(*real)(size_t, size_t, size_t))
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    void *p = real(n, align, nothrow);
    report(p, n, weight, aligned_to(align), &site);
    return p;
}

HW_SLOW __attribute__((noinline)) void *hw_slow_calloc(size_t n, size_t size)
{
    HW_SITE(site);
    size_t whole = n * size; /* the hook has checked that it fits */
    uint64_t weight = hw_sampler_take(whole, site.sp);
    void *p = hw_real.calloc(n, size);
    report(p, whole, weight, 0, &site);
    return p;
}

HW_SLOW __attribute__((noinline)) void *hw_slow_aligned(size_t align, size_t n,
                                                        void *(*real)(size_t, size_t))
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    void *p = real(align, n);
    report(p, n, weight, aligned_to(align), &site);
    return p;
}

HW_SLOW __attribute__((noinline)) int hw_slow_posix_memalign(void **out, size_t align, size_t n)
{
    HW_SITE(site);
    uint64_t weight = hw_sampler_take(n, site.sp);
    int rc = hw_real.posix_memalign(out, align, n);
    if (rc == 0 || rc == ENOMEM)
        report(rc == 0 ? *out : NULL, n, weight, aligned_to(align), &site);
    return rc;
}

struct hw_held hw_hold(uint32_t heap_id, const void *p)
{
    struct hw_held h = {0};
    struct hw_client_guard v;
    int saved = errno;
    if (!p || !hw_live_set_maybe((uint64_t)(uintptr_t)p))
        return h;
    hw_enter(&v);
    h.epoch = hw_live_set_epoch();
    h.slot = hw_live_set_take(heap_id, (uint64_t)(uintptr_t)p, &h.val);
    hw_leave(&v);
    errno = saved;
    return h;
}

/* After the real call. The old sample's free names an id, so it cannot mean another block. If
 * the set was unmapped meanwhile, its session is over, too. */
void hw_let_go(const struct hw_held *h, uint32_t heap_id, uint64_t id, bool failed)
{
    struct hw_client_guard v;
    int saved = errno;
    hw_enter(&v);
    bool is_there = hw_live_set_is_since(h->epoch);
    if (is_there && failed) { /* the old block still exists */
        hw_live_set_put_back(h->slot, heap_id, id, h->val);
    } else if (is_there) {
        if (v.session && h->val >> 48 == v.session->tag)
            hw_push_free(v.session, h->val & 0xffffffffffffu);
        hw_live_set_drop(h->slot, id);
    }
    hw_leave(&v);
    errno = saved;
}

HW_SLOW __attribute__((noinline)) void *hw_slow_realloc(void *p, size_t n)
{
    HW_SITE(site);
    if (hw_boot_arena_owns(p))
        return hw_boot_arena_move(p, n);
    if (n <= HW_PYTHON_SMALL) /* that of a table of arenas is larger */
        hw_here.flags &= ~(uint32_t)HW_TLS_OBJECT;
    uint64_t weight = hw_due(n) ? hw_sampler_take(n, site.sp) : HW_NOT_SAMPLED;
    uint64_t id = (uint64_t)(uintptr_t)p;
    struct hw_held old = hw_hold(HW_HEAP_ID_LIBC, p);
    /* Readers of the probes know blocks by their address: report it before it may be used again. */
    if (old.slot && hw_probes_want_free())
        hw_probes_free(id);
    void *q = hw_real.realloc(p, n);
    if (old.slot)
        hw_let_go(&old, HW_HEAP_ID_LIBC, id, /* failed = */ !q && n != 0);
    report(q, n, weight, HW_ALLOC_REALLOC, &site);
    return q;
}

/* The counter of p's address is not zero: perhaps it is sampled. false = nothing to free. */
static bool report_freed(void *p)
{
    if (hw_boot_arena_owns(p))
        return false;
    if (p)
        hw_report_free(HW_HEAP_ID_LIBC, (uint64_t)(uintptr_t)p);
    return true;
}

HW_SLOW void hw_slow_free(void *p, void (*real)(void *))
{
    if (report_freed(p))
        real(p);
}

HW_SLOW void hw_slow_free_arg(void *p, size_t a, void (*real)(void *, size_t))
{
    if (report_freed(p))
        real(p, a);
}

HW_SLOW void hw_slow_free_args(void *p, size_t a, size_t b, void (*real)(void *, size_t, size_t))
{
    if (report_freed(p))
        real(p, a, b);
}
