/*
 * ruby.h - replaces the interpreter's own frames by Ruby's methods and blocks
 *
 * Why:     a Ruby program's native stack consists of rb_vm_exec and what it calls. Which methods
 *          each of these ran is in the thread's control frames, which we read ourselves.
 * Shapes:  as chain.h: a process has one interpreter.
 * Errors:  if the frames do not fit the native stack, or may not be read at this moment, that
 *          stays as it is, and is counted.
 * Threads: as chain.h.
 * Source:  doc/design/ruby.md
 */
#ifndef HW_CLIENT_INTERPRETERS_RUBY_H
#define HW_CLIENT_INTERPRETERS_RUBY_H

#include <stdint.h>

struct hw_client_session;
struct hw_mixed_stack;
struct hw_chain;
struct hw_walk_out;

/* Stores Ruby's part of a walked stack in *p and gives its hash, 0 = there is none. */
uint64_t hw_ruby_find_frames(struct hw_client_session *s, const struct hw_walk_out *o,
                             struct hw_chain *p);
/* Inserts that part into the stack. */
void hw_ruby_insert(const struct hw_chain *p, struct hw_mixed_stack *m);

#endif
