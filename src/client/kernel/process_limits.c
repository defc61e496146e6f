/* process_limits.c - what the program's limits leave for us */
#include <sys/mman.h>
#include <sys/resource.h>

#include "client/client.h"
#include "client/kernel/process_limits.h"

#define ONE_PAGE 4096

bool hw_fits_address_limit(uint64_t n_bytes, uint32_t share)
{
    struct rlimit lim;
    return getrlimit(RLIMIT_AS, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY ||
           n_bytes <= lim.rlim_cur / share;
}

/* With mlockall's MCL_FUTURE a large, sparsely used map would be resident as a whole. Nothing
 * reports that flag; but locked pages cannot be discarded. */
bool hw_locks_future_maps(void)
{
    void *p = mmap(NULL, ONE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return true; /* the limit of locked memory */
    bool locked = madvise(p, ONE_PAGE, MADV_DONTNEED) != 0;
    (void)munmap(p, ONE_PAGE);
    return locked;
}
