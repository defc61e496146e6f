/*
 * limits.h - what the program's limits leave to us, and what is asked of the kernel once
 */
#ifndef HW_CLIENT_KERNEL_LIMITS_H
#define HW_CLIENT_KERNEL_LIMITS_H

#include "client/client.h"

/* May so much address space be ours? Where the program may use little (RLIMIT_AS), 1 / share. */
bool hw_may_take(uint64_t n_bytes, uint32_t share);
/* Is whatever is mapped now there at once, and to stay? */
bool hw_locks_what_comes(void);
uint64_t hw_random_seed(void);    /* another one each time */
void hw_membarrier_prepare(void); /* while there is one thread: with several it costs more */

#endif
