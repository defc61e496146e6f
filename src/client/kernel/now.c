/*
 * now.c - the kernel's clock, as the kernel maps it
 *
 * One function calls it, so tools/check-stack sees everything called through this pointer.
 */
#include "client/kernel/now.h"

#include "client/kernel/kernel.h"

#define LOOK_NS 1000

_Static_assert(sizeof(time_t) == sizeof(long), "the layout that the kernel's function fills");

/* Without the kernel's function. In a sandbox no system call may be made: the clock then
 * advances with each reading, so that a wait for a time ends. */
static int by_call(clockid_t id, struct timespec *out)
{
    static _Atomic uint64_t last_ns;
    if (hw_sandbox()) {
        uint64_t ns = atomic_fetch_add(&last_ns, LOOK_NS);
        *out = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
        return 0;
    }
    int rc = (int)hw_kernel(SYS_clock_gettime, id, out);
    atomic_store(&last_ns, (uint64_t)out->tv_sec * 1000000000u + (uint64_t)out->tv_nsec);
    return rc;
}

static int (*kernel_clock)(clockid_t, struct timespec *) = by_call;

void hw_clock_init(void *of_kernel)
{
    if (of_kernel)
        *(void **)&kernel_clock = of_kernel;
}

uint64_t hw_local_clock_ns(clockid_t id)
{
    struct timespec ts;
    (void)kernel_clock(id, &ts); /* cannot fail for the fixed ids used here */
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
