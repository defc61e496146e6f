/*
 * kernel.h - system calls, made by the client itself
 *
 * Why:     libc's functions are called by name, and in here a name may be the program's own
 *          function, which takes a lock that the caller of malloc holds, or returns what it likes.
 *          So the client makes no system call through them. What the shared sources call by libc's
 *          names (mmap, fstat, ...) is defined in kernel_names.c, hidden: nobody outside sees it.
 * Threads: any; no lock, no cancellation point.
 */
#ifndef HW_CLIENT_KERNEL_KERNEL_H
#define HW_CLIENT_KERNEL_KERNEL_H

#include <sys/syscall.h>

#include "base/files/raw_call.h"

/* As libc's syscall(2): -1 and errno. */
long hw_kernel_call(long n, long a, long b, long c, long d, long e, long f);

/* syscall(2) as the program would get it. */
extern __attribute__((visibility("hidden"))) long (*hw_real_syscall)(long, long, long, long, long,
                                                                     long, long);

/* Number and up to six arguments, as syscall(2). Omitted ones are 0. */
#define hw_kernel(...) HW_KERNEL_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)
#define HW_KERNEL_(n, a, b, c, d, e, f, ...)                                                       \
    hw_kernel_call(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* Once, before anything asks for the page size. */
void hw_kernel_init(void);

/* Memory of ours among the program's: without huge pages since Linux 6.7 (MAP_STACK), as a few
 * bytes would use 2 MiB. Whoever maps it calls own_memory.h. */
#define HW_OWN_MEMORY (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK)

#endif
