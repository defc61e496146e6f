/*
 * slabs.h - the memory of the threads that sample
 */
#ifndef HW_CLIENT_THREAD_SLABS_H
#define HW_CLIENT_THREAD_SLABS_H

#include "client/client.h"

struct hw_slab *hw_slab_get(void); /* the thread's; NULL when there is none for it */
/* For one sample of a thread that has released its own; NULL when there is none. */
struct hw_slab *hw_slab_borrow(void);
void hw_slab_return(struct hw_slab *s);
bool hw_slabs_idle(void);                  /* no thread is inside a visit */
void hw_slabs_reset(struct hw_slab *mine); /* in a forked child: only this thread is left */
/* thread_ends: what libc calls with the slab of a thread that ends. */
int hw_slabs_init(void (*thread_ends)(void *slab));
/* For that destructor: true = it is called again later; false = the slab can be left. */
bool hw_slab_is_kept(struct hw_slab *slab);
void hw_slab_leave(struct hw_slab *slab);
uint64_t hw_slabs_bytes(void); /* address space that the slabs of some threads take */
void hw_slabs_each_mapping(void (*fn)(void *arg, const void *at, uint64_t n_bytes), void *arg);

#endif
