/*
 * sys.h - system calls that are cancellation points in libc
 *
 * Why:     libc's connect, recvmsg, poll, close and nanosleep are cancellation points. A thread
 *          that is being cancelled must not be unwound out of the malloc it called.
 * Errors:  as libc's: -1 and errno.
 */
#ifndef HW_CLIENT_KERNEL_SYS_H
#define HW_CLIENT_KERNEL_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#include "client/kernel/kernel.h"
#include "client/kernel/now.h"
#include "wire/control_page.h"

static inline int hw_sys_close(int fd)
{
    return (int)hw_kernel(SYS_close, fd);
}

static inline int hw_sys_connect(int fd, const void *addr, socklen_t n)
{
    return (int)hw_kernel(SYS_connect, fd, addr, n);
}

static inline long hw_sys_send(int fd, const void *p, size_t n)
{
    return hw_kernel(SYS_sendto, fd, p, n, MSG_NOSIGNAL, NULL, 0);
}

static inline long hw_sys_recvmsg(int fd, struct msghdr *m, int flags)
{
    return hw_kernel(SYS_recvmsg, fd, m, flags);
}

static inline int hw_sys_fcntl(int fd, int op, long arg)
{
    return (int)hw_kernel(SYS_fcntl, fd, op, arg);
}

static inline int hw_sys_poll(struct pollfd *p, int64_t timeout_ns)
{
    struct timespec ts = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
    return (int)hw_kernel(SYS_ppoll, p, 1, &ts, NULL, 0);
}

/* Not nanosleep: that loses the remaining time when an attach interrupts it. */
static inline void hw_sys_sleep_ns(long ns)
{
    struct timespec ts = {0, ns};
    (void)hw_kernel(SYS_ppoll, NULL, 0, &ts, NULL, 0); /* a signal only makes the wait shorter */
}

/* No call says so without doing something. This one has an invalid first argument, but checks it
 * only after it has copied 8 bytes from the address: 0.1 us. */
static inline bool hw_sys_readable(uint64_t at)
{
    return hw_kernel(SYS_rt_sigprocmask, -1, (uintptr_t)at, NULL, 8) != 0 && errno == EINVAL;
}

/* One step of a wait; if no call may be made, the processor spins. */
static inline void hw_sys_step_ns(long ns, uint32_t sandbox)
{
    if (sandbox == HW_SANDBOX_NONE) {
        hw_sys_sleep_ns(ns);
        return;
    }
    uint64_t end = hw_local_sandbox_ns() + (uint64_t)ns;
    while (hw_local_sandbox_ns() < end)
        __asm__ volatile("" ::: "memory");
}

#endif
