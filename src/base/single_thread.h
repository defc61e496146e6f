/*
 * single_thread.h - atomic changes that only a signal handler can come between
 *
 * Why:     a locked instruction waits until all stores before it have reached the cache. In a
 *          process with one thread there is nobody to be locked out: one instruction that reads and
 *          writes is enough, since a handler runs before or behind it.
 * Threads: none but the caller's may change the word; any, and other processes, may read it.
 */
#ifndef HW_BASE_SINGLE_THREAD_H
#define HW_BASE_SINGLE_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* As atomic_compare_exchange_strong. */
static inline bool hw_single_thread_cas_u64(_Atomic uint64_t *p, uint64_t *expected,
                                            uint64_t desired)
{
#if defined(__x86_64__)
    bool done;
    __asm__ volatile("cmpxchgq %3, %1"
                     : "=@ccz"(done), "+m"(*p), "+a"(*expected)
                     : "r"(desired)
                     : "memory");
    return done;
#else
    return atomic_compare_exchange_strong(p, expected, desired);
#endif
}

static inline bool hw_single_thread_cas_u8(_Atomic uint8_t *p, uint8_t *expected, uint8_t desired)
{
#if defined(__x86_64__)
    bool done;
    __asm__ volatile("cmpxchgb %3, %1"
                     : "=@ccz"(done), "+m"(*p), "+a"(*expected)
                     : "q"(desired)
                     : "memory");
    return done;
#else
    return atomic_compare_exchange_strong(p, expected, desired);
#endif
}

#endif
