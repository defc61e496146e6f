/*
 * now.h - the client's clocks
 *
 * Why:     clock_gettime may be replaced in here (libfaketime), and a target may be in a time
 *          namespace of its own. So we call the kernel's function as the kernel maps it, and
 *          convert what we tell the recorder to the recorder's clock, by the offset that the
 *          handshake measured (struct hw_client_session, ahead_ns). Local times are good for
 *          durations only.
 * Units:   ns of CLOCK_MONOTONIC.
 * Threads: any; no lock, no system call where the kernel has a vdso.
 */
#ifndef HW_CLIENT_KERNEL_NOW_H
#define HW_CLIENT_KERNEL_NOW_H

#include <stdint.h>
#include <time.h>

#include "client/client.h"
#include "wire/control_page.h"

/* In the constructor, before anything asks for the time. NULL: by a system call. */
void hw_clock_init(void *of_kernel);
HW_HIDDEN uint64_t hw_local_clock_ns(clockid_t id);
#define hw_local_ns()        hw_local_clock_ns(CLOCK_MONOTONIC)
#define hw_local_coarse_ns() hw_local_clock_ns(CLOCK_MONOTONIC_COARSE)

/* The vdso's clocks are no system calls; but the fine one reads the processor's counter, and
 * strict seccomp forbids that instruction, too. If we do not see the program enter it (a static
 * one that enters the kernel by itself) we always use the coarse one. */
static inline uint64_t hw_local_sandbox_ns(void)
{
#ifdef HW_BARE
    return hw_local_coarse_ns();
#else
    return hw_sandbox() == HW_SANDBOX_STRICT ? hw_local_coarse_ns() : hw_local_ns();
#endif
}

/* On the recorder's clock. */
static inline uint64_t hw_client_session_coarse_ns(const struct hw_client_session *s)
{
    return hw_local_coarse_ns() + s->ahead_ns;
}

static inline uint64_t hw_client_session_ns(const struct hw_client_session *s)
{
    return hw_local_sandbox_ns() + s->ahead_ns;
}

#endif
