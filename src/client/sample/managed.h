/*
 * managed.h - which runtimes put managed frames into a stack
 *
 * Why:     between the walk of a sampled stack and its record, runtimes insert their own frames:
 *          Java by an agent's source (include/heapwise/managed_frames.h), others by code in the
 *          client.
 * Threads: one hw_mixed_stack has one thread. Inside a visit; see doc/architecture.md, "In the target".
 */
#ifndef HW_CLIENT_SAMPLE_MANAGED_H
#define HW_CLIENT_SAMPLE_MANAGED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "client/ring/mixed.h"
#include "heapwise/managed_frames.h"
#include "unwind/walk.h"

struct hw_slab;
struct hw_chain;
struct hw_client_session;
struct hw_call_site;

/* Has a runtime registered a source of frames? */
extern __attribute__((visibility("hidden"))) _Atomic uint32_t hw_managed_on;

/* The walked stack with the frames that runtimes report; false: they report none. *m may still
 * have to be built. */
bool hw_managed_mix(struct hw_client_session *s, const struct hw_call_site *site,
                    const struct hw_walk_out *o, struct hw_chain *chain, struct hw_mixed_stack *m);
/* The same of an interpreter alone, which needs no more of the walked stack than its id, if hw_python_knows() that. */
bool hw_managed_mix_interpreter(struct hw_client_session *s, const struct hw_walk_out *o,
                                struct hw_chain *chain, struct hw_mixed_stack *m);
/* That stack, or the walked one alone, with the program's marks inserted. */
bool hw_managed_mark(struct hw_client_session *s, const struct hw_walk_out *o,
                     const struct hw_slab *slab, struct hw_mixed_stack *m);
void hw_managed_build(const struct hw_walk_out *o, const struct hw_chain *chain,
                      struct hw_mixed_stack *m);
/* Why the stack that is sent now, as a copy or not, has no managed frames. */
void hw_managed_count(struct hw_client_session *s, struct hw_mixed_stack *m, bool copied);
/* From now on this thread is not sampled: what it allocates is ours, not the program's. */
void hw_managed_suppress_thread(void);
bool hw_managed_suppress(bool suppressed); /* returns the previous state */

/* Python's interpreter is known and its frames are wanted. */
static inline bool hw_python_is_on(void)
{
#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)
    return atomic_load_explicit(&hw_control.python.eval_hi, memory_order_acquire) != 0;
#else
    return false;
#endif
}

static inline bool hw_ruby_is_on(void)
{
#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)
    return atomic_load_explicit(&hw_control.ruby.exec_hi, memory_order_acquire) != 0;
#else
    return false;
#endif
}

static inline bool hw_php_is_on(void)
{
#if UINTPTR_MAX == UINT64_MAX && !defined(HW_BARE)
    return atomic_load_explicit(&hw_control.php.exec_hi, memory_order_acquire) != 0;
#else
    return false;
#endif
}

/* A process has one at most: the recorder names the one that it found first. */
static inline bool hw_interpreter_is_on(void)
{
    return hw_python_is_on() || hw_ruby_is_on() || hw_php_is_on();
}

#endif
