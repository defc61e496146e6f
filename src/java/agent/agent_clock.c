/*
 * agent_clock.c - time and waits by the kernel's own clocks
 *
 * libc's clock_gettime, nanosleep and sem_timedwait may be replaced in here (libfaketime),
 * and the process may be in a time namespace: what is read is good for durations only. Waits give a
 * duration, never an absolute time.
 */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/files/raw_call.h"
#include "java/agent/agent.h"

#include "base/banned.h"

static struct timespec of_ms(unsigned ms)
{
    return (struct timespec){ms / 1000, (long)(ms % 1000) * 1000000};
}

uint64_t agent_now_ns(int clock)
{
    struct timespec t;
    (void)hw_raw_call(SYS_clock_gettime, clock, (long)&t, 0, 0, 0, 0); /* cannot fail for these */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void agent_rest(unsigned ms)
{
    struct timespec t = of_ms(ms);
    (void)hw_raw_call(SYS_ppoll, 0, 0, (long)&t, 0, 0, 0); /* a signal only shortens it */
}

void agent_count_up(_Atomic uint32_t *n)
{
    atomic_fetch_add(n, 1);
    (void)hw_raw_call(SYS_futex, (long)n, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0); /* wakes one or none */
}

static bool count_down(_Atomic uint32_t *n)
{
    uint32_t have = atomic_load(n);
    while (have != 0)
        if (atomic_compare_exchange_weak(n, &have, have - 1))
            return true;
    return false;
}

bool agent_count_down(_Atomic uint32_t *n, unsigned ms)
{
    struct timespec t = of_ms(ms);
    if (count_down(n))
        return true;
    (void)hw_raw_call(SYS_futex, (long)n, FUTEX_WAIT_PRIVATE, 0, (long)&t, 0, 0); /* likewise */
    return count_down(n);
}
