/*
 * tables.h - the memory file with unwind tables of one target
 *
 * Why:     the target maps one file once; tables and lists of modules are appended and published.
 * Shapes:  unwind/table.h. Sparse: only what was written costs memory. The file is sealed against
 *          shrinking, growing and further writing mappings before its descriptor is given away.
 * Threads: main thread writes; drain threads and the target read what was published.
 */
#ifndef HW_DAEMON_TABLES_H
#define HW_DAEMON_TABLES_H

#include <stdint.h>

#include "base/map64.h"
#include "base/vec.h"
#include "unwind/table.h"

struct hw_module_file;

struct hw_tables {
    int fd;       /* owned; -1 after it was given away */
    uint8_t *map; /* HW_TABLES_BYTES; owned */
    uint64_t used;
    uint32_t generation;
    struct hw_map64 offsets;       /* struct hw_module_file * → offset of its table */
    HW_VEC(struct hw_module) last; /* as published */
};

/* One executable range; file may be NULL (no file, no table). */
struct hw_table_range {
    uint64_t lo, hi, bias;
    struct hw_module_file *file;
};

int hw_tables_init(struct hw_tables *t, uint32_t arch);
void hw_tables_done(struct hw_tables *t);
/* Appends tables that are new and publishes the list when it differs from the last one. 1 = was
 * published, 0 = nothing new. ranges: sorted, disjoint. HW_ELIMIT: the file is full; what was
 * published stays. */
int hw_tables_publish(struct hw_tables *t, const struct hw_table_range *ranges, size_t n);
/* What is published was read when so many dlcloses of the target were over, and none under way. */
void hw_tables_seen(struct hw_tables *t, uint32_t closes);

#endif
