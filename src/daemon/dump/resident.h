/*
 * resident.h - how much of each call's mappings is in memory
 *
 * Why:     mmap.anon counts address space: a runtime's reserved gigabytes count whole. What a
 *          process really holds is what is resident, and the report has to name who mapped it.
 * Shapes:  the account's mappings have their resident bytes (smaps), the ranges have their calls. A mapping of one call
 *          gives it all its bytes. The kernel joins neighbours: for a mapping of several calls the
 *          page map decides. If that cannot be read, the bytes are divided as in the last
 *          measurement, else by size, and those bytes are counted.
 * Units:   bytes.
 * Owns:    its lists; hw_resident_done frees them. Zero-initialised is empty.
 * Errors:  HW_ENOMEM.
 * Cost:    O(n log n) of n ranges, O(maps).
 * Threads: pure.
 */
#ifndef HW_DAEMON_DUMP_RESIDENT_H
#define HW_DAEMON_DUMP_RESIDENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/code/blocking_reader.h"
#include "daemon/dump/measured_heap.h"

struct hw_resident_part {
    uint32_t stack;
    size_t map;     /* number of the mapping */
    double by_size; /* bytes, if nothing measured them */
};

struct hw_resident {
    struct hw_measured_heap *to; /* borrowed */
    HW_VEC(struct hw_reading_range)
    ask; /* parts of mappings of several calls: pages to be counted */
    HW_VEC(struct hw_resident_part) parts; /* of ask */
    uint64_t divided_bytes;
};

/* Mappings in order of address; mapped is put in order. */
int hw_resident_divide(struct hw_resident *r, const hw_reading_maps *maps, hw_mapped_list *mapped);
/* With the pages of ask counted, or HW_PAGES_UNKNOWN. */
int hw_resident_count(struct hw_resident *r, uint64_t page_bytes);
void hw_resident_done(struct hw_resident *r);

#endif
