/* limits.c - what the program's limits leave to us */
#include <sys/mman.h>
#include <sys/resource.h>

#include "client/client.h"
#include "client/kernel/limits.h"

#define ONE_PAGE 4096

bool hw_fits_address_limit(uint64_t n_bytes, uint32_t share)
{
    struct rlimit lim;
    return getrlimit(RLIMIT_AS, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY ||
           n_bytes <= lim.rlim_cur / share;
}

/* A large map that is used here and there would be there whole (mlockall with MCL_FUTURE). Nobody
 * says so; but locked pages cannot be thrown away. */
bool hw_locks_future_maps(void)
{
    void *p = mmap(NULL, ONE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return true; /* the limit of locked memory */
    bool locked = madvise(p, ONE_PAGE, MADV_DONTNEED) != 0;
    (void)munmap(p, ONE_PAGE);
    return locked;
}
