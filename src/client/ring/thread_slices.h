/*
 * thread_slices.h - beginnings and ends of scopes in time
 */
#ifndef HW_CLIENT_RING_THREAD_SLICES_H
#define HW_CLIENT_RING_THREAD_SLICES_H

#include "client/client.h"

/* True: it was recorded, so its end must be, too. Both keep errno. */
bool hw_slice_begin(struct hw_slab *slab, const struct heapwise_mark *m, uint32_t depth);
void hw_slice_end(struct hw_slab *slab, uint32_t depth);
/* Sends the batch of a thread that ends. */
void hw_slices_thread_ends(struct hw_slab *slab);

#endif
