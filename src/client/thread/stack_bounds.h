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

#include "unwind/walk.h"

/* No path from a hook takes more: tools/check-stack counts it in the built library. */
#define HW_STACK_NEEDED 2048u

struct hw_slab;

/* As far as it is known to be mapped; lo decreases as the stack is seen to grow. */
extern __attribute__((visibility("hidden"))) struct hw_walk_range hw_main_stack;

struct hw_stack {
    uint64_t hi; /* all from sp to here is mapped */
    bool known;  /* hi is its end */
    bool alternate;
};

void hw_stacks_init(void); /* in the constructor */
struct hw_stack hw_stack_of(struct hw_slab *slab, uint64_t sp);
/* Extends a stack whose end is unknown by at least one page, or gives false. */
bool hw_stack_extend(struct hw_stack *k, uint64_t sp, uint32_t n_bytes, uint64_t most);
/* HW_STACK_NEEDED bytes below sp, as far as is known. */
bool hw_stack_has_room(uint64_t sp);
/* If the kernel may be asked: are we in a handler on an alternate stack? */
bool hw_stack_is_alternate(void);

#endif
