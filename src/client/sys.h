/*
 * sys.h - system calls made directly
 *
 * Why:     libc's connect, recvmsg, poll, close and nanosleep are cancellation points. A thread
 *          that is being cancelled must not be unwound out of the malloc it called.
 * Errors:  as libc's: -1 and errno.
 */
#ifndef HW_CLIENT_SYS_H
#define HW_CLIENT_SYS_H

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "wire/control_page.h"

static inline int hw_sys_close(int fd)
{
    return (int)syscall(SYS_close, fd);
}

static inline int hw_sys_connect(int fd, const void *addr, socklen_t n)
{
    return (int)syscall(SYS_connect, fd, addr, n);
}

static inline long hw_sys_send(int fd, const void *p, size_t n)
{
    return syscall(SYS_sendto, fd, p, n, MSG_NOSIGNAL, NULL, 0);
}

static inline long hw_sys_recvmsg(int fd, struct msghdr *m, int flags)
{
    return syscall(SYS_recvmsg, fd, m, flags);
}

static inline int hw_sys_fcntl(int fd, int op, long arg)
{
    return (int)syscall(SYS_fcntl, fd, op, arg);
}

static inline int hw_sys_poll(struct pollfd *p, int64_t timeout_ns)
{
    struct timespec ts = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
    return (int)syscall(SYS_ppoll, p, 1, &ts, NULL, 0);
}

static inline void hw_sys_sleep_ns(long ns)
{
    struct timespec ts = {0, ns};
    (void)syscall(SYS_nanosleep, &ts, NULL); /* a signal only makes the wait shorter */
}

/* The vdso's clocks are no calls; but the fine one reads the processor's counter, and strict
 * seccomp forbids that instruction, too. enum hw_sandbox. */
static inline uint64_t hw_sys_now_ns(uint32_t sandbox)
{
    return sandbox == HW_SANDBOX_STRICT ? hw_now_monotonic_coarse_ns() : hw_now_monotonic_ns();
}

/* A step of a wait; where no call may be made, the processor waits. */
static inline void hw_sys_step_ns(long ns, uint32_t sandbox)
{
    if (sandbox == HW_SANDBOX_NONE) {
        hw_sys_sleep_ns(ns);
        return;
    }
    uint64_t end = hw_sys_now_ns(sandbox) + (uint64_t)ns;
    while (hw_sys_now_ns(sandbox) < end)
        __asm__ volatile("" ::: "memory");
}

#endif
