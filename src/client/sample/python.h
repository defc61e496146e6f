/*
 * python.h - replaces the interpreter's own frames by Python's functions
 *
 * Why:     a Python program's native stack consists of _PyEval_EvalFrameDefault. What each of them
 *          ran is in the thread's chain of frames, which we read ourselves: no call into the
 *          interpreter, no lock, no allocation.
 * Shapes:  ids as in wire/records.h; the same function and line has the same id.
 * Owns:    nothing; struct hw_python lies in each thread's slab, all zero at first.
 * Errors:  if a chain does not fit the native stack, that stays as it is, and is counted.
 * Threads: one struct hw_python has one thread. Inside a visit.
 * Source:  doc/design/python.md
 */
#ifndef HW_CLIENT_SAMPLE_PYTHON_H
#define HW_CLIENT_SAMPLE_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "wire/records.h"

struct hw_mixed_stack;
struct hw_client_session;
struct hw_walk_out;

#define HW_PYTHON_CALLS_BITS 8u   /* log2 of the pairs of places in code that are remembered */
#define HW_PYTHON_NATIVES    256u /* pairs of native stacks, a power of two */

/* Walks are numbered, evenly. The odd bit: good for the next walk, too, as the code object is a sampled block. */
#define HW_PYTHON_NEXT    2u
#define HW_PYTHON_TRUSTED 1u

/* One cache line. Unused: code 0, which no frame has. */
struct hw_python_call {
    uint64_t instr, code;
    uint64_t file, name, lines; /* the objects that the code object has */
    uint64_t print;             /* of what they hold: memory is reused */
    uint64_t walk;              /* in which it was compared last */
    uint64_t id;
} __attribute__((aligned(64)));

struct hw_python_native {
    uint64_t stack_id;
    uint16_t n_evals;
    uint16_t n_inner;  /* frames that go with them */
    uint16_t n_own;    /* Python: evaluations of the greenlet that runs; 0 = none runs */
    uint16_t n_frames; /* its frames */
};

struct hw_python {
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
    struct hw_python_native natives[HW_PYTHON_NATIVES][2]; /* the newer one first, as below */
    struct hw_python_call calls[1u << HW_PYTHON_CALLS_BITS][2];
    char function[HW_NAME_MAX_BYTES + 8], file[HW_NAME_MAX_BYTES + 8]; /* text that is not ASCII */
};

/* Of each sample, before the others. NULL: of a thread without one. */
void hw_python_sampled(struct hw_python *p);
/* Does hw_python_find_frames() need no more than the id of this stack? */
bool hw_python_knows(const struct hw_client_session *s, const struct hw_python *p,
                     uint64_t stack_id);
/* Stores Python's part of a walked stack in *p and gives its hash, 0 = there is none. */
uint64_t hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                               struct hw_python *p);
/* The same of a stack that is sent as a copy from sp on, and cannot be walked here: false = there is none. The recorder inserts it. */
bool hw_python_read_chain(struct hw_client_session *s, struct hw_python *p, uint64_t sp,
                          uint64_t hi, struct hw_copy_chain *out);
/* Inserts that part into the stack. */
void hw_python_insert(const struct hw_python *p, struct hw_mixed_stack *m);

#endif
