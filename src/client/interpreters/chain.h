/*
 * chain.h - what a thread remembers of its interpreter, of Python, Ruby or PHP, and the stack it found last
 *
 * Shapes:  ids as in wire/records.h; the same function and line has the same id.
 * Owns:    nothing; one lies in each thread's slab, all zero at first. A process has one interpreter.
 * Threads: one struct hw_chain has one thread.
 */
#ifndef HW_CLIENT_INTERPRETERS_CHAIN_H
#define HW_CLIENT_INTERPRETERS_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "wire/records.h"

#define HW_CHAIN_CALLS_BITS 8u   /* log2 of the pairs of places in code that are remembered */
#define HW_CHAIN_NATIVES    256u /* pairs of native stacks, a power of two */

/* One cache line. Unused: code 0, which no frame has. */
struct hw_chain_call {
    uint64_t instr, code;
    uint64_t file, name, lines; /* the objects that the code object has */
    uint64_t print;             /* of what they hold: memory is reused */
    uint64_t walk;              /* in which it was compared last */
    uint64_t id;
} __attribute__((aligned(64)));

struct hw_chain_native {
    uint64_t stack_id;
    uint16_t n_evals;
    uint16_t n_inner;  /* frames that go with them */
    uint16_t n_own;    /* Python: evaluations of the greenlet that runs; 0 = none runs */
    uint16_t n_frames; /* its frames */
};

struct hw_chain {
    uint32_t generation; /* of the session that has the names of the calls below */
    uint32_t n_parts;
    uint32_t n_ids;
    uint32_t n_evals; /* in the native stack */
    uint32_t n_inner;
    uint32_t n_frames;          /* of the stack, if the rest of it is another greenlet's; else 0 */
    uint64_t thread, variable;  /* Ruby: where this thread's context is named (ruby.c) */
    uint64_t walk;              /* one number is left out if something was allocated in between */
    uint32_t n_samples, walked; /* of the thread; the one of the last walk */
    bool is_next;               /* every allocation is sampled, the last one by this thread */
    uint16_t ends[HW_MAX_FRAMES]; /* of each evaluation's part, innermost first */
    uint64_t ids[HW_MAX_FRAMES];
    struct hw_chain_native natives[HW_CHAIN_NATIVES][2]; /* the newer one first, as below */
    struct hw_chain_call calls[1u << HW_CHAIN_CALLS_BITS][2];
    char function[HW_NAME_MAX_BYTES + 8], file[HW_NAME_MAX_BYTES + 8]; /* text that is not ASCII */
};

static inline const struct hw_chain_native *hw_chain_find_native(const struct hw_chain *p,
                                                                 uint64_t stack_id)
{
    const struct hw_chain_native *pair = p->natives[stack_id % HW_CHAIN_NATIVES];
    if (__builtin_expect(pair[0].stack_id == stack_id, 1))
        return &pair[0];
    return pair[1].stack_id == stack_id ? &pair[1] : NULL;
}

/* Is no more than the id of this stack needed? generation: of the session. */
static inline bool hw_chain_knows(const struct hw_chain *p, uint32_t generation, uint64_t stack_id)
{
    return p->generation == generation && hw_chain_find_native(p, stack_id) != NULL;
}

#endif
