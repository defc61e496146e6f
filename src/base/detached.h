/*
 * detached.h - threads that nobody waits for
 *
 * Why:     what may block for as long as another user likes (a close, a write, a file system) is done by a
 *          thread that can be given up.
 * Shapes:  it gets no signals: these are the main thread's. Who shares memory with it counts its users, since
 *          nothing tells when it ends.
 * Errors:  false: there is none (memory, a limit on threads); fn was not called.
 * Threads: any.
 */
#ifndef HW_BASE_DETACHED_H
#define HW_BASE_DETACHED_H

#include <stdbool.h>
#include <stddef.h>

#define HW_DETACHED_SMALL ((size_t)128 << 10) /* a stack for a few system calls */

/* stack_bytes: 0 = as threads have it. */
bool hw_detached_run(void *(*fn)(void *), void *arg, size_t stack_bytes);

#endif
