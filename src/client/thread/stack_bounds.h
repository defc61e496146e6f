/*
 * stack_bounds.h - the stack that a hook was called on: where it ends, and how much of it is left
 *
 * Why:     we are guests on it. What we read of it must be mapped, and what we put on it must have
 *          room: a fiber of 8 KiB, a handler on an alternate stack, a thread that has used up its
 *          own.
 * Units:   addresses of the target.
 * Threads: any. errno is kept by hw_stack_has_room and hw_stack_is_alternate only.
 * Source:  doc/design/client.md
 */
#ifndef HW_CLIENT_THREAD_STACK_BOUNDS_H
#define HW_CLIENT_THREAD_STACK_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "unwind/walk.h"

/* No path from a hook takes more: tools/check-stack counts it in the built library. */
#define HW_STACK_NEEDED 2048u

/* As far as it is known to be mapped; lo decreases as the stack is seen to grow. */
extern __attribute__((visibility("hidden"))) struct hw_walk_range hw_main_stack;

struct hw_stack {
    uint64_t hi; /* all from sp to here is mapped */
    bool known;  /* hi is its end */
    bool alternate;
};

void hw_stacks_init(void); /* in the constructor */
HW_COLD struct hw_stack hw_stack_find(struct hw_slab *slab, uint64_t sp);
HW_COLD bool hw_stack_probe_room(uint64_t sp);

static inline bool hw_stack_inside(uint64_t a, uint64_t lo, uint64_t hi)
{
    return a - lo < hi - lo;
}

static inline bool hw_stack_is_known(const struct hw_slab *slab, uint64_t sp, struct hw_stack *out)
{
    bool own = slab && hw_stack_inside(sp, slab->stack_lo, slab->stack_hi);
    if (!own && !hw_stack_inside(sp, hw_main_stack.lo, hw_main_stack.hi))
        return false;
    *out = (struct hw_stack){own ? slab->stack_hi : hw_main_stack.hi, true, false};
    return true;
}

static inline struct hw_stack hw_stack_of(struct hw_slab *slab, uint64_t sp)
{
    struct hw_stack k;
    return hw_likely(hw_stack_is_known(slab, sp, &k)) ? k : hw_stack_find(slab, sp);
}

/* Extends a stack whose end is unknown by at least one page, or gives false. */
bool hw_stack_extend(struct hw_stack *k, uint64_t sp, uint32_t n_bytes, uint64_t most);
/* HW_STACK_NEEDED bytes below sp, as far as is known. */
static inline bool hw_stack_has_room(uint64_t sp)
{
    const struct hw_slab *slab = hw_here.slab;
    uint64_t low = sp - HW_STACK_NEEDED;
    return hw_likely(hw_stack_inside(low, hw_main_stack.lo, hw_main_stack.hi) ||
                     (slab && hw_stack_inside(low, slab->stack_lo, slab->stack_hi))) ||
           hw_stack_probe_room(sp);
}

/* If the kernel may be asked: are we in a handler on an alternate stack? */
bool hw_stack_is_alternate(void);

#endif
