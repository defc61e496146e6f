/* heaps.h - the program's own heaps, for java.c (wire/java_entrance.h) */
#ifndef HW_CLIENT_HOOKS_HEAPS_H
#define HW_CLIENT_HOOKS_HEAPS_H

#include "client/client.h"

/* A heap that is announced only to sessions that want it; 0 = there are too many. Callbacks may be NULL. */
uint32_t hw_heaps_make(const char *name, void (*enabled)(uint64_t), void (*disabled)(void));
bool hw_heaps_sample(uint32_t id, uint64_t alloc_id, uint64_t size, uint64_t weight);
void hw_heaps_sync(uint32_t id);

#endif
