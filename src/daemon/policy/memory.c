#include "daemon/policy/memory.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/files/machine_memory.h"
#include "proc/pid.h"

#include "base/banned.h"

#define KNOWN_NS UINT64_C(10000000000) /* limits of control groups are files */

/* Read for each program that starts, and four times a second. */
static uint64_t there_is(void)
{
    static _Atomic uint64_t bytes, until_ns; /* two threads may both look: the same */
    uint64_t now = hw_now_monotonic_ns();
    if (now >= atomic_load(&until_ns)) {
        atomic_store(&bytes, hw_machine_memory());
        atomic_store(&until_ns, now + KNOWN_NS);
    }
    return atomic_load(&bytes);
}

uint64_t hw_memory_of_one_target(void)
{
    return there_is() / 4;
}

uint64_t hw_memory_of_recorder(void)
{
    return there_is() / 2;
}

uint64_t hw_memory_own(void)
{
    struct hw_proc_status st = {0};
    (void)hw_proc_own_status(&st); /* unreadable: treated as no limit */
    return (st.rss_anon_kb + st.vm_swap_kb) * 1024;
}
