/*
 * freestanding.h - the client without libc
 *
 * Why:     a static program has no loader that would load libc for us, or give us thread-local
 *          memory. So this build of the client (HW_BARE) makes all its system calls itself, and
 *          finds a thread's words by its thread pointer in a table.
 * Shapes:  a thread that starts where another has ended (same thread pointer) continues with that
 *          one's words: countdowns have no memory, and the stack's end is the same. Its id is not:
 *          that is compared with the one in libc's descriptor (thread_id.c).
 * Threads: any; an entry is claimed by compare-and-swap and never released. A thread that finds
 *          none (the table is full of other thread pointers) is not sampled.
 */
#ifndef HW_CLIENT_FREESTANDING_FREESTANDING_H
#define HW_CLIENT_FREESTANDING_FREESTANDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"

#define HW_BARE_BITS 14u

struct hw_bare_thread {
    _Atomic uintptr_t tp; /* 0 = nobody's */
    struct hw_tls tls;
    char pad[128 - sizeof(uintptr_t) - sizeof(struct hw_tls)];
};
extern HW_HIDDEN struct hw_bare_thread hw_bare_threads[1u << HW_BARE_BITS];
extern HW_HIDDEN struct hw_tls hw_bare_no_thread; /* of threads that found none */

struct hw_tls *hw_bare_find(uintptr_t tp);
void hw_bare_forget_others(void); /* in a forked child */
void hw_bare_take_real(void);     /* from the block that the injector has filled */

static inline uint32_t hw_bare_index(uintptr_t tp)
{
    return (uint32_t)((uint64_t)tp * 0x9e3779b97f4a7c15u >> (64 - HW_BARE_BITS));
}

/* The processor's ABI: the word at the thread pointer is the thread pointer, for any libc. */
static inline uintptr_t hw_bare_tp(void)
{
    uintptr_t tp;
    __asm__("mov %%fs:0, %0" : "=r"(tp));
    return tp;
}

static inline struct hw_tls *hw_bare_tls(void)
{
    uintptr_t tp = hw_bare_tp();
    struct hw_bare_thread *t = &hw_bare_threads[hw_bare_index(tp)];
    return atomic_load_explicit(&t->tp, memory_order_relaxed) == tp ? &t->tls : hw_bare_find(tp);
}

#define hw_here (*hw_bare_tls())

#endif
