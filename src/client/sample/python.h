/*
 * python.h - replaces the interpreter's own frames by Python's functions
 *
 * Why:     a Python program's native stack consists of _PyEval_EvalFrameDefault. What each of them
 *          ran is in the thread's chain of frames, which we read ourselves: no call into the
 *          interpreter, no lock, no allocation.
 * Shapes:  ids as in wire/records.h; the same function and line has the same id.
 * Owns:    nothing.
 * Errors:  if a chain does not fit the native stack, that stays as it is, and is counted.
 * Threads: one struct hw_chain has one thread. Inside a visit.
 * Source:  doc/design/python.md
 */
#ifndef HW_CLIENT_SAMPLE_PYTHON_H
#define HW_CLIENT_SAMPLE_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "client/interpreters/chain.h"
#include "wire/records.h"

struct hw_mixed_stack;
struct hw_client_session;
struct hw_walk_out;

/* Walks are numbered, evenly. The odd bit: good for the next walk, too, as the code object is a sampled block. */
#define HW_PYTHON_NEXT    2u
#define HW_PYTHON_TRUSTED 1u

/* Of each sample, before the others. NULL: of a thread without one. */
void hw_python_sampled(struct hw_chain *p);
/* Stores Python's part of a walked stack in *p and gives its hash, 0 = there is none. */
uint64_t hw_python_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                               struct hw_chain *p);
/* The same of a stack that is sent as a copy from sp on, and cannot be walked here: false = there is none. The recorder inserts it. */
bool hw_python_read_chain(struct hw_client_session *s, struct hw_chain *p, uint64_t sp, uint64_t hi,
                          struct hw_copy_chain *out);
/* Inserts that part into the stack. */
void hw_python_insert(const struct hw_chain *p, struct hw_mixed_stack *m);

#endif
