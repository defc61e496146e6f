/*
 * radix.h - 10^7 numbered records sorted in tenths of a second
 *
 * Shapes:  records of 16 or 32 bytes that begin with a uint64_t, the key; the rest goes along.
 *          Equal keys keep their order.
 * Errors:  HW_ENOMEM: a second array is needed; the records are as they were.
 * Cost:    one pass over the records for each 11 bits in which keys differ.
 */
#ifndef HW_BASE_MEMORY_RADIX_H
#define HW_BASE_MEMORY_RADIX_H

#include <stddef.h>
#include <stdint.h>

struct hw_radix16 {
    uint64_t key;
    uint32_t a, b;
};

int hw_radix_sort16(struct hw_radix16 *records, size_t n);
int hw_radix_sort32(void *records, size_t n);

#endif
