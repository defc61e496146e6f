/*
 * stack_bounds.c - bounds of stacks, without calling libc
 *
 * pthread_getattr_np would give a thread's, but it takes a lock, allocates and opens files: with a
 * lock of the program's held around malloc (a wrapper of malloc in front of us) that is a deadlock.
 * RLIMIT_STACK would give the main one's, but it may be raised while the program runs, and then
 * other mappings lie in the range that it covers. So only what was seen counts:
 *
 *   main stack     [lowest page seen, __libc_stack_end)    only the process's first thread asks
 *   a thread's     [lowest page seen, its own descriptor)  libc puts that at the stack's upper end,
 *                                                          whoever has made the stack
 *   alternate      what sigaltstack says
 *   anything else  fibers: the end of sp's own page, and while the walk leads further, the next
 *                  pages, each tried. Nothing is kept of it.
 *
 * "Seen" is: every page from sp up to what was known before can be read. A fiber's stack has
 * something unmapped, or a guard, between itself and the thread's; what was found out about it is
 * remembered only to avoid trying again. Stacks only grow while a thread lives, so each page is
 * tried once.
 *
 * Pages are tried upwards: touching memory below the main stack would make the kernel extend it.
 */
#include "client/thread/stack_bounds.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "client/client.h"
#include "client/kernel/sys.h"

#define PAGE_BYTES 4096u           /* the smallest there is */
#define MOST_BYTES (1024ull << 20) /* of a stack that is tried page by page */

HW_HIDDEN struct hw_walk_range hw_main_stack;
static uint64_t main_limit; /* the lowest address that it was allowed at the start */
static uint64_t main_top;   /* the first thread's descriptor, which is not on its stack */

extern void *__libc_stack_end; /* of the loader */

static uint64_t page_of(uint64_t at)
{
    return at & ~(uint64_t)(PAGE_BYTES - 1);
}

#ifdef HW_BARE
static uint64_t descriptor(void)
{
    return hw_bare_tp();
}
#else
static uint64_t descriptor(void)
{
    return (uint64_t)(uintptr_t)pthread_self();
}
#endif

static bool is_first_thread(void)
{
    return hw_kernel(SYS_gettid) == getpid();
}

void hw_stacks_init(void)
{
    struct rlimit lim;
    uint64_t most = MOST_BYTES, hi = (uint64_t)(uintptr_t)__libc_stack_end;
    if (getrlimit(RLIMIT_STACK, &lim) == 0 && lim.rlim_cur < most)
        most = lim.rlim_cur;
    hw_main_stack = (struct hw_walk_range){hi ? page_of(hi - 1) : 0, hi};
    main_limit = hi > most ? hi - most : 0;
    if (is_first_thread())
        main_top = descriptor();
}

/* From the page above `at` to `end`; gives the first that cannot be read, or end. */
static uint64_t readable_up_to(uint64_t at, uint64_t end)
{
    uint64_t p = page_of(at) + PAGE_BYTES;
    while (p < end && hw_sys_readable(p))
        p += PAGE_BYTES;
    return p < end ? p : end;
}

/* sp lies below what is known to be mapped: is it the same stack? */
static bool grows_to(struct hw_slab *slab, uint64_t sp, uint64_t known)
{
    uint64_t end = readable_up_to(sp, known);
    if (end == known)
        return true;
    slab->foreign_lo = page_of(sp);
    slab->foreign_hi = end;
    return false;
}

/* Where our own frames are is mapped, too: hw_stack_has_room has checked. */
static uint64_t lowest(uint64_t sp)
{
    return page_of(sp - HW_STACK_NEEDED);
}

static HW_COLD bool learn_bounds(struct hw_slab *slab, uint64_t sp)
{
    uint64_t top = descriptor();
    if (hw_stack_inside(sp, slab->foreign_lo, slab->foreign_hi))
        return false;
    if (is_first_thread()) {
        if (!hw_stack_inside(sp, main_limit, hw_main_stack.hi) ||
            !grows_to(slab, sp, hw_main_stack.lo))
            return false;
        hw_main_stack.lo = lowest(sp);
        return true;
    }
    uint64_t known = slab->stack_hi ? slab->stack_lo : top;
    if (top == main_top || sp >= known || known - sp > MOST_BYTES || !grows_to(slab, sp, known))
        return false;
    slab->stack_lo = lowest(sp);
    slab->stack_hi = top;
    return true;
}

HW_COLD struct hw_stack hw_stack_find(struct hw_slab *slab, uint64_t sp)
{
    struct hw_stack k = {page_of(sp) + PAGE_BYTES, false, false};
    if (hw_sandbox())
        return k;
    stack_t ss;
    if (sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_DISABLE) == 0) {
        uint64_t lo = (uint64_t)(uintptr_t)ss.ss_sp;
        if (hw_stack_inside(sp, lo, lo + ss.ss_size))
            return (struct hw_stack){lo + ss.ss_size, true, true};
    }
    if (slab && learn_bounds(slab, sp))
        (void)hw_stack_is_known(slab, sp, &k);
    return k;
}

HW_COLD bool hw_stack_extend(struct hw_stack *k, uint64_t sp, uint32_t n_bytes, uint64_t most)
{
    uint64_t before = k->hi;
    if (k->known || hw_sandbox())
        return false;
    while (k->hi - before < n_bytes && k->hi - sp < most && hw_sys_readable(k->hi))
        k->hi += PAGE_BYTES;
    return k->hi != before;
}

/* A page below the known ones that sp's call needs was tried. Without this each call from there
 * would try it again: two system calls per sample, at half of all places where a stack may
 * begin. */
static void remember_room(uint64_t sp)
{
    struct hw_slab *slab = hw_here.slab;
    if (slab && hw_stack_inside(sp, slab->stack_lo, slab->stack_hi))
        slab->stack_lo = lowest(sp);
    else if (hw_stack_inside(sp, hw_main_stack.lo, hw_main_stack.hi))
        hw_main_stack.lo = lowest(sp);
}

/* Below what we know: an alternate stack has an end, and so has one that a guard page closes.
 * Nothing is known about a fiber without one, and programs that create them leave that much for
 * a call. */
HW_COLD bool hw_stack_probe_room(uint64_t sp)
{
    if (hw_sandbox())
        return true;
    stack_t ss = {0};
    int saved = errno;
    bool room;
    if (sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_ONSTACK) != 0)
        room = sp - (uint64_t)(uintptr_t)ss.ss_sp >= HW_STACK_NEEDED;
    else
        room = hw_sys_readable((sp - HW_STACK_NEEDED) & ~7ull);
    if (room && (ss.ss_flags & SS_ONSTACK) == 0)
        remember_room(sp);
    errno = saved;
    return room;
}

HW_COLD bool hw_stack_is_alternate(void)
{
    stack_t ss;
    int saved = errno;
    bool on = !hw_sandbox() && sigaltstack(NULL, &ss) == 0 && (ss.ss_flags & SS_ONSTACK) != 0;
    errno = saved;
    return on;
}
