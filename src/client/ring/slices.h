/*
 * slices.h - beginnings and ends of scopes in time
 */
#ifndef HW_CLIENT_RING_SLICES_H
#define HW_CLIENT_RING_SLICES_H

#include "client/client.h"

/* Is it on its way to the recorder? Then its end is to be told, too. Both keep errno. */
bool hw_slice_begin(struct hw_slab *slab, const struct heapwise_mark *m, uint32_t depth);
void hw_slice_end(struct hw_slab *slab, uint32_t depth);
/* What a thread that ends has gathered is sent. */
void hw_slices_thread_ends(struct hw_slab *slab);

#endif
