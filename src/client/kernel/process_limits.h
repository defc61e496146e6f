/* process_limits.h - what the program's limits leave for us, and what we ask the kernel only once */
#ifndef HW_CLIENT_KERNEL_PROCESS_LIMITS_H
#define HW_CLIENT_KERNEL_PROCESS_LIMITS_H

#include "client/client.h"

/* Is it at most 1 / share of what RLIMIT_AS allows the program? */
bool hw_fits_address_limit(uint64_t n_bytes, uint32_t share);
/* Are new mappings populated and locked at once (mlockall with MCL_FUTURE)? */
bool hw_locks_future_maps(void);
uint64_t hw_random_seed(void);    /* another one each time */
void hw_membarrier_prepare(void); /* while there is one thread: with several it costs more */

#endif
