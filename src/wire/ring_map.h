/*
 * ring_map.h - the ring's double mapping, for both halves of wire/
 *
 * Errors:  HW_ESYS with errno, HW_EFORMAT, HW_EVERSION.
 */
#ifndef HW_WIRE_RING_MAP_H
#define HW_WIRE_RING_MAP_H

#include "wire/ring.h"

/* The largest power of two under HW_RING_MAX_BYTES. */
#define HW_RING_LARGEST_BYTES (256u * 1024u * 1024u)

size_t hw_ring_head_bytes(void); /* bytes before the data: one page, at least 4096 */
bool hw_ring_size_ok(uint64_t data_bytes);
int hw_ring_map(int fd, uint64_t data_bytes, struct hw_ring_shm **shm, uint8_t **data);
size_t hw_ring_slots_bytes(void); /* of their part of the file */
int hw_ring_map_slots(int fd, uint64_t data_bytes, struct hw_slice_slot **out);
void hw_ring_unmap_slots(const struct hw_slice_slot *slots);      /* NULL is fine */
void hw_ring_unmap(struct hw_ring_shm *shm, uint64_t data_bytes); /* NULL is fine */

#endif
