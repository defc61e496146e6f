/*
 * raw_call.h - into the kernel, past libc
 *
 * Why:     what we put into other programs must not call functions by names that are theirs:
 *          libfaketime's clock_gettime, a library's mmap with a lock of its own.
 * Errors:  -errno, as the kernel gives them; errno is left alone.
 * Threads: any; no cancellation point.
 */
#ifndef HW_BASE_FILES_RAW_CALL_H
#define HW_BASE_FILES_RAW_CALL_H

/* Gives what the kernel gives: -errno for an error. Needs nothing that the loader has to do first.
 */
#if defined(__i386__)
long hw_raw_call(long n, long a, long b, long c, long d, long e, long f)
    __attribute__((visibility("hidden")));
#else
static inline long hw_raw_call(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long rc;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#else
    register long x8 __asm__("x8") = n;
    register long rc __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(rc)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
#endif
    return rc;
}
#endif

#endif
