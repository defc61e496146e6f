/* prepare.c - what we ask the kernel only once */
#include <linux/membarrier.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kernel/process_limits.h"
#include "client/kernel/sys.h"

uint64_t hw_random_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = hw_local_ns() ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)&seed;
    return seed;
}

/* Costs a grace period of the kernel's with several threads; nothing after that. */
void hw_membarrier_prepare(void)
{
    (void)hw_kernel(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}
